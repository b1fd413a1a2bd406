"""When the transactions of a page's rows were committed. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ingester.sqlserver.position import LogPosition, Lsn

LocalTimes = Sequence[tuple[bytes, str | None]]
"""Of each transaction its LSN, and when it was committed in the server's local time; none for one that cleanup has removed since."""


def of_rows(positions: Sequence[LogPosition], told: LocalTimes, utc: Mapping[str, str]) -> list[str | None]:
    """Of rows at these positions. `utc`: of each local time. None for a transaction that is not told of."""
    times = {lsn: utc[time] for lsn, time in told if time is not None}
    return [times.get(position.lsn.value) for position in positions]


def removed(positions: Sequence[LogPosition], committed: Sequence[str | None], low: Lsn) -> bool:
    """Whether cleanup, which has come to `low`, removed a transaction after the rows were read, and before its time was."""
    pairs = zip(positions, committed, strict=True)
    return None in committed and any(time is None and position.lsn < low for position, time in pairs)
