"""What keeps capture from moving what the log holds: nothing, a lag of so many seconds or transactions, or a failure. Pure.

For tests of readers: the real server's capture job lags and fails on its own. No statement of T-SQL leads here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from emulators.sqlserver.cdc.log_store import LoggedTransaction
from emulators.sqlserver.results import SqlError


@dataclass(frozen=True, slots=True)
class Hold:
    """`transactions`: the newest so many stay in the log; `seconds`: so do those committed less than this ago.

    `error`: the next scans fail with it and move nothing.
    """

    transactions: int = 0
    seconds: float = 0.0
    error: SqlError | None = None

    def released(self, oldest: Sequence[LoggedTransaction], waiting: int, now: str) -> Sequence[LoggedTransaction]:
        """Which of the `oldest` transactions may be moved when `waiting` are in the log; `now` in datetime form."""
        free = oldest[: max(0, waiting - self.transactions)]
        if not self.seconds:
            return free
        latest = datetime.fromisoformat(now) - timedelta(seconds=self.seconds)
        late = (at for at, t in enumerate(free) if datetime.fromisoformat(t.end_time) > latest)
        return free[: next(late, len(free))]


NO_HOLD = Hold()
