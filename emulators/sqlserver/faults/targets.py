"""Which statements a fault hits: the next few whose text matches. Decides nothing about what happens to them."""

from __future__ import annotations

import re
import threading

ANY = r"\b(SELECT|INSERT|UPDATE|DELETE|MERGE|EXEC|EXECUTE)\b"
"""What a statement fault hits by default: whatever reads or writes, not the SETs and USEs that drivers send by themselves."""


class Target:
    """The next `times` statements that hold `pattern` (a regular expression, letters of any case); thread-safe."""

    def __init__(self, times: int, pattern: str) -> None:
        self._left = times
        self._pattern = re.compile(pattern, re.IGNORECASE)
        self._lock = threading.Lock()

    def hit(self, text: str) -> bool:
        with self._lock:
            if self._left <= 0 or not self._pattern.search(text):
                return False
            self._left -= 1
            return True
