"""CREATE, ALTER, DROP and TRUNCATE. Options that change nothing here (file groups, index options) are read over;
what would change behaviour (cascading foreign keys, procedures, triggers) is refused by name.
"""

from __future__ import annotations

from dataclasses import replace

from emulators.sqlserver.results import SqlError
from emulators.sqlserver.tsql.errors import unsupported
from emulators.sqlserver.tsql.reading import definitions as df
from emulators.sqlserver.tsql.reading.dml.select import query_tokens
from emulators.sqlserver.tsql.reading.fragments import Fragment
from emulators.sqlserver.tsql.reading.passing_over import misplaced
from emulators.sqlserver.tsql.reading.reader import Reader
from emulators.sqlserver.tsql.reading.starts import STARTS
from emulators.sqlserver.tsql.reading.statements import Name, Statement
from emulators.sqlserver.tsql.reading.table_parts import (
    TableParts,
    clustering,
    key_columns,
    read_column,
    read_element,
    storage_options,
)
from emulators.sqlserver.tsql.reading.tokens import END, NSTRING, STRING


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
    clustered = clustering(reader)
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
    found = TableParts()
    while True:
        if reader.at(")"):
            break
        read_element(reader, found)
        if not reader.accept(","):
            break
    reader.expect(")")
    storage_options(reader)
    _one_primary_key(found, table)
    text = _text(reader, begin)
    columns, keys = tuple(found.columns), tuple(found.keys)
    return df.CreateTable(line, text, table, columns, keys, tuple(found.checks), tuple(found.foreign_keys))


def _create_view(reader: Reader, line: int, begin: int, replaces: bool) -> df.CreateView:
    if begin != 0:
        raise misplaced(reader, begin, "CREATE VIEW")
    name = reader.qualified()
    columns = reader.names_in_parentheses() if reader.at("(") else ()
    if reader.accept("WITH") and not reader.accept("SCHEMABINDING"):
        raise unsupported(f"CREATE VIEW ... WITH {reader.here.text}")
    reader.expect("AS")
    tokens = query_tokens(reader)
    if reader.at("WITH", "CHECK", "OPTION"):
        raise unsupported("CREATE VIEW ... WITH CHECK OPTION")
    return df.CreateView(line, _text(reader, begin), name, columns, reader.fragment(tokens, ""), replaces)


def _one_primary_key(found: TableParts, table: Name) -> None:
    if sum(key.primary for key in found.keys) > 1:
        text = f"Cannot add multiple PRIMARY KEY constraints to table '{table[-1]}'."
        raise SqlError(8110, text, 16)


def _create_index(reader: Reader, line: int, begin: int, unique: bool, clustered: bool) -> Statement:
    name = reader.name()
    reader.expect("ON")
    table = reader.qualified()
    columns, descending = key_columns(reader)
    included = reader.names_in_parentheses() if reader.accept("INCLUDE") else ()
    found: df.FilterSpec | None = None
    if reader.accept("WHERE"):
        tokens = reader.until((";", "WITH", "ON"), STARTS)
        inner = reader.fragment(tokens, "SELECT CASE WHEN ")
        condition = Fragment(inner.text + " THEN 1 END", inner.lifted, inner.variables)
        found = df.FilterSpec(reader.text(tokens), condition)
    storage_options(reader)
    text = _text(reader, begin)
    return df.CreateIndex(line, text, table, name, columns, unique, included, descending, clustered, found)


def _alter(reader: Reader, line: int, begin: int) -> Statement:
    if reader.accept("DATABASE"):
        return _alter_database(reader, line, begin)
    if reader.accept("VIEW"):
        return replace(_create_view(reader, line, begin, True), alters=True)
    if not reader.accept("TABLE"):
        raise unsupported(f"ALTER {reader.here.text.upper()}")
    table = reader.qualified()
    unchecked = False
    if reader.accept("WITH"):
        unchecked = reader.advance().key == "NOCHECK"
    if reader.accept("ADD"):
        found = TableParts()
        read_element(reader, found)
        while reader.accept(","):
            read_element(reader, found)
        text = _text(reader, begin)
        columns, keys, defaults = tuple(found.columns), tuple(found.keys), tuple(found.defaults)
        checks, foreign_keys = tuple(found.checks), tuple(found.foreign_keys)
        return df.AddColumns(line, text, table, columns, keys, defaults, checks, foreign_keys, unchecked)
    if reader.accept("ALTER", "COLUMN"):
        if reader.peek().key in ("ADD", "DROP"):
            raise unsupported(f"ALTER TABLE ... ALTER COLUMN ... {reader.peek().key}")
        found = TableParts()
        column = read_column(reader, found)
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
        reader.here.kind != END and reader.here.key not in (*STARTS, ";", ",", "(", "WITH")
    ):
        token = reader.advance()
        value = token.key or token.text
    if value.isdigit() and reader.here.key in ("SECONDS", "MINUTES"):
        value = f"{value} {reader.advance().key}"
    if reader.at("("):
        raise unsupported(f"ALTER DATABASE ... SET {option} {value} (...)")
    termination = _termination(reader)
    if reader.at(","):
        raise unsupported("ALTER DATABASE ... SET with several options")
    return df.AlterDatabase(line, _text(reader, begin), name, option, value, termination)


def _termination(reader: Reader) -> df.Termination:
    if not reader.accept("WITH"):
        return df.Termination()
    if reader.accept("NO_WAIT"):
        return df.Termination(no_wait=True)
    reader.expect("ROLLBACK")
    if reader.accept("IMMEDIATE"):
        return df.Termination(after=0)
    reader.expect("AFTER")
    seconds = reader.advance()
    if not seconds.text.isdigit():
        raise reader.unexpected(seconds)
    reader.accept("SECONDS")
    return df.Termination(after=float(seconds.text))


def _drop(reader: Reader, line: int, begin: int) -> Statement:
    kind = reader.advance().key
    if kind not in ("TABLE", "DATABASE", "SCHEMA", "INDEX", "VIEW"):
        raise unsupported(f"DROP {kind}")
    if_exists = reader.accept("IF", "EXISTS")
    if kind == "INDEX":
        return _drop_index(reader, line, begin, if_exists)
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


def _drop_index(reader: Reader, line: int, begin: int, if_exists: bool) -> df.DropIndex:
    name = reader.qualified()
    if reader.accept("ON"):
        table = reader.qualified()
    elif len(name) > 1:
        table = name[:-1]
    else:
        raise reader.unexpected()
    if reader.at("WITH", "("):
        raise unsupported("DROP INDEX ... WITH")
    if reader.at(","):
        raise unsupported("DROP INDEX of several indexes")
    return df.DropIndex(line, _text(reader, begin), table, name[-1], if_exists)


_VERBS = {"CREATE": _create, "ALTER": _alter, "DROP": _drop}
