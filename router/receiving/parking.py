"""Sessions that cannot go on now, kept locked without a slot: until their topic may be tried again, or for good.

A session that is let go is handed out again at once, here or to another router, and would come over and over. While it is kept nobody else
has it, so none of its messages can pass those that wait. Received messages are kept in memory up to a limit. Beyond it the messages
are given back, and the session is parked unread when it comes again. Sends and settles nothing.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import structlog

from common.bus.ports import Receiver
from common.errors import DStreamError
from common.message import weight
from common.periodic import repeat
from router.hands import Hands
from router.routes import Group
from router.tally import Held

LOOK = 1.0
"""Seconds between two checks of the locks; renewing does nothing until half of a lock is used up."""

HANDS = 16
"""Threads that renew locks and give sessions back: a connection that hangs keeps one of them busy, and holds up no other session."""

CLOSING_HANDS = 64
"""Sessions given back side by side at a stop."""

CLOSED_WITHIN = 10.0
"""Seconds that a stop waits for all of them. A close without an answer takes 4 s, and there may be thousands; the others are free as soon as
the process has ended, and its connections with it."""

PARKED_PER_SLOT = 8
"""For each slot, sessions that wait for their topic without a slot, and as many stopped ones; each is a connection."""

FANNED_OUT_PER_SLOT = 32
"""The same where messages go to several outputs: a parked session is still served for the outputs that accept its messages, so one output that is
away parks every session that has messages for it."""


def parked_per_slot(*, routes: bool) -> int:
    """`routes`: whether messages may go to several outputs."""
    return FANNED_OUT_PER_SLOT if routes else PARKED_PER_SLOT


log = structlog.get_logger(__name__)

Ready = Callable[[], bool]


class Kept(Protocol):
    """What goes on in a session while it is parked, where it has several outputs."""

    @property
    def bytes(self) -> int: ...

    def pressing(self) -> bool:
        """Whether it is worth a slot that waits for a new session."""
        ...

    def renewed(self) -> None:
        """Its lock was renewed."""
        ...

    def give_up(self, *, keeps: bool) -> None:
        """Its receiver is closed, or about to be; then it may keep something with the session. Never raises."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Parked:
    """A session with its received, unsent messages; `ready` returns whether it may go on."""

    receiver: Receiver
    groups: Sequence[Group]
    ready: Ready
    kept: Kept | None = None

    @property
    def bytes(self) -> int:
        """Bytes of its messages."""
        own = 0 if self.kept is None else self.kept.bytes
        return own + sum(weight(delivery.message) for group in self.groups for delivery in group.deliveries)

    def pressing(self) -> bool:
        return self.ready() if self.kept is None else self.kept.pressing()

    def close(self) -> None:
        """Give it back."""
        if self.kept is not None:
            self.kept.give_up(keeps=True)
        self.receiver.close()


def _never() -> bool:
    return False


