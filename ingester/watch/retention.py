"""How long until cleanup may remove unread changes of a table, and when that deserves a warning. Pure.

Cleanup keeps changes that were committed within the retention before the newest captured transaction. An offset whose
transaction is older is a gap (ingester/window.py).
https://learn.microsoft.com/sql/relational-databases/track-changes/administer-and-monitor-change-data-capture-sql-server
"""

from __future__ import annotations

from enum import IntEnum

LOW, LOWER, RECOVERED = 1 / 4, 1 / 20, 1 / 2
"""Fractions of the retention that are left. A quarter of SQL Server's default of three days is 18 hours: a night to fix
the cause, and more than an ordinary backlog uses up. A twentieth, 3.6 hours, is the last call. The alarm ends at the half,
so that a table near a quarter is not reported again and again."""


class Alarm(IntEnum):
    """In ascending order. PASSED: cleanup may have removed changes already."""

    NONE = 0
    LOW = 1
    LOWER = 2
    PASSED = 3


def headroom(retention: float, age: float) -> float:
    """Seconds that are left; below 0: too late. `age`: of the offset, against the newest captured transaction."""
    return retention - age


def alarm(former: Alarm, left: float, retention: float) -> Alarm:
    """The alarm for `left` seconds of `retention` after `former`. It rises at once, and ends only at RECOVERED."""
    fraction = left / retention
    now = _level(fraction)
    if now >= former:
        return now
    return Alarm.NONE if fraction >= RECOVERED else former


def _level(fraction: float) -> Alarm:
    if fraction <= 0:
        return Alarm.PASSED
    if fraction < LOWER:
        return Alarm.LOWER
    return Alarm.LOW if fraction < LOW else Alarm.NONE
