"""The words of a CEL expression: which columns it names, and whether it stays cheap, however large a row is. Pure.

Does not judge the grammar or the types; the CEL library does that. https://github.com/google/cel-spec/blob/master/doc/langdef.md#syntax
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from common.config.values import WrongText

LONGEST: Final = 2000
"""Characters of an expression."""
MOST_LOOPS: Final = 2
MOST_PLUSES: Final = 20
"""With loops, each `+` on text may double it: bounded together, an expression makes no more than a few hundred times what the row has."""

_LOOPS = frozenset({"all", "exists", "exists_one", "map", "filter"})

_WORD = re.compile(
    r"""
    (?P<blank> \s+ | //[^\n]* )
  | (?P<raw> (?: [rR][bB]? | [bB][rR] ) (?: \"{3}.*?\"{3} | '{3}.*?'{3} | "[^"\n]*" | '[^'\n]*' ) )
  | (?P<text> [bB]? (?: \"{3}(?:\\.|[^\\])*?\"{3} | '{3}(?:\\.|[^\\])*?'{3} | "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*' ) )
  | (?P<name> [A-Za-z_][A-Za-z0-9_]* )
  | (?P<quoted> `[^`\n]*` )
  | (?P<number> 0x[0-9A-Fa-f]+[uU]? | \d+(?:\.\d+)?(?:[eE][+-]?\d+)?[uU]? )
  | (?P<sign> == | != | . )
    """,
    re.VERBOSE | re.DOTALL,
)


class FilterError(WrongText):
    """What is wrong with an expression."""


@dataclass(frozen=True, slots=True)
class Word:
    """`kind`: the group of the pattern. `at`: its first character's offset."""

    kind: str
    text: str
    at: int

    @property
    def literal(self) -> str | None:
        """The text that a quoted text without escapes stands for; None for anything else."""
        if self.kind not in ("text", "raw"):
            return None
        prefix = re.match("[rRbB]*", self.text)
        marks = "" if prefix is None else prefix[0].lower()
        body = self.text[len(marks) :]
        edge = 3 if body[:3] in ('"""', "'''") and len(body) >= 6 else 1
        inner = body[edge:-edge]
        return None if "b" in marks or ("\\" in inner and "r" not in marks) else inner


def words(text: str) -> tuple[Word, ...]:
    """Blanks and comments are left out. Every character belongs to a word, so nothing is skipped over."""
    found = ((str(match.lastgroup), match) for match in _WORD.finditer(text))
    return tuple(Word(kind, match[0], match.start()) for kind, match in found if kind != "blank")


def refuse_costly(text: str, found: Sequence[Word]) -> None:
    """Raise FilterError for an expression that may take long or much memory on a large row."""
    if len(text) > LONGEST:
        raise FilterError(f"has {len(text)} characters; a filter has at most {LONGEST}")
    loops = [word for word, after in pairwise(found) if word.text in _LOOPS and after.text == "("]
    pluses = [word for word in found if word.text == "+"]
    if len(loops) > MOST_LOOPS:
        raise FilterError(
            f"has more than {MOST_LOOPS} of all, exists, exists_one, filter and map", loops[MOST_LOOPS].at
        )
    if loops and len(pluses) > MOST_PLUSES:
        raise FilterError(f"has more than {MOST_PLUSES} times + beside {loops[0].text}()", pluses[MOST_PLUSES].at)


def fields_of(variable: str, found: Sequence[Word]) -> frozenset[str] | None:
    """The fields of `variable` that the expression names; None if it may use any, because the variable stands there as a whole or is
    indexed by something that is no plain text."""
    fields: set[str] = set()
    for name in _fields(variable, found):
        if name is None:
            return None
        fields.add(name)
    return frozenset(fields)


def places_of(variable: str, found: Sequence[Word]) -> Iterator[int]:
    """Where `variable` stands: indexes of `found`."""
    for at, word in enumerate(found):
        before = found[at - 1] if at else None
        selected = before is not None and before.text == "." and at > 1 and _ends_operand(found[at - 2])
        if word.kind == "name" and word.text == variable and not selected:
            yield at


def _fields(variable: str, found: Sequence[Word]) -> Iterator[str | None]:
    nothing = Word("sign", "", len(found))
    for at in places_of(variable, found):
        first, second, third = (found[at + n] if at + n < len(found) else nothing for n in (1, 2, 3))
        if first.text == "." and second.kind in ("name", "quoted") and third.text != "(":
            yield second.text.strip("`")
        elif first.text == "[" and third.text == "]":
            yield second.literal
        elif not (first.text in ("==", "!=") and second.text == "null"):
            yield None


def _ends_operand(word: Word) -> bool:
    return word.kind in ("name", "quoted", "text", "raw", "number") or word.text in (")", "]", "}")
