"""Whether a text is one condition on one row, and nothing else. Pure.

A snapshot's condition is written by an operator and stored in a table, so it is not trusted: it is put between parentheses into a
statement, and must not get out of them, read other tables or run anything. What is left is compiled by the server, which knows the rest.
https://learn.microsoft.com/sql/t-sql/language-elements/reserved-keywords-transact-sql
https://learn.microsoft.com/sql/relational-databases/databases/database-identifiers
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ingester.history.rows import ConditionRefused

MOST_CHARACTERS = 4000

_REFUSED = frozenset(
    {"alter", "backup", "begin", "browse", "bulk", "commit", "create", "dbcc", "declare", "delete", "deny", "drop"}
    | {
        "except",
        "exec",
        "execute",
        "exists",
        "for",
        "go",
        "grant",
        "group",
        "having",
        "insert",
        "intersect",
        "into",
        "kill",
    }
    | {"merge", "openjson", "opendatasource", "openquery", "openrowset", "openxml", "option", "order", "print"}
    | {
        "raiserror",
        "reconfigure",
        "restore",
        "return",
        "revoke",
        "rollback",
        "select",
        "set",
        "shutdown",
        "truncate",
        "union",
    }
    | {"update", "use", "values", "waitfor", "while", "with"}
)
"""Words that only make sense in a statement or a subquery. Between quotes or brackets they are text or names."""

_PIECES = re.compile(
    r"""(?P<string>[Nn]?'(?:[^']|'')*')|(?P<name>\[(?:[^\]]|\]\])*\]|"(?:[^"]|"")*")"""
    r"""|(?P<comment>--|/\*|\*/)|(?P<word>[^\W\d][\w$#]*)|(?P<number>(?:0[xX][\da-fA-F]*|\d+\.?\d*(?:[eE][+-]?\d+)?)(?P<behind>\w)?)|(?P<other>.)""",
    re.DOTALL,
)


def refusal(where: str) -> str | None:
    """Why `where` is not a condition, with the place; None if nothing is found."""
    if not where.strip():
        return "it is empty"
    if len(where) > MOST_CHARACTERS:
        return f"it has more than {MOST_CHARACTERS} characters"
    bad = next(
        (at for at, one in enumerate(where) if (not one.isprintable() and one not in "\t\r\n") or _half(one)), None
    )
    if bad is not None:
        return f"character {bad + 1} is a control character"
    opened: list[int] = []
    for kind, text, at in _pieces(where):
        place = f"at character {at + 1}"
        if kind == "comment":
            return f"it has a comment {place}"
        if kind == "behind":
            return f"it has a number that a letter follows {place}"
        if kind == "word" and text.lower() in _REFUSED:
            return f"it has the word {text.upper()} {place}; a name goes in brackets: [{text}]"
        if kind == "other":
            if (said := _of_character(text)) is not None:
                return f"it has {said} {place}"
            if text == "(":
                opened.append(at)
            elif text == ")":
                if not opened:
                    return f"it closes a parenthesis {place} that is not open"
                opened.pop()
    return f"the parenthesis at character {opened[-1] + 1} is not closed" if opened else None


def refuse(table: str, where: str) -> None:
    """Raises PermanentError for a text that is not a condition."""
    said = refusal(where)
    if said is not None:
        raise refused(table, said)


def refused(table: str, said: str) -> ConditionRefused:
    return ConditionRefused(
        f"the condition for {table} is refused: {said}",
        hint="write one condition on a row's own columns, as after WHERE: Country = N'DE' AND Age > 18",
    )


def _pieces(where: str) -> Iterator[tuple[str, str, int]]:
    for found in _PIECES.finditer(where):
        kind = "behind" if found["behind"] else str(found.lastgroup)
        yield kind, found.group(), found.start()


def _of_character(text: str) -> str | None:
    match text:
        case ";":
            return "a semicolon"
        case "'" | '"' | "[":
            return f"a {text} that is not closed"
        case "@":
            return "a variable"
        case "{" | "}":
            return f"a {text}"
    return None


def _half(character: str) -> bool:
    return "\ud800" <= character <= "\udfff"
