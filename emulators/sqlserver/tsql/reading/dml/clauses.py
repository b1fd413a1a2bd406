"""The clauses that statements of data share: TOP, the table that is written to, its hints, columns, OUTPUT, and WITH before them."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from emulators.sqlserver.tsql.errors import unsupported
from emulators.sqlserver.tsql.reading import statements as st
from emulators.sqlserver.tsql.reading.fragments import Fragment, fragment
from emulators.sqlserver.tsql.reading.passing_over import past_common_tables
from emulators.sqlserver.tsql.reading.reader import Reader
from emulators.sqlserver.tsql.reading.starts import STARTS
from emulators.sqlserver.tsql.reading.tokens import VARIABLE
from emulators.sqlserver.tsql.reading.trees import parse_query

ASSIGNMENTS = ("=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=")
NOTHING = Fragment("")


def column_list(reader: Reader) -> tuple[str, ...]:
    reader.expect("(")
    names = [reader.qualified()[-1]]
    while reader.accept(","):
        names.append(reader.qualified()[-1])
    reader.expect(")")
    return tuple(names)


def parse_output(reader: Reader, stops: Sequence[str]) -> st.Output | None:
    if not reader.accept("OUTPUT"):
        return None
    query = reader.fragment(reader.until((*stops, "INTO"), STARTS))
    if not reader.accept("INTO"):
        return st.Output(query)
    table = table_name(reader)
    columns = column_list(reader) if reader.at("(") and reader.peek().key != "SELECT" else None
    if reader.at("OUTPUT"):
        raise unsupported("a second OUTPUT clause")
    return st.Output(query, table, columns)


def table_name(reader: Reader) -> st.Name:
    """The table that a statement writes to: a name, or a table variable."""
    return (reader.variable(),) if reader.here.kind == VARIABLE else reader.qualified()


def outside_columns(output: st.Output | None) -> tuple[str, ...]:
    """The columns in OUTPUT that belong neither to inserted nor to deleted: those of the tables in FROM or USING."""
    if output is None:
        return ()
    found: dict[str, None] = {}
    for column in parse_query(output.query.text).find_all(exp.Column):
        if column.table and column.table.lower() not in ("inserted", "deleted"):
            if isinstance(column.this, exp.Star):
                raise unsupported("* of another table in OUTPUT")
            found[".".join(f"[{part.name}]" for part in column.parts)] = None
    return tuple(found)


def cte_prefix(reader: Reader) -> Fragment:
    """WITH name AS (...), ... up to the statement that follows."""
    begin = reader.position
    past_common_tables(reader)
    if reader.tokens[begin + 1].key == "XMLNAMESPACES" and reader.tokens[begin + 2].key == "(":
        raise unsupported("WITH XMLNAMESPACES")
    return fragment(reader.sql, reader.tokens[begin : reader.position], "", True)


def refuse_common_table(prefix: Fragment, table: st.Name, statement: str) -> None:
    """INSERT and MERGE write to tables, and not through what WITH before them names."""
    if prefix.text and len(table) == 1:
        names = {found.alias.lower() for found in parse_query(f"{prefix.text} SELECT 1 AS one").find_all(exp.CTE)}
        if table[0].lower() in names:
            raise unsupported(f"{statement} through a common table expression")


def top_clause(reader: Reader) -> str:
    if not reader.accept("TOP"):
        return ""
    if reader.at("("):
        begin = reader.position
        reader.skip_parentheses()
        tokens = reader.tokens[begin : reader.position]
    else:
        tokens = [reader.advance()]
    percent = "PERCENT " if reader.accept("PERCENT") else ""
    return f"TOP {reader.text(tokens)} {percent}"
