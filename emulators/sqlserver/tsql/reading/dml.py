"""SELECT, INSERT, UPDATE and DELETE: finds their clauses, and writes an UPDATE or DELETE as the SELECT of the rows it touches.

What the query parser cannot read (TOP in DELETE, SET with +=, a second FROM) is taken apart here. MERGE has a module of its own.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

from sqlglot import exp

from emulators.sqlserver.results import SqlError, Value
from emulators.sqlserver.sqltypes import MAX, SqlType
from emulators.sqlserver.tsql.errors import unsupported
from emulators.sqlserver.tsql.reading import statements as st
from emulators.sqlserver.tsql.reading.fragments import Fragment, fragment, joined, literal
from emulators.sqlserver.tsql.reading.reader import Reader
from emulators.sqlserver.tsql.reading.starts import STARTS
from emulators.sqlserver.tsql.reading.tokens import (
    END,
    HEX,
    MONEY,
    NSTRING,
    NUMBER,
    OP,
    QUOTED,
    STRING,
    VARIABLE,
    WORD,
    Token,
    string_value,
)
from emulators.sqlserver.tsql.reading.trees import parse_query
from emulators.sqlserver.tsql.values.types import INT

_LITERALS = frozenset((NUMBER, STRING, NSTRING, HEX, MONEY))
_LOCK_HINTS = frozenset(("TABLOCKX", "XLOCK", "UPDLOCK", "TABLOCK", "HOLDLOCK", "SERIALIZABLE", "REPEATABLEREAD"))
ASSIGNMENTS = ("=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=")
_UNICODE, _STRING, _BINARY = SqlType("nvarchar", MAX), SqlType("varchar", MAX), SqlType("varbinary", MAX)
_NULL: tuple[SqlType, Value] = (INT, None)
NOTHING = Fragment("")
_CLAUSES = ("FROM", "WHERE", "OPTION", "OUTPUT", ";")


def query_tokens(reader: Reader) -> list[Token]:
    """The tokens of a query that begins here, set operators and all. A CTE's WITH may come first."""
    begin, depth, cases = reader.position, 0, 0
    previous = ""
    opened = False
    while reader.here.kind != END:
        token = reader.here
        key = token.key
        if key == "(":
            depth += 1
        elif key == ")":
            if depth == 0:
                break
            depth -= 1
        elif depth == 0:
            if key == "CASE":
                cases += 1
            elif key == "END" and cases:
                cases -= 1
            elif key == ";":
                break
            elif key == "SELECT" and (not opened or previous in ("UNION", "ALL", "EXCEPT", "INTERSECT")):
                opened = True
            elif (key == "WITH" and (reader.position == begin or reader.peek().key == "(")) or (
                key == "WITH" and reader.peek().key == "TIES"
            ):
                pass
            elif cases == 0 and key in STARTS:
                break
        previous = key
        reader.position += 1
    tokens = list(reader.tokens[begin : reader.position])
    if not tokens:
        raise reader.unexpected()
    return tokens


def parse_select(reader: Reader) -> st.Statement:
    """A query, or SELECT @x = ... when every item assigns."""
    line = reader.line()
    tokens = query_tokens(reader)
    assigns: tuple[str, ...] = ()
    if len(tokens) > 2 and tokens[0].key == "SELECT":
        tokens, assigns = _without_assignments(reader, tokens)
    locks = any(token.key in _LOCK_HINTS and before.key in ("(", ",") for before, token in itertools.pairwise(tokens))
    if assigns:
        return st.Select(line, _gapped(reader, tokens), assigns, locks)
    at = _into(tokens)
    if at < 0:
        return st.Select(line, fragment(reader.sql, tokens), (), locks)
    inner = Reader(reader.sql, [*tokens[at + 1 :], reader.tokens[-1]])
    into = inner.qualified()
    first = fragment(reader.sql, tokens[:at])
    rest = fragment(reader.sql, inner.tokens[inner.position : -1], " ", True, len(first.lifted))
    return st.Select(line, joined([first, rest]), (), locks, into)


def _into(tokens: Sequence[Token]) -> int:
    """Where the INTO of a SELECT stands; -1 without."""
    depth = 0
    for index, token in enumerate(tokens):
        depth += (token.key == "(") - (token.key == ")")
        if depth == 0 and token.key == "INTO":
            return index
    return -1


