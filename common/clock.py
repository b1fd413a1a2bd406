"""The two clocks. Neither is ever compared with the other.

The steady clock counts seconds that only go forward. It orders what happens in one process; on another machine its number means nothing.
Unix time is shared between machines, but a person or NTP may set it at any moment. A lease ends by the steady clock of its holder. What is
sent to another machine carries Unix time, and a duration next to it where a set clock could do harm.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NewType, TypeVar

SteadyTime = NewType("SteadyTime", float)
UnixTime = NewType("UnixTime", float)

SteadyClock = Callable[[], SteadyTime]
UnixClock = Callable[[], UnixTime]

_Moment = TypeVar("_Moment", SteadyTime, UnixTime)
"""One of the two, the same for every argument. To mypy both are floats, so it lets `<` and `-` mix them; a call of `seconds_left` it does not."""


def steady() -> SteadyTime:
    """Seconds that only go forward, also while the process or the machine is suspended; no clock adjustment moves them."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return SteadyTime(time.monotonic() if clock is None else time.clock_gettime(clock))


def unix() -> UnixTime:
    """Seconds since 1970, as this machine's wall clock has them."""
    return UnixTime(time.time())


def seconds_left(until: _Moment, *, now: _Moment) -> float:
    """Seconds from `now` to `until`; below 0 when it has passed."""
    return until - now
