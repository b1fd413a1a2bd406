"""How long until cleanup may remove what a table has not read, and when that is worth a warning. Pure.

Cleanup keeps what was committed within the retention before the newest captured transaction, and an offset whose transaction is older than
that is a gap (ingester/window.py).
https://learn.microsoft.com/sql/relational-databases/track-changes/administer-and-monitor-change-data-capture-sql-server
"""

from __future__ import annotations

from enum import IntEnum

LOW, LOWER, RECOVERED = 1 / 4, 1 / 20, 1 / 2
"""Shares of the retention that are left. A quarter of SQL Server's default of three days is 18 hours: a night for whoever is to mend it, and
more than any ordinary backlog uses up. A twentieth, 3.6 hours, is the last call. It is over at the half, so that a table that hovers about a
quarter is not told of again and again."""


class Alarm(IntEnum):
    """In ascending order. PASSED: cleanup may have removed changes already."""

    NONE = 0
    LOW = 1
    LOWER = 2
    PASSED = 3


def headroom(retention: float, age: float) -> float:
    """Seconds that are left, below 0 when it is too late. `age`: of the offset, against the newest captured transaction."""
    return retention - age


def alarm(former: Alarm, left: float, retention: float) -> Alarm:
    """What `left` seconds of `retention` mean for a table that was at `former`: worse at once, better only when it is good again."""
    share = left / retention
    now = Alarm.PASSED if share <= 0 else Alarm.LOWER if share < LOWER else Alarm.LOW if share < LOW else Alarm.NONE
    if now >= former:
        return now
    return Alarm.NONE if share >= RECOVERED else former
