"""CREATE, ALTER, DROP and TRUNCATE. Options that change nothing here (file groups, index options, NONCLUSTERED) are read over;
what would change behaviour (cascading foreign keys, procedures, triggers) is refused by name.
"""

from __future__ import annotations

from emulators.sqlserver.results import SqlError
from emulators.sqlserver.tsql import definitions as df
from emulators.sqlserver.tsql.dml import query_tokens
from emulators.sqlserver.tsql.errors import unsupported
from emulators.sqlserver.tsql.fragments import Fragment
from emulators.sqlserver.tsql.reader import Reader
from emulators.sqlserver.tsql.starts import STARTS
from emulators.sqlserver.tsql.statements import Name, Statement
from emulators.sqlserver.tsql.tokens import END, NSTRING, STRING, identifier
from emulators.sqlserver.tsql.types import INT

_TABLE_CONSTRAINTS = ("CONSTRAINT", "PRIMARY", "UNIQUE", "FOREIGN", "CHECK", "INDEX", "PERIOD")


class _Columns:
    """What the parentheses of CREATE TABLE, or the list behind ADD, hold."""

    def __init__(self) -> None:
        self.columns: list[df.ColumnSpec] = []
        self.keys: list[df.KeySpec] = []
        self.defaults: list[tuple[str, df.DefaultSpec]] = []
        self.checks: list[df.CheckSpec] = []
        self.foreign_keys: list[df.ForeignKeySpec] = []


def parse_definition(reader: Reader) -> Statement:
    line, begin = reader.line(), reader.position
    verb = reader.advance().key
    if verb == "TRUNCATE":
        reader.expect("TABLE")
        table = reader.qualified()
        if reader.at("WITH"):
            raise unsupported("TRUNCATE TABLE ... WITH")
        return df.TruncateTable(line, _text(reader, begin), table)
    return _VERBS[verb](reader, line, begin)


def _text(reader: Reader, begin: int) -> str:
    return reader.text(reader.tokens[begin : reader.position])


def _create(reader: Reader, line: int, begin: int) -> Statement:
    if reader.accept("TABLE"):
        return _create_table(reader, line, begin)
    if reader.accept("SCHEMA"):
        name = reader.name()
        if reader.accept("AUTHORIZATION"):
            reader.name()
        return df.CreateSchema(line, _text(reader, begin), name)
    if reader.accept("DATABASE"):
        name = reader.name()
        collation = reader.name() if reader.accept("COLLATE") else ""
        if reader.here.kind != END and not reader.at(";") and reader.here.key not in STARTS:
            raise unsupported(f"CREATE DATABASE ... {reader.here.text}")
        return df.CreateDatabase(line, _text(reader, begin), name, collation)
    replaces = reader.accept("OR", "ALTER")
    if reader.accept("VIEW"):
        return _create_view(reader, line, begin, replaces)
    if replaces:
        raise unsupported(f"CREATE OR ALTER {reader.here.text.upper()}")
    unique = reader.accept("UNIQUE")
    clustered = _clustering(reader)
    if reader.accept("INDEX"):
        return _create_index(reader, line, begin, unique, bool(clustered))
    raise unsupported(f"CREATE {reader.here.text.upper()}")


def _create_table(reader: Reader, line: int, begin: int) -> Statement:
    return _table_of(reader, line, begin, reader.qualified())


def parse_table_variable(reader: Reader, name: str) -> Statement:
    """What stands behind DECLARE @name TABLE."""
    return _table_of(reader, reader.line(), reader.position, (name,))


def _table_of(reader: Reader, line: int, begin: int, table: Name) -> Statement:
    reader.expect("(")
    found = _Columns()
    while True:
        if reader.at(")"):
            break
        _element(reader, found)
        if not reader.accept(","):
            break
    reader.expect(")")
    _storage_options(reader)
    _one_primary_key(found, table)
    text = _text(reader, begin)
    columns, keys = tuple(found.columns), tuple(found.keys)
    return df.CreateTable(line, text, table, columns, keys, tuple(found.checks), tuple(found.foreign_keys))


def _create_view(reader: Reader, line: int, begin: int, replaces: bool) -> Statement:
    if begin != 0:
        raise SqlError(111, "'CREATE VIEW' must be the first statement in a query batch.", 15)
    name = reader.qualified()
    columns = reader.names_in_parentheses() if reader.at("(") else ()
    if reader.accept("WITH") and not reader.accept("SCHEMABINDING"):
        raise unsupported(f"CREATE VIEW ... WITH {reader.here.text}")
    reader.expect("AS")
    tokens = query_tokens(reader)
    if reader.at("WITH", "CHECK", "OPTION"):
        raise unsupported("CREATE VIEW ... WITH CHECK OPTION")
    return df.CreateView(line, _text(reader, begin), name, columns, reader.fragment(tokens, ""), replaces)