class Parking:
    """Shared by the slots. `keep` runs in a thread of its own until `stop`, and then gives everything back."""

    def __init__(
        self,
        stop: threading.Event,
        *,
        room: int,
        memory: float = math.inf,
        ahead: Callable[[], float] = lambda: 0.0,
        news: Callable[[], object] = lambda: None,
        turn: Callable[[], None] = lambda: None,
    ) -> None:
        """`room`: sessions parked at once, each a connection, and as many stopped ones; without room, a slot waits with its session, and
        calls `turn` meanwhile. `memory`: bytes that they may hold together. `ahead`: bytes fetched ahead of a session that was read.
        `news`: a value that stopped sessions may depend on; when it changes, they are tried again.
        """
        self._stop = stop
        self._room = room
        self._memory = memory
        self._ahead = ahead
        self._news, self._turn = news, turn
        self._known = news()
        self._queueing = 0
        """Slots that wait with a session that must be stopped."""
        self._guard = threading.Lock()
        self._waiting: list[Parked] = []
        self._stopped: list[Parked] = []
        self._renewing: set[Parked] = set()
        """Asked to be renewed."""
        self._away: set[Parked] = set()
        """Those of them whose renewal has begun."""
        self._bytes: dict[Parked, float] = {}
        """Bytes of the sessions that hold messages."""
        self._given_back: dict[str, Ready] = {}
        self._hands = Hands(HANDS, "parking")

    @property
    def stopped(self) -> int:
        """Sessions that are held until the process ends or `news` changes."""
        return len(self._stopped)

    def held(self) -> Held:
        return Held(parked=self._parked(), stopped=len(self._stopped))

    def park(self, parked: Parked) -> bool:
        """Take over a session; False, and it stays the caller's, when there is no room or no memory for it, or the router stops."""
        held = parked.bytes + self._ahead() if parked.groups or parked.kept else 0.0
        with self._guard:
            if self._stop.is_set() or self._no_room() or (held and sum(self._bytes.values()) + held > self._memory):
                return False
            self._waiting.append(parked)
            if held:
                self._bytes[parked] = held
            return True

    @property
    def has_room(self) -> bool:
        """Whether it is for want of memory that a session cannot be parked."""
        with self._guard:
            return not self._no_room()

    def remember(self, session_id: str, ready: Ready) -> bool:
        """The caller gives this session back because its messages take too much memory; it is recognised when it comes again.

        False when the caller should wait with it: there would be no room to park it.
        """
        with self._guard:
            if self._stop.is_set() or self._no_room():
                return False
            self._given_back = {known: each for known, each in self._given_back.items() if not each()}
            self._given_back[session_id] = ready
            return True

    def park_unread(self, receiver: Receiver) -> bool:
        """Take over a session that was just opened, if it was given back before and its topic is still unavailable."""
        with self._guard:
            ready = self._given_back.pop(receiver.session_id or "", None)
        return ready is not None and not ready() and self.park(Parked(receiver, (), ready))

    def hold(self, receiver: Receiver) -> bool:
        """Take over a session until `news` changes; waits, and keeps its lock, while there is no room. False when the router stops."""
        if self._held(receiver):
            return True
        if self._stop.is_set():
            return False
        self._queue(1)
        try:
            while not self._held(receiver):
                if self._stop.is_set():
                    return False
                self._turn()
                if not self._renewed(receiver):
                    return True  # let go
                self._stop.wait(LOOK)
            return True
        finally:
            self._queue(-1)

    def _held(self, receiver: Receiver) -> bool:
        with self._guard:
            if self._stop.is_set() or len(self._stopped) >= self._room:
                return False
            self._stopped.append(Parked(receiver, (), _never))
            return True

    def _queue(self, change: int) -> None:
        """A slot begins to wait, or ends; the first and the last are logged."""
        with self._guard:
            before, self._queueing = self._queueing, self._queueing + change
            now = self._queueing
        if not before:
            log.error(
                "too many sessions stopped at poisoned messages; slots wait with further ones",
                stopped=self._room,
                hint='see the lines "session stopped at a poisoned message"; on_poison = "dead_letter" lets sessions go on',
            )
        elif not now and not self._stop.is_set():
            log.info("no slot waits with a stopped session any more")

    def anyone_ready(self) -> bool:
        with self._guard:
            return any(parked.ready() for parked in self._waiting)

    def anyone_pressing(self) -> bool:
        """Whether a slot should rather take one of them than wait for a new session."""
        with self._guard:
            return any(parked.pressing() for parked in self._waiting)

    def take_ready(self) -> Parked | None:
        """One that may go on, the longest parked first; it is the caller's again."""
        with self._guard:
            for parked in self._waiting:
                if parked.ready():
                    self._waiting.remove(parked)
                    self._bytes.pop(parked, None)
                    return parked
        return None

    def keep(self) -> None:
        repeat(self.look, "parked sessions", self._stop, every=LOOK)
        self.close()

    def look(self) -> None:
        """Start renewing the locks that need it, without waiting. A session whose lock or link is lost is let go, and some slot will take it."""
        with self._guard:
            asked = deque(parked for parked in (*self._waiting, *self._stopped) if parked not in self._renewing)
            self._renewing.update(asked)
        try:
            while asked:
                self._hands.do(partial(self._renew, asked[0]))
                asked.popleft()
        finally:
            with self._guard:
                self._renewing.difference_update(asked)  # without a thread for them, the next look asks again
        self._try_again_with_news()

    def _try_again_with_news(self) -> None:
        """Give stopped sessions back: a slot takes them again, with the present configuration."""
        if (now := self._news()) == self._known:
            return
        with self._guard:
            self._known = now
            again = [parked for parked in self._stopped if parked not in self._away]  # the others see to themselves
            self._stopped = [parked for parked in self._stopped if parked in self._away]
        if again:
            log.info("the configuration has changed; stopped sessions are tried again", sessions=len(again))
        for parked in again:
            self._hands.do(parked.close)

    def close(self) -> None:
        """Give all of them back, and wait for that at most CLOSED_WITHIN."""
        until = time.monotonic() + CLOSED_WITHIN
        with self._guard:
            parked = [
                each for each in (*self._waiting, *self._stopped) if each not in self._away
            ]  # those give themselves back
            self._waiting, self._stopped, self._bytes = [], [], {}
        closing = Hands(CLOSING_HANDS, "parking-close")
        for each in parked:
            closing.do(each.close)
        left = closing.finish(CLOSED_WITHIN) + self._hands.finish(max(0.0, until - time.monotonic()))
        if left:
            log.warning(
                "parked sessions not given back in time",
                sessions=left,
                effect="the process ends with their connections, which frees them",
            )

    def _no_room(self) -> bool:
        return self._parked() >= self._room

    def _parked(self) -> int:
        """Those whose lock is just renewed among them."""
        return len(self._waiting) + sum(parked not in self._stopped for parked in self._away)

    def _renew(self, parked: Parked) -> None:
        with self._guard:
            stopped, known = parked in self._stopped, self._known
            if not stopped and parked not in self._waiting:
                self._renewing.discard(parked)
                return
            self._away.add(parked)
            if not stopped:  # removed meanwhile: a slot could begin with it otherwise, and a receiver has one user
                self._waiting.remove(parked)
        kept = self._renewed(parked.receiver)
        if parked.kept is not None:
            parked.kept.renewed() if kept else parked.kept.give_up(keeps=False)
        with self._guard:
            self._renewing.discard(parked)
            self._away.discard(parked)
            stays = kept and not self._stop.is_set() and not (stopped and known != self._known)
            if stays and not stopped:
                self._waiting.append(parked)
            if stays:
                return
            self._bytes.pop(parked, None)
            if parked in self._stopped:
                self._stopped.remove(parked)
        if kept:
            parked.close()

    @staticmethod
    def _renewed(receiver: Receiver) -> bool:
        try:
            receiver.renew(())  # without deliveries: this is not a turn of a slot (router/counting.py)
        except DStreamError as error:
            log.info("parked session let go", session=receiver.session_id, reason=error.message)
            receiver.close()
            return False
        return True
