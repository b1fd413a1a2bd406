"""Sessions that cannot go on now, kept locked without taking up a slot: until their destination may be tried again, or for good.

A session that is let go is handed out again at once, here or to another router, and would be met over and over; one that is kept
is nobody else's, so nothing of it can overtake what it waits for. Sends and settles nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import structlog

from common.bus import Receiver
from common.errors import DStreamError
from router.routes import Group
from router.tally import Held

LOOK = 1.0
"""Seconds between two looks at the locks; renewing is free of cost until half of a lock is used up."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class Parked:
    """A session with what was received of it and not sent; `ready` tells whether it may go on."""

    receiver: Receiver
    groups: Sequence[Group]
    ready: Callable[[], bool]


class Parking:
    """Shared by the slots. `keep` runs in a thread of its own until `stop`, and then gives everything back."""

    def __init__(
        self,
        stop: threading.Event,
        *,
        room: int,
        news: Callable[[], object] = lambda: None,
        turn: Callable[[], None] = lambda: None,
    ) -> None:
        """`room`: sessions parked at once, each a connection, and as many that are stopped; where there is none left, a slot waits with its
        session, and calls `turn` meanwhile. `news`: what stopped sessions may depend on; once it is another, they are tried again.
        """
        self._stop = stop
        self._room = room
        self._news, self._turn = news, turn
        self._known = news()
        self._full = False
        self._guard = threading.Lock()
        self._waiting: list[Parked] = []
        self._stopped: list[Receiver] = []

    @property
    def stopped(self) -> int:
        """Sessions that are held until the process ends, or there is news."""
        return len(self._stopped)

    def held(self) -> Held:
        return Held(parked=len(self._waiting), stopped=len(self._stopped))

    def park(self, parked: Parked) -> bool:
        """Take over a session; False, and it stays the caller's, when there is no room or the router stops."""
        with self._guard:
            if self._stop.is_set() or len(self._waiting) >= self._room:
                return False
            self._waiting.append(parked)
            return True

    def hold(self, receiver: Receiver) -> bool:
        """Take over a session until there is news; waits, with its lock kept, while there is no room. False when the router stops."""
        while not self._held(receiver):
            if self._stop.is_set():
                return False
            self._say_full()
            self._turn()
            if not self._renewed(receiver):
                return True  # let go
            self._stop.wait(LOOK)
        return True

    def _held(self, receiver: Receiver) -> bool:
        with self._guard:
            if self._stop.is_set() or len(self._stopped) >= self._room:
                return False
            self._stopped.append(receiver)
            return True

    def _say_full(self) -> None:
        with self._guard:
            told, self._full = self._full, True
        if not told:
            log.error(
                "too many sessions stopped at poisoned messages; slots wait with further ones",
                stopped=self._room,
                hint='see the lines "session stopped at a poisoned message"; on_poison = "dead_letter" lets sessions go on',
            )

    def anyone_ready(self) -> bool:
        with self._guard:
            return any(parked.ready() for parked in self._waiting)

    def take_ready(self) -> Parked | None:
        """One that may go on, the longest parked first; it is the caller's again."""
        with self._guard:
            for parked in self._waiting:
                if parked.ready():
                    self._waiting.remove(parked)
                    return parked
        return None

    def keep(self) -> None:
        while not self._stop.wait(LOOK):
            self.look()
        self.close()

    def look(self) -> None:
        """Renew the locks that need it; a session whose lock or link is gone is let go, and some slot will take it again."""
        with self._guard:
            waiting, stopped = list(self._waiting), list(self._stopped)
        for parked in waiting:
            # Taken out meanwhile: a slot may have begun with it, and a receiver has one user.
            with self._guard:
                if parked not in self._waiting:
                    continue
                self._waiting.remove(parked)
            if self._renewed(parked.receiver):
                with self._guard:
                    self._waiting.append(parked)
        for receiver in stopped:
            if not self._renewed(receiver):
                with self._guard:
                    self._stopped.remove(receiver)
        self._try_again_with_news()

    def _try_again_with_news(self) -> None:
        """Give stopped sessions back: a slot takes them again, and goes by what is known now."""
        if not self._stopped or (now := self._news()) == self._known:
            return
        with self._guard:
            self._known = now
            again, self._stopped, self._full = self._stopped, [], False
        log.info("the configuration has changed; stopped sessions are tried again", sessions=len(again))
        for receiver in again:
            receiver.close()

    def close(self) -> None:
        """Give all of them back."""
        with self._guard:
            receivers = [parked.receiver for parked in self._waiting] + self._stopped
            self._waiting, self._stopped = [], []
        for receiver in receivers:
            receiver.close()

    @staticmethod
    def _renewed(receiver: Receiver) -> bool:
        try:
            receiver.renew(())  # of no deliveries: this is no slot's turn (router/observed.py)
        except DStreamError as error:
            log.info("parked session let go", session=receiver.session_id, reason=error.message)
            receiver.close()
            return False
        return True