def _one_primary_key(found: _Columns, table: Name) -> None:
    if sum(key.primary for key in found.keys) > 1:
        text = f"Cannot add multiple PRIMARY KEY constraints to table '{table[-1]}'."
        raise SqlError(8110, text, 16)


def _storage_options(reader: Reader) -> None:
    """ON filegroup, TEXTIMAGE_ON, WITH (index options)."""
    while True:
        if reader.at("WITH", "("):
            reader.advance()
            if any(
                t.key in ("SYSTEM_VERSIONING", "MEMORY_OPTIMIZED")
                for t in reader.tokens[reader.position : reader.position + 2]
            ):
                raise unsupported(f"table option {reader.peek().text}")
            reader.skip_parentheses()
        elif reader.at("ON") or reader.at("TEXTIMAGE_ON"):
            reader.advance()
            reader.name() if not reader.at("PRIMARY") else reader.advance()
        else:
            return


def _element(reader: Reader, found: _Columns) -> None:
    if reader.here.key in _TABLE_CONSTRAINTS:
        _table_constraint(reader, found)
        return
    found.columns.append(_column(reader, found))


def _table_constraint(reader: Reader, found: _Columns) -> None:
    name = reader.name() if reader.accept("CONSTRAINT") else ""
    if reader.accept("DEFAULT"):
        spec = _default(reader, name)
        reader.expect("FOR")
        found.defaults.append((reader.name(), spec))
        return
    if reader.accept("CHECK"):
        found.checks.append(_check(reader, name, ""))
        return
    if reader.accept("FOREIGN", "KEY"):
        columns, _ = _key_columns(reader)
        reader.expect("REFERENCES")
        found.foreign_keys.append(_references(reader, name, columns))
        return
    primary = reader.accept("PRIMARY", "KEY")
    if not primary and not reader.accept("UNIQUE"):
        raise unsupported(f"{reader.here.key} constraint")
    clustered = _clustering(reader)
    columns, descending = _key_columns(reader)
    found.keys.append(df.KeySpec(columns, primary, name, descending, clustered))
    _storage_options(reader)


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
    referenced = _key_columns(reader)[0] if reader.at("(") else ()
    while reader.accept("ON"):
        event = reader.advance().key
        if not reader.accept("NO", "ACTION"):
            raise unsupported(f"ON {event} {reader.here.text.upper()}")
    reader.accept("NOT", "FOR", "REPLICATION")
    return df.ForeignKeySpec(columns, table, referenced, name)


def _computed(reader: Reader, name: str) -> df.ColumnSpec:
    tokens = reader.until((",", "PERSISTED", "PRIMARY", "UNIQUE", "CONSTRAINT"), STARTS)
    value = reader.fragment(tokens)
    persisted = reader.accept("PERSISTED")
    if persisted:
        reader.accept("NOT", "NULL")
    if reader.here.key not in (",", ")", ";") and reader.here.kind != END and reader.here.key not in STARTS:
        raise unsupported(f"a computed column with {reader.here.text}")
    return df.ColumnSpec(name, INT, True, computed=df.ComputedSpec(reader.text(tokens), value, persisted))


def _clustering(reader: Reader) -> bool | None:
    """Whether CLUSTERED or NONCLUSTERED stands here; None for neither."""
    if reader.accept("CLUSTERED"):
        return True
    return False if reader.accept("NONCLUSTERED") else None


def _key_columns(reader: Reader) -> tuple[tuple[str, ...], tuple[str, ...]]:
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


def _column(reader: Reader, found: _Columns) -> df.ColumnSpec:
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
        elif reader.accept("CHECK"):
            found.checks.append(_check(reader, constraint, name))
        elif reader.at("REFERENCES") or reader.at("FOREIGN", "KEY"):
            reader.accept("FOREIGN", "KEY")
            reader.expect("REFERENCES")
            found.foreign_keys.append(_references(reader, constraint, (name,)))
        elif reader.accept("DEFAULT"):
            default = _default(reader, constraint)
            if reader.accept("WITH"):
                reader.expect("VALUES")
        elif reader.at("PRIMARY", "KEY") or reader.at("UNIQUE"):
            primary = reader.accept("PRIMARY", "KEY")
            if not primary:
                reader.advance()
            found.keys.append(df.KeySpec((name,), primary, constraint, clustered=_clustering(reader)))
            _storage_options(reader)
        elif reader.here.key in (",", ")", ";") or reader.here.kind == END or reader.here.key in STARTS:
            return df.ColumnSpec(name, kind, nullable, identity, default, collation=collation)
        else:
            raise unsupported(f"column option {reader.here.text}")


def _identity(reader: Reader) -> tuple[int, int]:
    if not reader.accept("("):
        return 1, 1
    seed = reader.integer()
    reader.expect(",")
    step = reader.integer()
    reader.expect(")")
    return seed, step


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


def _default(reader: Reader, name: str) -> df.DefaultSpec:
    tokens = [reader.advance()] if reader.at("NULL") else reader.until(_AFTER_DEFAULT, STARTS)
    value = reader.fragment(tokens)
    return df.DefaultSpec(reader.text(tokens), value, name)


