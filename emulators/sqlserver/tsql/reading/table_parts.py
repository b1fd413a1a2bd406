"""What stands in the parentheses of CREATE TABLE and behind ALTER TABLE ... ADD: columns, keys, checks, references, defaults.

Options that change nothing here (file groups, index options) are read over; cascading foreign keys and the like are refused by name.
"""

from __future__ import annotations

from emulators.sqlserver.tsql.errors import unsupported
from emulators.sqlserver.tsql.reading import definitions as df
from emulators.sqlserver.tsql.reading.fragments import Fragment
from emulators.sqlserver.tsql.reading.reader import Reader
from emulators.sqlserver.tsql.reading.starts import STARTS
from emulators.sqlserver.tsql.reading.tokens import END, identifier
from emulators.sqlserver.tsql.values.types import INT

_TABLE_CONSTRAINTS = ("CONSTRAINT", "DEFAULT", "PRIMARY", "UNIQUE", "FOREIGN", "CHECK", "INDEX", "PERIOD")
_AFTER_DEFAULT = (
    "NULL",
    "NOT",
    "CONSTRAINT",
    "PRIMARY",
    "UNIQUE",
    "CHECK",
    "REFERENCES",
    "FOR",
    ",",
    ";",
    "COLLATE",
    "IDENTITY",
)


_OPTIONS = {"GENERATED": "GENERATED ALWAYS", "MASKED": "MASKED WITH", "ENCRYPTED": "ENCRYPTED WITH"}


class TableParts:
    """What the parentheses of CREATE TABLE, or the list behind ADD, hold."""

    def __init__(self) -> None:
        self.columns: list[df.ColumnSpec] = []
        self.keys: list[df.KeySpec] = []
        self.defaults: list[tuple[str, df.DefaultSpec]] = []
        self.checks: list[df.CheckSpec] = []
        self.foreign_keys: list[df.ForeignKeySpec] = []


def read_element(reader: Reader, found: TableParts) -> None:
    if reader.here.key in _TABLE_CONSTRAINTS:
        _table_constraint(reader, found)
        return
    found.columns.append(read_column(reader, found))


def _table_constraint(reader: Reader, found: TableParts) -> None:
    name = reader.name() if reader.accept("CONSTRAINT") else ""
    if reader.accept("DEFAULT"):
        spec = _default(reader, name)
        reader.expect("FOR")
        found.defaults.append((reader.name(), spec))
        if reader.accept("WITH"):
            reader.expect("VALUES")
        return
    if reader.accept("CHECK"):
        found.checks.append(_check(reader, name, ""))
        return
    if reader.accept("FOREIGN", "KEY"):
        columns, _ = key_columns(reader)
        reader.expect("REFERENCES")
        found.foreign_keys.append(_references(reader, name, columns))
        return
    primary = reader.accept("PRIMARY", "KEY")
    if not primary and not reader.accept("UNIQUE"):
        raise unsupported(f"{reader.here.key} constraint")
    clustered = clustering(reader)
    columns, descending = key_columns(reader)
    found.keys.append(df.KeySpec(columns, primary, name, descending, clustered))
    storage_options(reader)


def _check(reader: Reader, name: str, column: str) -> df.CheckSpec:
    reader.accept("NOT", "FOR", "REPLICATION")
    if not reader.at("("):
        raise reader.unexpected()
    begin = reader.position
    reader.skip_parentheses()
    tokens = reader.tokens[begin : reader.position]
    inner = reader.fragment(tokens, "SELECT CASE WHEN NOT ")
    condition = Fragment(inner.text + " THEN 1 END", inner.lifted, inner.variables)
    return df.CheckSpec(reader.text(tokens), condition, name, column)


def _references(reader: Reader, name: str, columns: tuple[str, ...]) -> df.ForeignKeySpec:
    table = reader.qualified()
    referenced = key_columns(reader)[0] if reader.at("(") else ()
    while reader.accept("ON"):
        event = reader.advance().key
        if not reader.accept("NO", "ACTION"):
            raise unsupported(f"ON {event} {reader.here.text.upper()}")
    reader.accept("NOT", "FOR", "REPLICATION")
    return df.ForeignKeySpec(columns, table, referenced, name)


def read_column(reader: Reader, found: TableParts) -> df.ColumnSpec:
    token = reader.here
    name = (
        identifier(token)
        if token.key in ("ROWVERSION", "TIMESTAMP") and reader.peek().key in (",", ")")
        else reader.name()
    )
    if reader.accept("AS"):
        return _computed(reader, name)
    kind = reader.type()
    nullable: bool | None = None
    identity: tuple[int, int] | None = None
    default: df.DefaultSpec | None = None
    constraint = collation = ""
    while True:
        if reader.accept("NULL"):
            nullable = True
        elif reader.accept("NOT", "NULL"):
            nullable = False
        elif reader.accept("NOT", "FOR", "REPLICATION") or reader.accept("ROWGUIDCOL") or reader.accept("SPARSE"):
            pass
        elif reader.accept("COLLATE"):
            collation = reader.name()
        elif reader.accept("IDENTITY"):
            identity = _identity(reader)
        elif reader.accept("CONSTRAINT"):
            constraint = reader.name()
        elif reader.accept("DEFAULT"):
            default, constraint = _default(reader, constraint), ""
            if reader.accept("WITH"):
                reader.expect("VALUES")
        elif _column_constraint(reader, found, constraint, name):
            constraint = ""
        elif reader.here.key in (",", ")", ";") or reader.here.kind == END or reader.here.key in STARTS:
            return df.ColumnSpec(name, kind, nullable, identity, default, collation=collation)
        else:
            raise unsupported(f"{_OPTIONS.get(reader.here.key, reader.here.text)} on a column")


