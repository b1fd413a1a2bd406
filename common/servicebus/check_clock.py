"""`dstream check` of the machine's clock, against the Date of an answer of the management API (RFC 9110, 6.6.1: whole seconds). Pure.

The clock matters because the SDK uses it: a lock is lost for it once this machine's time is past the lock's end, and its tokens last an hour.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from email.utils import parsedate_to_datetime

from common.check import Finding, by_hand, fail, warn
from common.config.durations import format_duration

NOTICED = 5.0
"""Seconds. Smaller differences may come from a Date in whole seconds or from a slow answer."""

_HINT = "synchronise this machine's clock (chrony, systemd-timesyncd, or the host's clock for a virtual machine)"

_FIX = by_hand("what keeps the time differs from machine to machine, and a container has its host's")


def seconds_ahead(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds that this machine's clock is ahead of the answer's Date; negative: behind. `now`: time.time() at the answer. None without a Date."""
    try:
        told = parsedate_to_datetime(headers["Date"])
    except (KeyError, ValueError):
        return None
    return now - told.timestamp()


def judge_clock(ahead: float | None, lock: timedelta | None) -> list[Finding]:
    """`lock`: how long the queue's locks last; None when unknown."""
    if ahead is None or abs(ahead) < NOTICED:
        return []
    text = f"this machine's clock is {format_duration(timedelta(seconds=round(abs(ahead))))} {'ahead of' if ahead > 0 else 'behind'} Service Bus's"
    if lock is not None and ahead >= lock.total_seconds():
        text += f", longer than the queue's locks last ({format_duration(lock)}): each lock counts as lost as soon as it is taken"
        return [fail("clock", text, _HINT, fix=_FIX)]
    return [warn("clock", f"{text}: locks and tokens are judged by it", _HINT, fix=_FIX)]
