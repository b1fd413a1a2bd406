"""How long until cleanup may remove unread changes of a table, and when to warn about it. Pure.

Cleanup keeps changes that were committed within the retention before the newest captured transaction. An offset whose transaction is older
is a gap (ingester/window.py).
https://learn.microsoft.com/sql/relational-databases/track-changes/administer-and-monitor-change-data-capture-sql-server
"""

from __future__ import annotations

from enum import IntEnum

LOW, LOWER, RECOVERED = 1 / 4, 1 / 20, 1 / 2
"""Shares of the retention that are left. A quarter of SQL Server's default of three days is 18 hours: a night to fix the cause, and more than
any ordinary backlog takes. A twentieth, 3.6 hours, is the last call. The alarm is over at a half, so that a table near a quarter is not
reported again and again."""


class Alarm(IntEnum):
    """In ascending order. PASSED: cleanup may have removed changes already."""

    NONE = 0
    LOW = 1
    LOWER = 2
    PASSED = 3


def headroom(retention: float, age: float) -> float:
    """Seconds that are left, below 0 when it is too late. `age`: from the offset to the newest captured transaction."""
    return retention - age


def alarm(former: Alarm, left: float, retention: float) -> Alarm:
    """The alarm for `left` seconds of `retention`, after `former`: it rises at once, and falls only when all is well again."""
    share = left / retention
    now = Alarm.PASSED if share <= 0 else Alarm.LOWER if share < LOWER else Alarm.LOW if share < LOW else Alarm.NONE
    if now >= former:
        return now
    return Alarm.NONE if share >= RECOVERED else former