def _without_assignments(reader: Reader, tokens: list[Token]) -> tuple[list[Token], tuple[str, ...]]:
    """SELECT @a = x, @b = y FROM ...: the same query over x, y and the variables' names."""
    kept: list[Token] = []
    names: list[str] = []
    depth, item_start = 0, True
    index = 0
    while index < len(tokens):
        token = tokens[index]
        if depth == 0 and token.key in ("FROM", "WHERE", "ORDER", "OPTION", "UNION"):
            break
        if item_start and token.kind == VARIABLE and index + 1 < len(tokens) and tokens[index + 1].key == "=":
            names.append(token.text.lower())
            index += 2
            item_start = False
            continue
        depth += (token.key == "(") - (token.key == ")")
        item_start = depth == 0 and (token.key == "," or (token.key == "SELECT" and not kept))
        if kept and kept[0].key == "SELECT" and len(kept) == 1 and token.key == "TOP":
            item_start = False
        kept.append(token)
        if len(kept) >= 2 and kept[1].key == "TOP" and not names and token.key == ")" and depth == 0:
            item_start = True
        index += 1
    if not names:
        return tokens, ()
    items = 1 + _commas(kept)
    if items != len(names):
        text = (
            "A SELECT statement that assigns a value to a variable must not be combined with data-retrieval operations."
        )
        raise SqlError(141, text, 15)
    return kept + tokens[index:], tuple(names)


def _commas(tokens: Sequence[Token]) -> int:
    depth = count = 0
    for token in tokens:
        depth += (token.key == "(") - (token.key == ")")
        count += depth == 0 and token.key == ","
    return count


def _gapped(reader: Reader, tokens: Sequence[Token]) -> Fragment:
    """A fragment of tokens with holes between them."""
    variables = frozenset(token.text.lower() for token in tokens if token.kind == VARIABLE)
    words = [f"[{token.text}]" if token.kind == WORD and token.text[0] == "#" else token.text for token in tokens]
    return Fragment(" ".join(words), (), variables)


def parse_insert(
    reader: Reader, prefix: Fragment = NOTHING, execute: Callable[[Reader], st.Statement] | None = None
) -> st.Statement:
    """`execute` parses what stands behind INSERT ... EXEC."""
    line = reader.line()
    reader.expect("INSERT")
    top = _top(reader)
    reader.accept("INTO")
    table = table_name(reader)
    hints(reader)
    columns = None
    if reader.at("(") and reader.peek().key not in ("SELECT", "WITH"):
        columns = column_list(reader)
    output = parse_output(reader, ("VALUES", "SELECT", "WITH", "DEFAULT", "EXEC", "EXECUTE", "("))
    if top and not reader.at("SELECT"):
        raise unsupported("INSERT TOP without SELECT")
    if reader.accept("DEFAULT", "VALUES"):
        return st.Insert(line, table, columns, None, None, output)
    if reader.accept("VALUES"):
        return st.Insert(line, table, columns, _rows(reader), None, output)
    if reader.here.key in ("EXEC", "EXECUTE") and execute is not None:
        if output is not None:
            raise SqlError(483, "The OUTPUT clause cannot be used in an INSERT...EXEC statement.", 16)
        return st.Insert(line, table, columns, None, None, None, execute(reader))
    if reader.here.key not in ("SELECT", "WITH", "("):
        raise reader.unexpected()
    query = fragment(reader.sql, query_tokens(reader), " ", True, len(prefix.lifted))
    if top:
        query = Fragment(f"SELECT {top}* FROM ({query.text}) AS q", query.lifted, query.variables)
    return st.Insert(line, table, columns, None, joined([prefix, query]), output)


def column_list(reader: Reader) -> tuple[str, ...]:
    reader.expect("(")
    names = [reader.qualified()[-1]]
    while reader.accept(","):
        names.append(reader.qualified()[-1])
    reader.expect(")")
    return tuple(names)


def hints(reader: Reader) -> None:
    if reader.at("WITH", "("):
        reader.advance()
        reader.skip_parentheses()


def _rows(reader: Reader) -> tuple[tuple[st.Cell, ...], ...]:
    rows: list[tuple[st.Cell, ...]] = []
    while True:
        reader.expect("(")
        rows.append(_row(reader))
        if not reader.accept(","):
            break
    if len(rows) > 1000:
        text = (
            "The number of row value expressions in the INSERT statement exceeds the maximum allowed number of "
            "1000 row values."
        )
        raise SqlError(10738, text, 15)
    if len({len(row) for row in rows}) > 1:
        text = "All the rows in a table value constructor must have the same number of values"
        raise SqlError(10709, text, 16)
    return tuple(rows)


def _row(reader: Reader) -> tuple[st.Cell, ...]:
    cells: list[st.Cell] = []
    tokens = reader.tokens
    while True:
        position = reader.position
        token, following = tokens[position], tokens[min(position + 1, len(tokens) - 1)]
        if token.kind in _LITERALS and following.key in (",", ")"):
            cells.append(_plain(token))
            reader.position += 1
        elif token.key == "NULL" and following.key in (",", ")"):
            cells.append(_NULL)
            reader.position += 1
        else:
            cells.append(_cell(reader))
        closing = reader.advance().key
        if closing == ")":
            return tuple(cells)
        if closing != ",":
            raise reader.unexpected(tokens[reader.position - 1])


def _plain(token: Token) -> tuple[SqlType, Value]:
    """A literal that is only assigned: its type's length does not matter, and shared types are quick to look up."""
    kind = token.kind
    if kind == NSTRING:
        return _UNICODE, string_value(token)
    if kind == STRING:
        return _STRING, string_value(token)
    if kind == NUMBER and token.text.isdigit() and len(token.text) < 10:
        return INT, int(token.text)
    if kind == HEX:
        return _BINARY, literal(token)[1]
    return literal(token)


