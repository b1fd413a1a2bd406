"""When the transactions of a page's rows were committed. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ingester.sqlserver.position import LogPosition, Lsn

LocalTimes = Sequence[tuple[bytes, str | None]]
"""Each transaction's LSN and commit time, in the server's local time. A transaction that cleanup has removed since is missing."""


def of_rows(positions: Sequence[LogPosition], told: LocalTimes, utc: Mapping[str, str]) -> list[str | None]:
    """When each row's transaction was committed, in UTC; None for a transaction that `told` lacks.

    `positions`: the rows' own. `utc`: what each local time is in UTC.
    """
    times = {lsn: utc[time] for lsn, time in told if time is not None}
    return [times.get(position.lsn.value) for position in positions]


def removed(positions: Sequence[LogPosition], committed: Sequence[str | None], low: Lsn) -> bool:
    """Whether cleanup, which has come to `low`, removed a transaction after the rows were read, and before its time was."""
    pairs = zip(positions, committed, strict=True)
    return None in committed and any(time is None and position.lsn < low for position, time in pairs)
