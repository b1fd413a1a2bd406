"""When the log is scanned again, and what is said about it. Pure: outcomes and durations come in, pauses and news go out.

A scan that was given up because it took too long is the dangerous one: begun again and again, it would keep the source from ever capturing
a large transaction. So the log is then left to the source's own capture for long.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from common.errors import ConnectionLost, DStreamError, PermanentError
from ingester.capture_status import Scanned

SCAN_SECONDS: Final = 600.0
"""How long a scan may take: the capture of a large transaction takes minutes."""
LEFT_ALONE_SECONDS: Final = 600.0
"""After a scan that took longer."""
BUSY_SECONDS: Final = 60.0
"""After so long without a turn, another session has the log all the time."""
RARELY_SECONDS: Final = 60.0
"""Between two attempts while they fail."""
RECONNECT_SECONDS: Final = 10.0
"""The longest pause after a lost connection: it costs the server little, and may be back at any moment."""
_GOOD_SECONDS: Final = 10.0
"""The least time after a scan that succeeded until the scans count as hindered, and how many intervals it is."""
_GOOD_INTERVALS: Final = 5
_FEWEST_BUSY: Final = 5
_LOST_IN_A_ROW: Final = 3
"""A lost connection is news only then: the loop, which is asked to look, reports a server that is away."""


class News(Enum):
    """What the log is to say: BUSY, REFUSED and FAILED once, and WORKS once it does again."""

    NONE = "none"
    BUSY = "busy"
    REFUSED = "refused"
    FAILED = "failed"
    WORKS = "works"


@dataclass(slots=True)
class Pace:
    """`every`: seconds between two scans while they work."""

    every: float
    trouble: News = News.NONE
    _failures: int = 0
    _busy: int = 0
    _busy_for: float = 0.0

    @property
    def works(self) -> bool:
        """Whether nothing lasting hinders the scans."""
        return self.trouble is News.NONE

    @property
    def good_for(self) -> float:
        """For how many seconds after a scan that succeeded the scans are not hindered, although none has ended meanwhile: it may hang."""
        return max(_GOOD_SECONDS, _GOOD_INTERVALS * self.every)

    def after(self, outcome: Scanned | DStreamError, took: float) -> tuple[float, News]:
        """Seconds until the next scan, and what is new, after one that `took` so many seconds."""
        if isinstance(outcome, DStreamError):
            return self._failed(outcome, took)
        self._failures = 0
        if outcome is Scanned.BUSY:
            return self._waits(took)
        self._busy, self._busy_for = 0, 0.0
        news = News.NONE if self.works else News.WORKS
        self.trouble = News.NONE
        return max(0.0, self.every - took), news

    def _waits(self, took: float) -> tuple[float, News]:
        self._busy += 1
        lasting = self._busy_for >= BUSY_SECONDS and self._busy >= _FEWEST_BUSY
        pause = RARELY_SECONDS if lasting else self.every
        self._busy_for += took + pause
        return pause, self._told(News.BUSY) if lasting else News.NONE

    def _failed(self, error: DStreamError, took: float) -> tuple[float, News]:
        self._failures += 1
        if isinstance(error, PermanentError):
            return RARELY_SECONDS, self._told(News.REFUSED)
        if took >= 0.9 * SCAN_SECONDS:
            return LEFT_ALONE_SECONDS, self._told(News.FAILED)
        lost = isinstance(error, ConnectionLost)
        longest = max(self.every, RECONNECT_SECONDS) if lost else RARELY_SECONDS
        pause = min(longest, max(self.every, 1.0) * 2.0 ** min(self._failures - 1, 10))
        quiet = lost and self._failures < _LOST_IN_A_ROW
        return pause, News.NONE if quiet else self._told(News.FAILED)

    def _told(self, news: News) -> News:
        if self.trouble is news:
            return News.NONE
        self.trouble = news
        return news