def _cell(reader: Reader) -> st.Cell:
    if reader.at("DEFAULT"):
        reader.advance()
        return st.Default()
    if reader.at("-") and reader.peek().kind == NUMBER and reader.peek(2).key in (",", ")"):
        reader.advance()
        kind, value = literal(reader.advance())
        negative = f"-{value}" if isinstance(value, str) else -value if isinstance(value, int | float) else value
        return kind, negative
    return reader.fragment(reader.until((",",)))


def parse_output(reader: Reader, stops: Sequence[str]) -> st.Output | None:
    if not reader.accept("OUTPUT"):
        return None
    query = reader.fragment(reader.until((*stops, "INTO")))
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
    reader.expect("WITH")
    while True:
        reader.name()
        if reader.at("("):
            reader.skip_parentheses()
        reader.expect("AS")
        if not reader.at("("):
            raise reader.unexpected()
        reader.skip_parentheses()
        if not reader.accept(","):
            break
    return fragment(reader.sql, reader.tokens[begin : reader.position], "", True)


def _top(reader: Reader) -> str:
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


def _target(reader: Reader) -> tuple[st.Name, str]:
    begin = reader.position
    name = table_name(reader)
    text = reader.text(reader.tokens[begin : reader.position])
    hints(reader)
    return name, text


def parse_update(reader: Reader, prefix: Fragment = NOTHING) -> st.Statement:
    line = reader.line()
    reader.expect("UPDATE")
    top = _top(reader)
    target, written = _target(reader)
    reader.expect("SET")
    columns: list[tuple[str, str]] = []
    parts = [prefix]
    lifted = len(prefix.lifted)
    while True:
        column, part = _set_clause(reader, f"SELECT {top}" if not columns else ", ", lifted)
        columns.append(column)
        parts.append(part)
        lifted += len(part.lifted)
        if not reader.accept(","):
            break
    output = parse_output(reader, ("FROM", "WHERE", "OPTION", ";"))
    parts += [Fragment(f", {item}") for item in outside_columns(output)]
    tail, has_from = _tail(reader, written, lifted)
    return st.Update(line, target, tuple(columns), joined([*parts, tail]), has_from, output)


def _set_clause(reader: Reader, prefix: str, lifted: int) -> tuple[tuple[str, str], Fragment]:
    """One `column = expression`: ((column, "" or "DEFAULT"), the expression as part of a SELECT list)."""
    if reader.here.kind == VARIABLE:
        raise unsupported("UPDATE ... SET @variable")
    if reader.here.kind not in (WORD, QUOTED):
        raise reader.unexpected()
    begin = reader.position
    name = reader.qualified()[-1]
    written = reader.text(reader.tokens[begin : reader.position])
    operator = reader.advance()
    if operator.key not in ASSIGNMENTS:
        raise reader.unexpected(operator)
    if operator.key == "=" and reader.accept("DEFAULT"):
        return (name, "DEFAULT"), Fragment(prefix + "NULL")
    tokens = reader.until((",", *_CLAUSES), STARTS)
    if not tokens:
        raise reader.unexpected()
    if operator.key == "=":
        return (name, ""), fragment(reader.sql, tokens, prefix, True, lifted, "=")
    part = fragment(reader.sql, tokens, f"{prefix}{written} {operator.key[0]} (", True, lifted)
    return (name, ""), Fragment(part.text + ")", part.lifted, part.variables)


def _tail(reader: Reader, written: str, lifted: int) -> tuple[Fragment, bool]:
    """FROM, WHERE and OPTION; without a FROM, the target itself is the FROM."""
    has_from = reader.at("FROM")
    tokens = _clause_tokens(reader)
    prefix = " " if has_from else f" FROM {written} "
    if not tokens:
        return Fragment(prefix), has_from
    return fragment(reader.sql, tokens, prefix, True, lifted), has_from


def _clause_tokens(reader: Reader) -> list[Token]:
    begin = reader.position
    while True:
        reader.until((";",), STARTS)
        if reader.at("WITH", "("):
            reader.advance()
            continue
        return list(reader.tokens[begin : reader.position])


def parse_delete(reader: Reader, prefix: Fragment = NOTHING) -> st.Statement:
    line = reader.line()
    reader.expect("DELETE")
    top = _top(reader)
    reader.accept("FROM")
    target, written = _target(reader)
    output = parse_output(reader, ("FROM", "WHERE", "OPTION", ";"))
    if reader.here.kind == OP and reader.here.key not in (";", ")"):
        raise reader.unexpected()
    tail, has_from = _tail(reader, written, len(prefix.lifted))
    items = ", ".join(("0", *outside_columns(output)))
    return st.Delete(line, target, joined([prefix, Fragment(f"SELECT {top}{items}"), tail]), has_from, output)
