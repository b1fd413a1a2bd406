"""SELECT: where a query ends, and what the query parser cannot read of it: items that assign to variables, and INTO.

What the query means is not decided here; it stays a text.
"""

from __future__ import annotations

from collections.abc import Sequence

from emulators.sqlserver.results import SqlError
from emulators.sqlserver.tsql.reading import statements as st
from emulators.sqlserver.tsql.reading.fragments import Fragment, fragment, joined
from emulators.sqlserver.tsql.reading.reader import Reader
from emulators.sqlserver.tsql.reading.starts import STARTS
from emulators.sqlserver.tsql.reading.tokens import END, VARIABLE, WORD, Token


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
                key == "WITH" and reader.peek().key in ("TIES", "ROLLUP", "CUBE")
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
    if assigns:
        return st.Select(line, _gapped(reader, tokens), assigns)
    at = _into(tokens)
    if at < 0:
        return st.Select(line, fragment(reader.sql, tokens))
    inner = Reader(reader.sql, [*tokens[at + 1 :], reader.tokens[-1]])
    into = inner.qualified()
    first = fragment(reader.sql, tokens[:at])
    rest = fragment(reader.sql, inner.tokens[inner.position : -1], " ", True, len(first.lifted))
    return st.Select(line, joined([first, rest]), (), into)


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
