"""A queue with sessions on the virtual clock, behind `common.bus.ports.Receivers`: locks that are lost, states, and what is settled when."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count

from common.bus.ports import Delivery
from common.errors import LockLost, TransientError
from common.message import Message
from tests.worlds.virtual.simulation import Simulation

ANSWER = 0.004
"""Seconds that an answer of the broker takes."""

LOOK = 0.02
LOCK = 60.0


@dataclass(eq=False)
class Waiting:
    """A message in the queue; `received`: how often."""

    message: Message
    number: int
    put_at: float
    received: int = 0


@dataclass(eq=False)
class Session:
    waiting: list[Waiting] = field(default_factory=list)
    state: bytes | None = None
    holder: VirtualReceiver | None = None
    free_from: float = 0.0


class Broker:
    """`settled` is called for each message that leaves the queue: with the life that settled it, and the reason if it is a dead letter. `kept`
    looks at each state that a life keeps with a session."""

    def __init__(
        self,
        world: Simulation,
        settled: Callable[[Waiting, int, str | None], None],
        kept: Callable[[Session, bytes, int], None],
    ) -> None:
        self.world = world
        self.settled = settled
        self.kept = kept
        self.sessions: dict[str, Session] = {}
        self._numbers = count(1)

    def put(self, message: Message) -> None:
        held = self.sessions.setdefault(message.session_id or "", Session())
        held.waiting.append(Waiting(message, next(self._numbers), self.world.now))

    def lose_lock(self, session: Session, *, after: float = 0.0) -> None:
        session.holder = None
        session.free_from = self.world.now + after

    def dead(self, life: int) -> None:
        """All connections of a process end."""
        for session in self.sessions.values():
            if session.holder is not None and session.holder.life == life:
                self.lose_lock(session, after=self.world.random.choice((0.0, 0.5, 3.0)))

    @property
    def waiting(self) -> int:
        return sum(len(session.waiting) for session in self.sessions.values())


@dataclass(eq=False, slots=True)
class VirtualDelivery:
    held: Waiting
    delivery_count: int
    fault: str | None = None

    @property
    def message(self) -> Message:
        return self.held.message

    @property
    def position(self) -> tuple[int, int]:
        return self.held.number, 0


class VirtualReceivers:
    def __init__(self, broker: Broker, life: int) -> None:
        self._broker, self._life = broker, life

    def open(self, *, max_wait: float, give_up: Callable[[], bool] | None = None) -> VirtualReceiver | None:
        world, until = self._broker.world, self._broker.world.now + max_wait
        world.sleep(ANSWER)
        while world.now < until:
            if give_up is not None and give_up():  # as an adapter does it: asked before the broker can have answered
                return None
            free = [
                name
                for name, session in self._broker.sessions.items()
                if session.holder is None and session.waiting and world.now >= session.free_from
            ]
            if free:
                return VirtualReceiver(self._broker, world.random.choice(free), self._life)
            world.sleep(0.1)
        return None


class VirtualReceiver:
    def __init__(self, broker: Broker, name: str, life: int) -> None:
        self.session_id: str | None = name
        self.life = life
        self._broker, self._session = broker, broker.sessions[name]
        self._session.holder = self
        self._read = 0
        """The number of the last message that was handed out."""
        self._locked_at = broker.world.now
        self.open = True
        self.using: object = None

    def _asked(self) -> None:
        world = self._broker.world
        assert self.using is None, "two threads use one receiver"
        assert self.open, "a closed receiver is used"
        self.using = world.current
        try:
            world.sleep(ANSWER)
        finally:
            self.using = None
        if self._session.holder is not self:
            raise LockLost("the lock is lost")

    def receive(self, *, max_count: int, max_wait: float) -> Sequence[VirtualDelivery]:
        world, until = self._broker.world, self._broker.world.now + max_wait
        self._asked()
        while True:
            found = [held for held in self._session.waiting if held.number > self._read][:max_count]
            if found or world.now >= until:
                break
            world.sleep(min(LOOK, until - world.now))
            if self._session.holder is not self:
                raise LockLost("the lock is lost")
        for held in found:
            held.received += 1
            self._read = held.number
        return [VirtualDelivery(held, held.received - 1) for held in found]

    def settle_many(self, deliveries: Sequence[Delivery]) -> Sequence[Delivery]:
        self._asked()
        for delivery in deliveries:
            self._take(delivery, None)
        if self._broker.world.random.random() < 0.002:
            raise TransientError("settled, and the answer was lost")
        return ()

    def _take(self, delivery: Delivery, reason: str | None) -> None:
        assert isinstance(delivery, VirtualDelivery)
        assert delivery.held in self._session.waiting, "it is settled twice"
        self._session.waiting.remove(delivery.held)
        self._broker.settled(delivery.held, self.life, reason)

    def dead_letter(self, delivery: Delivery, *, reason: str, description: str) -> None:
        self._asked()
        self._take(delivery, reason)

    def release(self, deliveries: Sequence[Delivery]) -> None:
        raise AssertionError("a session is closed instead")

    def renew(self, deliveries: Sequence[Delivery]) -> None:
        if self._broker.world.now - self._locked_at > LOCK / 2:
            self._asked()
            self._locked_at = self._broker.world.now

    def lock_left(self, deliveries: Sequence[Delivery]) -> float:
        return self._locked_at + LOCK - self._broker.world.now

    def state(self) -> bytes | None:
        self._asked()
        return self._session.state

    def set_state(self, state: bytes | None) -> None:
        self._asked()
        if self._broker.world.random.random() < 0.05:
            raise TransientError("the state could not be kept")
        if state is not None:
            self._broker.kept(self._session, state, self.life)
        self._session.state = state

    def close(self) -> None:
        self.open = False
        if self._session.holder is self:
            self._broker.lose_lock(self._session)
