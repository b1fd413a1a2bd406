"""T-SQL's wildcards as regular expressions, for LIKE and PATINDEX. Compares without case, as the default collation does.

Source: https://learn.microsoft.com/sql/t-sql/language-elements/like-transact-sql
"""

from __future__ import annotations

import re
from functools import lru_cache


@lru_cache(maxsize=512)
def like_pattern(pattern: str, escape: str = "") -> re.Pattern[str]:
    """T-SQL's wildcards: %, _, [set] and [^set]."""
    pieces: list[str] = []
    index = 0
    while index < len(pattern):
        character = pattern[index]
        if escape and character == escape and index + 1 < len(pattern):
            index += 1
            pieces.append(re.escape(pattern[index]))
        elif character == "%":
            pieces.append(".*")
        elif character == "_":
            pieces.append(".")
        elif character == "[" and (end := pattern.find("]", index + 2)) > 0:
            inner = pattern[index + 1 : end]
            negated = inner.startswith("^")
            pieces.append(f"[{'^' if negated else ''}{_set(inner[negated:])}]")
            index = end
        else:
            pieces.append(re.escape(character))
        index += 1
    return re.compile("".join(pieces), re.IGNORECASE | re.DOTALL)


def _set(inner: str) -> str:
    return "".join("-" if c == "-" and 0 < i < len(inner) - 1 else re.escape(c) for i, c in enumerate(inner))
