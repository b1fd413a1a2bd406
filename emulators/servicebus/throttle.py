"""Credits: what clients' operations cost a namespace of the Standard tier, and what happens when they are used up.

Counting is always on; without a limit nobody is ever refused. With one, each period of a second brings `limit` credits. An
operation is let in while any credit is left and then paid whole, so that a batch may overdraw; what is overdrawn is missing
from the next periods, and unused credits are not kept. The page says nothing of overdrawing: this reading keeps the average
true. Sends and requests are refused; a receiver, which has only given link credit, gets its messages when there are credits
again. The management API is charged and never refused. What the page does not list costs nothing: settling, renewing locks,
session state, opening links.
Source: learn.microsoft.com "Throttling operations on Azure Service Bus".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final

from .amqp.values import AmqpError

SENT: Final = "sent"
RECEIVED: Final = "received"
PEEKED: Final = "peeked"
FILTERS: Final = "filter evaluations"
MANAGEMENT: Final = "management operations"
COSTS: Final[Mapping[str, int]] = {SENT: 1, RECEIVED: 1, PEEKED: 1, FILTERS: 1, MANAGEMENT: 10}
"""Credits by kind: per message, per filter a message is held against, per operation."""


def server_busy() -> AmqpError:
    """What a client is told that asks for too much."""
    text = "The request was terminated because the namespace is being throttled. Error code : 50009."
    return AmqpError("com.microsoft:server-busy", f"{text} Please wait 2 seconds and try again.")


class CreditMeter:
    """Counts on the event loop; `limit` in credits per second, None for none. `clock` in seconds."""

    def __init__(self, limit: int | None, clock: Callable[[], float]) -> None:
        if limit is not None and limit < 1:
            raise ValueError(f"a namespace needs at least one credit per second, not {limit}")
        self._limit = limit
        self._clock = clock
        self._spent = dict.fromkeys(COSTS, 0)
        self._refused = 0
        self._period = -math.inf
        self._left = 0

    @property
    def spent(self) -> dict[str, int]:
        """Credits by kind since the start."""
        return dict(self._spent)

    @property
    def refused(self) -> int:
        """Sends (a batch is one) and requests refused since the start."""
        return self._refused

    @property
    def exhausted(self) -> bool:
        """Are there no credits left in this period?"""
        limit = self._limit
        if limit is None:
            return False
        period = math.floor(self._clock())
        if period > self._period:
            periods = 1.0 if math.isinf(self._period) else period - self._period
            self._period = period
            self._left = int(min(limit, self._left + limit * periods))
        return self._left <= 0

    def admit(self) -> None:
        """Raises AmqpError when there are no credits left."""
        if self.exhausted:
            self._refused += 1
            raise server_busy()

    def charge(self, kind: str, count: int = 1) -> None:
        """An operation was let in."""
        cost = COSTS[kind] * count
        self._spent[kind] += cost
        self._left -= cost
