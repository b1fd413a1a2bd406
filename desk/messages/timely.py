"""The time of one request: each store has its part of it, and one that has not answered in its part is not asked again. So what the others say
comes in time, and with it why the rest is unknown. Knows neither SQL Server nor a bus."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Final, TypeVar

from common.errors import TransientError
from common.in_time import begun, in_time
from desk.messages.scanning import Clock
from ingester.operating.finding import ChangeFinder

SECONDS: Final = 25.0
"""For all stores together: the console waits half a minute for an answer."""
SERVER_SECONDS: Final = 10.0
"""For all that SQL Server is asked."""
OPENS_SECONDS: Final = 5.0
"""For opening a link to a namespace; looking through it comes on top."""

_T = TypeVar("_T")


@dataclass(slots=True)
class Time:
    """Begins when it is made. `late`: stores that did not answer in time."""

    clock: Clock
    late: set[Hashable] = field(default_factory=set)
    began: float = field(init=False)

    def __post_init__(self) -> None:
        self.began = self.clock()

    def ask(self, store: Hashable, until: float, call: Callable[[], _T]) -> _T:
        """What `call` returns or raises. `until`: seconds from the beginning. Raises TransientError where the store is late, or no time is
        left; a call that is late goes on in its thread."""
        if store in self.late:
            raise TransientError("it did not answer in time before, and was not asked again", hint=_LATER)
        left = min(until, SECONDS) - self.passed()
        if left <= 0:
            raise TransientError("the others took all the time, so it was not asked", hint=_LATER)
        try:
            return in_time(left, call, name="story")
        except TimeoutError:
            self.late.add(store)
            raise TransientError(f"it did not answer within {left:.0f} s", hint=_LATER) from None

    def passed(self) -> float:
        return self.clock() - self.began


_LATER: Final = "ask again in a while; `dstream doctor` looks at each store"
_SERVER: Final = "SQL Server"


class Server:
    """A finder, which one thread at a time may use, also when it is late."""

    def __init__(self, finder: ChangeFinder, time: Time) -> None:
        self.finder = finder
        self._time = time
        self._alone = threading.Lock()

    def ask(self, call: Callable[[ChangeFinder], _T]) -> _T:
        """As `Time.ask`."""

        def alone() -> _T:
            with self._alone:
                return call(self.finder)

        return self._time.ask(_SERVER, SERVER_SECONDS, alone)

    def close(self) -> None:
        """Never raises. One that is late is closed when its answer has come."""
        if _SERVER in self._time.late:
            begun(self._close, name="story")
        else:
            self._close()

    def _close(self) -> None:
        with self._alone:
            self.finder.close()
