"""Where a character of a text stands in the file that the text was read from: escapes and heredocs resolved back. Pure.

Says no column where it cannot know it: a value from the environment moves what comes after it on its line, and an indented heredoc loses
its indentation.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_CHARACTER = re.compile(r"\\u.{4}|\\U.{8}|\\.|\$\$(?=\{)|%%(?=\{)|.", re.DOTALL)
"""How one character of a quoted text is written."""


@dataclass(frozen=True, slots=True)
class Written:
    """A text as the file has it: `source` with its quotes, which begins at `line` and `column`, and the text that it stands for."""

    line: int
    column: int
    source: str
    text: str

    def place(self, offset: int) -> tuple[int, int | None]:
        """Line and column of the text's character at `offset`; the end of the text, too, has a place."""
        if self.source.startswith('"'):
            starts = [match.start() for match in _CHARACTER.finditer(self.source, 1, len(self.source) - 1)]
            return self.line, self.column + (starts[offset] if offset < len(starts) else len(self.source) - 1)
        before = self.text[:offset].split("\n")
        number, column = len(before), len(before[-1])
        whole, stands = self.text.split("\n")[number - 1], self.source.split("\n")[number]
        return self.line + number, len(stands) - len(whole) + column + 1 if stands.endswith(whole) else None
