"""T-SQL's wildcards as regular expressions, for LIKE and PATINDEX.

A pattern is compiled for an order of text and matches text that was folded by it (text_order.py). The ends of a range like [a-f]
hold what sorts between them, as the collation sorts.

Source: https://learn.microsoft.com/sql/t-sql/language-elements/like-transact-sql
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from emulators.sqlserver.tsql.values.text_order import Fold, Order, folding, letters_between


@lru_cache(maxsize=64)
def like_patterns(escape: str, order: Order) -> Callable[[str], re.Pattern[str]]:
    """What compiles a pattern for an order of text, or knows it already."""
    return lru_cache(maxsize=512)(lambda pattern: like_pattern(pattern, escape, order))


def like_pattern(pattern: str, escape: str, order: Order) -> re.Pattern[str]:
    """T-SQL's wildcards: %, _, [set] and [^set]."""
    fold = folding(order)
    pieces: list[str] = []
    index = 0
    while index < len(pattern):
        character = pattern[index]
        if escape and character == escape and index + 1 < len(pattern):
            index += 1
            pieces.append(re.escape(fold(pattern[index])))
        elif character == "%":
            pieces.append(".*")
        elif character == "_":
            pieces.append(".")
        elif character == "[" and (end := pattern.find("]", index + 2)) > 0:
            inner = pattern[index + 1 : end]
            negated = inner.startswith("^")
            pieces.append(f"[{'^' if negated else ''}{_set(inner[negated:], order, fold)}]")
            index = end
        else:
            pieces.append(re.escape(fold(character)))
        index += 1
    return re.compile("".join(pieces), re.DOTALL)


def _set(inner: str, order: Order, fold: Fold) -> str:
    pieces: list[str] = []
    index = 0
    while index < len(inner):
        if index + 2 < len(inner) and inner[index + 1] == "-":
            pieces.append(_range(inner[index], inner[index + 2], order, fold))
            index += 3
        else:
            pieces.append(re.escape(fold(inner[index])))
            index += 1
    return "".join(pieces)


def _range(low: str, high: str, order: Order, fold: Fold) -> str:
    """Outside Latin, and under binary collations, by code point."""
    listed = "" if order.binary else fold(letters_between(low, high, order))
    found = "".join(re.escape(character) for character in sorted(set(listed)))
    first, last = fold(low), fold(high)
    if first <= last and (order.binary or not (low + high).isascii()):
        found += f"{re.escape(first)}-{re.escape(last)}"
    return found or _NOTHING


_NOTHING = "\\uffff"
"""In a set, what no text holds."""
