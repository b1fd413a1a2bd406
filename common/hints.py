"""Which hints of one trouble were logged: the first failure may not name the cause yet, and a hint that comes later is news. Logs nothing."""

from __future__ import annotations

from typing import Final

MOST: Final = 4
"""Hints of one trouble that are news at most."""


class Hints:
    """True once there was one."""

    def __init__(self) -> None:
        self._known: set[str] = set()

    def __bool__(self) -> bool:
        return bool(self._known)

    def news(self, hint: str) -> bool:
        """Whether `hint` should be logged: once, and never more than `MOST` of one trouble."""
        if hint in self._known or len(self._known) >= MOST:
            return False
        self._known.add(hint)
        return True

    def clear(self) -> None:
        """The trouble is over."""
        self._known.clear()
