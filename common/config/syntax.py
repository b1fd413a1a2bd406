"""What is wrong with text that is not HCL, as a problem by line. Pure; shows nothing of the text, which may hold a secret.

The parser knows where it could not go on. That is often far below a quote or a brace that is missing, so both are looked for here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from lark.exceptions import UnexpectedInput, UnexpectedToken

from common.config.values import Problem

_LEXEME = re.compile(
    r""""(?:[^"\\\n]|\\[^\n])*(?:"|\\?$)|#[^\n]*|//[^\n]*|/\*.*?\*/|[{}\[\]()]""", re.MULTILINE | re.DOTALL
)
_WHOLE_QUOTE = re.compile(r'"(?:[^"\\]|\\.)*"')
_ENDS = {"{": "}", "[": "]", "(": ")"}


@dataclass(frozen=True, slots=True)
class _Lexeme:
    """A quoted text or a bracket, outside of comments. `indent`: of its line, where it is the first thing there; else None."""

    line: int
    text: str
    indent: int | None


def syntax_problem(error: UnexpectedInput, text: str) -> Problem:
    """Line and cause."""
    if (opened := _unclosed_quote(text, error.line)) is not None:
        return Problem(opened, "syntax: a quote is not closed on this line")
    if isinstance(error, UnexpectedToken) and error.token.type == "$END":
        return Problem(_unclosed_bracket(text), "syntax: the bracket or block opened here is not closed")
    at, column = error.pos_in_stream, error.column
    if at is None:
        return Problem(error.line, f"syntax: column {column} is not valid HCL")
    blanks = len(text) - at - len(text[at:].lstrip(" \t"))  # a token may begin with those before it
    return Problem(error.line, f"syntax: column {column + blanks}{_slip(text, at + blanks) or ' is not valid HCL'}")


def _slip(text: str, at: int) -> str | None:
    """What somebody meant who knows another language better."""
    before = text[text.rfind("\n", 0, at) + 1 : at]
    after_name = re.fullmatch(r"\s*(?:.*[{\s])?[\w-]+[ \t]*", before) is not None
    here = text[at : at + 1]
    if here == "'":
        return ": text must be in double quotes"
    if here == ":" and after_name:
        return ": write = between a name and its value"
    if here == "." and after_name:
        return ': a name with dots must be in double quotes, inside of a map: a = { "b.c" = ... }'
    if here == '"' and not before.strip():
        return ': a name in double quotes must be inside of a map: a = { "b.c" = ... }'
    return None


def _lexemes(text: str) -> Iterator[_Lexeme]:
    for found in _LEXEME.finditer(text):
        if found[0][0] in '"{}[]()':
            begin = text.rfind("\n", 0, found.start()) + 1
            before = text[begin : found.start()]
            yield _Lexeme(text.count("\n", 0, begin) + 1, found[0], None if before.strip() else len(before))


def _unclosed_quote(text: str, until: int) -> int | None:
    for each in _lexemes(text):
        if each.line > until:
            return None
        if each.text[0] == '"' and _WHOLE_QUOTE.fullmatch(each.text) is None:
            return each.line
    return None


def _unclosed_bracket(text: str) -> int:
    """Where the end of a block is missing, the ends after it close the blocks around it: one of them is less indented than what it seems to
    close. Without indentation it is the last one that stays open."""
    opened: list[tuple[int, int, str]] = []
    for each in _lexemes(text):
        if each.text in _ENDS:
            opened.append((each.line, _indent(text, each.line), each.text))
        elif each.text in _ENDS.values() and opened:
            line, indent, bracket = opened.pop()
            if each.text != _ENDS[bracket] or (each.indent is not None and each.indent < indent):
                return line
    return opened[-1][0] if opened else text.rstrip().count("\n") + 1


def _indent(text: str, line: int) -> int:
    row = text.split("\n", line)[line - 1]
    return len(row) - len(row.lstrip())
