"""Words of the SQL of filters and actions.

Refuses, naming the position, what begins no word, unfinished quotations, numbers out of range, and texts above 1,024
characters.
Sources: learn.microsoft.com "Subscription Rule SQL Filter Syntax", "Service Bus quotas".
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import Final

from .errors import InvalidRule

MAX_LENGTH: Final = 1024
"""Characters of a filter's condition or of a rule's action ("Service Bus quotas")."""
MAX_LONG: Final = (1 << 63) - 1

KEYWORDS: Final = frozenset(
    ("AND", "OR", "NOT", "IN", "LIKE", "ESCAPE", "IS", "NULL", "EXISTS", "TRUE", "FALSE", "SET", "REMOVE")
)


class Kind(Enum):
    """What a word is; its value is how an error message calls it."""

    KEYWORD = "a keyword"
    NAME = "a name"
    QUOTED_NAME = "a quoted name"
    PARAMETER = "a parameter"
    STRING = "a string"
    NUMBER = "a number"
    SIGN = "a sign"
    END = "the end"


@dataclass(frozen=True, slots=True)
class Token:
    """A word: `text` as it is meant (keywords in upper case, quotations undone), `at` its offset, `number` of a number."""

    kind: Kind
    text: str
    at: int
    number: int | float = 0


_SPACE: Final = re.compile(r"\s*")
_NUMBER: Final = re.compile(r"(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_SIGN: Final = re.compile(r"<>|!=|<=|>=|[=<>+\-*/%(),.;]")
_CLOSING: Final = {"'": "'", '"': '"', "[": "]"}


def position(at: int) -> str:
    """How an error message says where."""
    return f"at position {at + 1}"


def words(text: str) -> list[Token]:
    """All words of a text, and the end. Raises InvalidRule."""
    if len(text) > MAX_LENGTH:
        raise InvalidRule(f"an expression has at most {MAX_LENGTH} characters, this one has {len(text)}")
    found = []
    at = 0
    while True:
        space = _SPACE.match(text, at)
        at = space.end() if space else at
        if at == len(text):
            found.append(Token(Kind.END, "", at))
            return found
        token, at = _word(text, at)
        found.append(token)


def _word(text: str, at: int) -> tuple[Token, int]:
    first = text[at]
    if first.isalpha():
        end = _name_end(text, at)
        name = text[at:end]
        if name.upper() in KEYWORDS:
            return Token(Kind.KEYWORD, name.upper(), at), end
        return Token(Kind.NAME, name, at), end
    if first == "@":
        end = _name_end(text, at + 1)
        if end == at + 1:
            raise InvalidRule(f"{position(at)}: expected the name of a parameter behind '@'")
        return Token(Kind.PARAMETER, text[at:end], at), end
    if first in _CLOSING:
        return _quotation(text, at)
    number = _NUMBER.match(text, at)
    if number is not None:
        return _number(text, at, number.end()), number.end()
    sign = _SIGN.match(text, at)
    if sign is None:
        raise InvalidRule(f"{position(at)}: {first!r} begins no word")
    return Token(Kind.SIGN, "<>" if sign.group() == "!=" else sign.group(), at), sign.end()


def _name_end(text: str, at: int) -> int:
    while at < len(text) and (text[at] == "_" or text[at].isalpha() or text[at].isdecimal()):
        at += 1
    return at


def _quotation(text: str, at: int) -> tuple[Token, int]:
    closing = _CLOSING[text[at]]
    parts = []
    begin = at + 1
    while True:
        end = text.find(closing, begin)
        if end < 0:
            raise InvalidRule(f"{position(at)}: expected {closing} to end what {text[at]} begins here")
        parts.append(text[begin:end])
        if text[end + 1 : end + 2] != closing:
            break
        begin = end + 2
    content = closing.join(parts)
    if closing != "'" and not content:
        raise InvalidRule(f"{position(at)}: expected a name between the quotes")
    return Token(Kind.STRING if closing == "'" else Kind.QUOTED_NAME, content, at), end + 1


def _number(text: str, at: int, end: int) -> Token:
    digits = text[at:end]
    if end < len(text) and (text[end].isalnum() or text[end] == "_"):
        raise InvalidRule(f"{position(end)}: expected an operator behind the number {digits}")
    if digits.isdecimal():
        number = int(digits)
        if number > MAX_LONG + 1:
            raise InvalidRule(f"{position(at)}: {digits} is out of the range of a 64-bit integer")
        return Token(Kind.NUMBER, digits, at, number)
    approximate = float(digits)
    if approximate in (float("inf"), float("-inf")):
        raise InvalidRule(f"{position(at)}: {digits} is out of the range of a double")
    return Token(Kind.NUMBER, digits, at, approximate)