def _column_constraint(reader: Reader, found: TableParts, constraint: str, column: str) -> bool:
    """A CHECK, REFERENCES, PRIMARY KEY or UNIQUE behind a column, put into `found`; False when none stands here.

    With columns of its own it is the table's: the comma before a table's constraint may be missing."""
    if reader.accept("CHECK"):
        found.checks.append(_check(reader, constraint, column))
    elif reader.at("REFERENCES") or reader.at("FOREIGN", "KEY"):
        listed = reader.accept("FOREIGN", "KEY") and reader.at("(")
        columns = key_columns(reader)[0] if listed else (column,)
        reader.expect("REFERENCES")
        found.foreign_keys.append(_references(reader, constraint, columns))
    elif reader.at("PRIMARY", "KEY") or reader.at("UNIQUE"):
        primary = reader.accept("PRIMARY", "KEY")
        if not primary:
            reader.advance()
        clustered = clustering(reader)
        columns, descending = key_columns(reader) if reader.at("(") else ((column,), ())
        found.keys.append(df.KeySpec(columns, primary, constraint, descending, clustered))
        storage_options(reader)
    else:
        return False
    return True


def _computed(reader: Reader, name: str) -> df.ColumnSpec:
    tokens = reader.until((",", "PERSISTED", "PRIMARY", "UNIQUE", "CONSTRAINT"), STARTS)
    value = reader.fragment(tokens)
    persisted = reader.accept("PERSISTED")
    if persisted:
        reader.accept("NOT", "NULL")
    if reader.here.key not in (",", ")", ";") and reader.here.kind != END and reader.here.key not in STARTS:
        raise unsupported(f"a computed column with {reader.here.text}")
    return df.ColumnSpec(name, INT, True, computed=df.ComputedSpec(reader.text(tokens), value, persisted))


def _identity(reader: Reader) -> tuple[int, int]:
    if not reader.accept("("):
        return 1, 1
    seed = reader.integer()
    reader.expect(",")
    step = reader.integer()
    reader.expect(")")
    return seed, step


def _default(reader: Reader, name: str) -> df.DefaultSpec:
    tokens = [reader.advance()] if reader.at("NULL") else reader.until(_AFTER_DEFAULT, STARTS)
    value = reader.fragment(tokens)
    return df.DefaultSpec(reader.text(tokens), value, name)


def clustering(reader: Reader) -> bool | None:
    """Whether CLUSTERED or NONCLUSTERED stands here; None for neither."""
    if reader.accept("CLUSTERED"):
        return True
    return False if reader.accept("NONCLUSTERED") else None


def key_columns(reader: Reader) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The columns of a key, and those of them with DESC."""
    reader.expect("(")
    names, descending = [], []
    while True:
        names.append(reader.name())
        if reader.accept("DESC"):
            descending.append(names[-1])
        else:
            reader.accept("ASC")
        if not reader.accept(","):
            break
    reader.expect(")")
    return tuple(names), tuple(descending)


_OLD_OPTIONS = frozenset(
    ("DROP_EXISTING", "FILLFACTOR", "IGNORE_DUP_KEY", "PAD_INDEX", "SORT_IN_TEMPDB", "STATISTICS_NORECOMPUTE")
)
"""https://learn.microsoft.com/sql/t-sql/statements/create-index-transact-sql (Backward compatible relational index)"""


def storage_options(reader: Reader) -> None:
    """ON filegroup, TEXTIMAGE_ON, WITH (index options)."""
    while True:
        if reader.at("WITH", "("):
            reader.advance()
            if any(
                t.key in ("SYSTEM_VERSIONING", "MEMORY_OPTIMIZED")
                for t in reader.tokens[reader.position : reader.position + 2]
            ):
                raise unsupported(f"table option {reader.peek().text}")
            begin = reader.position
            reader.skip_parentheses()
            words = [token.key for token in reader.tokens[begin : reader.position]]
            if "IGNORE_DUP_KEY" in words and words[words.index("IGNORE_DUP_KEY") + 2] == "ON":
                raise unsupported("IGNORE_DUP_KEY = ON")
        elif reader.at("WITH") and reader.peek().key in _OLD_OPTIONS:
            raise unsupported(f"WITH {reader.peek().key} without brackets")
        elif reader.at("ON") or reader.at("TEXTIMAGE_ON"):
            scheme = reader.advance().key == "ON"
            reader.name() if not reader.at("PRIMARY") else reader.advance()
            if scheme and reader.at("("):
                raise unsupported("ON a partition scheme")
        else:
            return
