"""LIKE: % stands for any characters, _ for one, and an escape character takes the meaning from what follows it.

A pattern becomes a list of fixed pieces between its percent signs, found from left to right, so that no pattern
takes more than a product of the two lengths.
Source: learn.microsoft.com "Subscription Rule SQL Filter Syntax", sections "pattern" and "escape_char".
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from .errors import FilterError


@lru_cache(maxsize=256)
def like(pattern: str, escape: str | None) -> Callable[[str], bool]:
    """Does a text match? Letters compare with regard to case. Raises FilterError."""
    if escape is not None and len(escape) != 1:
        raise FilterError(f"the escape character of LIKE must be one character, not {escape!r}")
    pieces = [re.compile(piece, re.DOTALL) for piece in _pieces(pattern, escape)]
    if len(pieces) == 1:
        whole = pieces[0]
        return lambda text: whole.fullmatch(text) is not None
    head, *middle, tail = pieces
    tail_length = _length(pattern, escape)

    def matches(text: str) -> bool:
        found = head.match(text)
        for piece in middle:
            if found is None:
                return False
            found = piece.search(text, found.end())
        start = len(text) - tail_length
        return found is not None and start >= found.end() and tail.match(text, start) is not None

    return matches


def _pieces(pattern: str, escape: str | None) -> list[str]:
    pieces = [""]
    for character, plain in _characters(pattern, escape):
        if plain or character not in "%_":
            pieces[-1] += re.escape(character)
        elif character == "%":
            pieces.append("")
        else:
            pieces[-1] += "."
    return pieces


def _length(pattern: str, escape: str | None) -> int:
    """Characters of the last piece."""
    length = 0
    for character, plain in _characters(pattern, escape):
        length = 0 if character == "%" and not plain else length + 1
    return length


def _characters(pattern: str, escape: str | None) -> list[tuple[str, bool]]:
    """Every character, and whether it stands for itself."""
    found = []
    characters = iter(pattern)
    for character in characters:
        if character != escape:
            found.append((character, False))
            continue
        following = next(characters, None)
        if following is None:
            raise FilterError(f"the pattern {pattern!r} ends with its escape character")
        found.append((following, True))
    return found