def _create_index(reader: Reader, line: int, begin: int, unique: bool, clustered: bool) -> Statement:
    name = reader.name()
    reader.expect("ON")
    table = reader.qualified()
    columns, descending = _key_columns(reader)
    included = reader.names_in_parentheses() if reader.accept("INCLUDE") else ()
    found: df.FilterSpec | None = None
    if reader.accept("WHERE"):
        tokens = reader.until((";", "WITH", "ON"), STARTS)
        inner = reader.fragment(tokens, "SELECT CASE WHEN ")
        condition = Fragment(inner.text + " THEN 1 END", inner.lifted, inner.variables)
        found = df.FilterSpec(reader.text(tokens), condition)
    _storage_options(reader)
    text = _text(reader, begin)
    return df.CreateIndex(line, text, table, name, columns, unique, included, descending, clustered, found)


def _alter(reader: Reader, line: int, begin: int) -> Statement:
    if reader.accept("DATABASE"):
        return _alter_database(reader, line, begin)
    if reader.accept("VIEW"):
        return _create_view(reader, line, begin, True)
    if not reader.accept("TABLE"):
        raise unsupported(f"ALTER {reader.here.text.upper()}")
    table = reader.qualified()
    unchecked = False
    if reader.accept("WITH"):
        unchecked = reader.advance().key == "NOCHECK"
    if reader.accept("ADD"):
        found = _Columns()
        _element(reader, found)
        while reader.accept(","):
            _element(reader, found)
        text = _text(reader, begin)
        columns, keys, defaults = tuple(found.columns), tuple(found.keys), tuple(found.defaults)
        checks, foreign_keys = tuple(found.checks), tuple(found.foreign_keys)
        return df.AddColumns(line, text, table, columns, keys, defaults, checks, foreign_keys, unchecked)
    if reader.accept("ALTER", "COLUMN"):
        found = _Columns()
        column = _column(reader, found)
        if found.keys or found.checks or found.foreign_keys or column.default or column.identity or column.computed:
            raise reader.unexpected()
        return df.AlterColumn(line, _text(reader, begin), table, column)
    if reader.accept("DROP"):
        return _drop_parts(reader, line, begin, table)
    raise unsupported(f"ALTER TABLE ... {reader.here.text.upper()}")


def _drop_parts(reader: Reader, line: int, begin: int, table: Name) -> Statement:
    columns: list[str] = []
    constraints: list[str] = []
    into = constraints
    if_exists = False
    while True:
        if reader.accept("COLUMN"):
            into = columns
        elif reader.accept("CONSTRAINT"):
            into = constraints
        if_exists = reader.accept("IF", "EXISTS") or if_exists
        into.append(reader.name())
        if not reader.accept(","):
            break
    return df.DropParts(line, _text(reader, begin), table, tuple(columns), tuple(constraints), if_exists)


def _alter_database(reader: Reader, line: int, begin: int) -> Statement:
    name = "" if reader.accept("CURRENT") else reader.name()
    if not reader.accept("SET"):
        raise unsupported(f"ALTER DATABASE ... {reader.here.text.upper()}")
    option = reader.advance().key
    reader.accept("=")
    value = ""
    if reader.here.kind in (STRING, NSTRING) or (
        reader.here.kind != END and reader.here.key not in (*STARTS, ";", "WITH")
    ):
        value = reader.advance().key
    if reader.accept("WITH"):
        reader.until((";",), STARTS - {"ROLLBACK"})
    return df.AlterDatabase(line, _text(reader, begin), name, option, value)


def _drop(reader: Reader, line: int, begin: int) -> Statement:
    kind = reader.advance().key
    if kind not in ("TABLE", "DATABASE", "SCHEMA", "INDEX", "VIEW"):
        raise unsupported(f"DROP {kind}")
    if_exists = reader.accept("IF", "EXISTS")
    if kind == "INDEX":
        name = reader.qualified()
        if reader.accept("ON"):
            return df.DropIndex(line, _text(reader, begin), reader.qualified(), name[-1], if_exists)
        if len(name) < 2:
            raise reader.unexpected()
        return df.DropIndex(line, _text(reader, begin), name[:-1], name[-1], if_exists)
    if kind == "SCHEMA":
        name = reader.qualified()
        return df.DropSchema(line, _text(reader, begin), name[-1], if_exists)
    names = [reader.qualified()]
    while reader.accept(","):
        names.append(reader.qualified())
    text = _text(reader, begin)
    if kind == "VIEW":
        return df.DropView(line, text, tuple(names), if_exists)
    if kind == "TABLE":
        return df.DropTable(line, text, tuple(names), if_exists)
    return df.DropDatabase(line, text, tuple(item[-1] for item in names), if_exists)


_VERBS = {"CREATE": _create, "ALTER": _alter, "DROP": _drop}
