"""When a file is complete. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from router.outputs.file.names import FileName


@dataclass(frozen=True, slots=True)
class Limits:
    """`size`: bytes of lines; `time`: since the file was opened, by the clock of whoever looks."""

    size: int
    time: timedelta

    def reached(self, name: FileName, size: int, *, now: datetime) -> bool:
        """A time in the future, by more than the limit, is that of a clock that was set back: the file must not stay open until then."""
        age = now - name.opened
        return size >= self.size or abs(age) >= self.time

    @property
    def look(self) -> float:
        """Seconds between two looks for files that are complete."""
        return min(30.0, max(0.5, self.time.total_seconds() / 10))
