"""A bus in a dict behind the ports of common/bus/ports.py, with sessions, locks and dead letters, and with faults to order.

It keeps what the contract suite (tests/contracts/bus) asks of the real adapter; unit tests of the loops stand on that.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count as numbers

from common.bus.depths import Depth, TopicDepths
from common.bus.fetch_ahead import FetchAhead
from common.bus.ports import (
    Bus,
    Delivery,
    MessageRefused,
    MessageTooLarge,
    Need,
    Provision,
    QueueNeed,
    QueueState,
    Storage,
    TimeLeft,
    TopicNeed,
)
from common.check import NOT_KNOWN, Finding, Fix, failed, ok
from common.errors import DStreamError, EntityUnavailable, PermanentError, TransientError
from common.message import Message


@dataclass(eq=False)
class Held:
    """A message in an entity: who has it locked, and how often it was delivered in vain."""

    message: Message
    fault: str | None = None
    count: int = 0
    holder: FakeReceiver | None = None
    number: int = field(default_factory=numbers(1).__next__)


@dataclass
class FakeEntity:
    """A queue or topic. `faults`: what the next sends raise, in turn; `limit`: bytes a message may have; `refuses`: ids it takes from nobody."""

    name: str
    sessions: bool = False
    limit: int = 262_144
    held: list[Held] = field(default_factory=list)
    dead: list[tuple[Message, str, str]] = field(default_factory=list)
    faults: deque[Exception] = field(default_factory=deque)
    refuses: Collection[str | None] = ()
    sends: list[list[Message]] = field(default_factory=list)
    mark: str | None = None
    states: dict[str, bytes] = field(default_factory=dict)

    @property
    def bodies(self) -> list[bytes]:
        return [held.message.body for held in self.held]


class FakeBroker:
    """A `Bus`. Entities by name; everything under one condition, so that a receiver can wait for a sender."""

    host = hostname = "fake"
    most_connections: int | None = None

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.entities_by_name: dict[str, FakeEntity] = {}
        self.open_receivers: list[FakeReceiver] = []
        self.open_faults: deque[Exception] = deque()

    def create(self, name: str, *, sessions: bool = False, limit: int = 262_144) -> FakeEntity:
        self.entities_by_name[name] = FakeEntity(name, sessions=sessions, limit=limit)
        return self.entities_by_name[name]

    def entity(self, name: str) -> FakeEntity:
        try:
            return self.entities_by_name[name]
        except KeyError:
            raise EntityUnavailable(f"opening {name}: it does not exist") from None

    @property
    def entities(self) -> FakeEntityManager:
        return FakeEntityManager(self)

    def sender(self, entity: str, *, proven: bool | None = None) -> FakeSender:
        return FakeSender(self, entity)

    def receivers(
        self,
        queue: str,
        *,
        sessions: bool,
        prefetch: int = 1,
        ahead: FetchAhead | None = None,
        proven: bool = False,
    ) -> FakeReceivers:
        return FakeReceivers(self, queue, sessions)

    def cut_calls(self) -> None:
        """No call takes time here."""

    def close(self) -> None:
        """Nothing is open."""

    def expire_locks(self) -> None:
        """All locks run out at once: messages are free, and their delivery counts rise."""
        with self.changed:
            for receiver in self.open_receivers:
                receiver.lock_lost = True
            for held in (held for entity in self.entities_by_name.values() for held in entity.held if held.holder):
                held.holder = None
                held.count += 1
            self.open_receivers.clear()


class FakeEntityManager:
    """An `EntityManager`: creates what is missing, and finds nothing wrong with what is there."""

    def __init__(self, broker: FakeBroker) -> None:
        self._broker = broker

    def provision(
        self, needs: Sequence[Need], *, how: Provision, stop: threading.Event | None = None
    ) -> Collection[str]:
        for need in needs:
            if how == "create" and need.name not in self._broker.entities_by_name:
                made = self._broker.create(need.name, sessions=isinstance(need, QueueNeed) and need.sessions)
                made.mark = need.mark if isinstance(need, TopicNeed) else None
            elif how == "verify":
                self._broker.entity(need.name)
        return ()

    def marked(self, mark: str, *, stop: threading.Event | None = None) -> Collection[str]:
        return {name.lower() for name, each in self._broker.entities_by_name.items() if each.mark == mark}

    def queue_storage(self, name: str, *, stop: threading.Event | None = None) -> Storage | None:
        return self.topics_storage([name]).get(name)

    def topics_storage(self, names: Sequence[str], *, stop: threading.Event | None = None) -> Mapping[str, Storage]:
        there = self._broker.entities_by_name
        return {name: Storage(sum(map(len, there[name].bodies)), 0) for name in names if name in there}

    def queue_state(self, name: str) -> FakeQueueState | None:
        there = self._broker.entities_by_name
        return FakeQueueState(len(there[name].held), there[name].limit) if name in there else None

    def queue_findings(
        self, name: str, *, sessions: bool, provision: Provision, sends: bool, used: bool = False
    ) -> Iterator[Finding]:
        yield self._finding(f"queue {name}", name)

    def topic_findings(
        self, names: Sequence[str], *, subscriptions: Sequence[str], provision: Provision, queue: QueueState | None
    ) -> Iterator[Finding]:
        yield from (self._finding(f"topic {name}", name) for name in names)

    def queue_depth(self, name: str, *, stop: threading.Event | None = None) -> Depth | None:
        there = self._broker.entities_by_name
        return Depth(name, None, len(there[name].held), 0) if name in there else None

    def topic_depths(
        self, names: Sequence[str], *, fewest: int = 0, stop: threading.Event | None = None
    ) -> TopicDepths:
        return {name: () if name in self._broker.entities_by_name else None for name in names}

    def fix_of_subscription(self, topic: str, name: str) -> Fix:
        return NOT_KNOWN

    def fix_of_sending(self, name: str, trouble: DStreamError) -> Fix:
        return NOT_KNOWN

    def trouble_sending(self, name: str) -> DStreamError | None:
        try:
            self._broker.entity(name)
        except DStreamError as error:
            return error
        return None

    def _finding(self, subject: str, name: str) -> Finding:
        trouble = self.trouble_sending(name)
        return ok(subject, "there") if trouble is None else failed(subject, trouble)


@dataclass(frozen=True)
class FakeQueueState:
    waiting: int
    largest: int | None


def as_bus(broker: FakeBroker) -> Bus:
    """mypy checks here that the fake keeps the port."""
    return broker


class FakeSender:
    def __init__(self, broker: FakeBroker, name: str) -> None:
        self._broker = broker
        self._name = name
        self.opened = 0
        self.closed = False

    def open(self) -> None:
        self.opened += 1
        self._broker.entity(self._name)

    def batch_bytes(self) -> int:
        return self._broker.entity(self._name).limit

    def send(self, messages: Sequence[Message], *, left: TimeLeft | None = None) -> None:
        entity = self._broker.entity(self._name)
        if entity.faults:
            raise entity.faults.popleft()
        accepted: list[int] = []
        with self._broker.changed:
            for at in sorted(range(len(messages)), key=lambda at: _first(messages, messages[at].session_id)):
                message = messages[at]
                if len(message.body) > entity.limit:
                    raise MessageTooLarge(self._name, message, at=at, limit=entity.limit, accepted=accepted)
                if message.message_id in entity.refuses:
                    raise MessageRefused(self._name, message, "was refused: not here", at=at, accepted=accepted)
                if entity.sessions and message.session_id is None:
                    raise PermanentError(f"sending to {self._name}: a message has no session id")
                entity.held.append(Held(message))
                accepted.append(at)
            entity.sends.append(list(messages))
            self._broker.changed.notify_all()

    def close(self) -> None:
        self.closed = True


def _first(messages: Sequence[Message], session_id: str | None) -> int:
    return next(at for at, message in enumerate(messages) if message.session_id == session_id)


class FakeDelivery:
    def __init__(self, held: Held) -> None:
        self.held = held
        self.delivery_count = held.count

    @property
    def message(self) -> Message:
        return self.held.message

    @property
    def fault(self) -> str | None:
        return self.held.fault

    @property
    def position(self) -> tuple[int, int]:
        return self.held.number, 0


class FakeReceiver:
    def __init__(self, broker: FakeBroker, entity: FakeEntity, session_id: str | None) -> None:
        self._broker = broker
        self._entity = entity
        self.session_id = session_id
        self.lock_lost = False
        self.renewals = 0
        self.lock_lasts = math.inf
        self.settle_faults: deque[Exception] = deque()
        broker.open_receivers.append(self)

    def receive(self, *, max_count: int, max_wait: float) -> Sequence[FakeDelivery]:
        deadline = time.monotonic() + max_wait
        with self._broker.changed:
            while True:
                self._check()
                ready = [held for held in self._mine() if held.holder is None][:max_count]
                left = deadline - time.monotonic()
                if ready or left <= 0:
                    break
                self._broker.changed.wait(left)
            for held in ready:
                held.holder = self
            return [FakeDelivery(held) for held in ready]

    def _mine(self) -> list[Held]:
        return [
            held for held in self._entity.held if self.session_id is None or held.message.session_id == self.session_id
        ]

    def _check(self) -> None:
        if self.lock_lost and self.session_id is not None:
            raise TransientError(f"receiving from {self._entity.name}: the session lock is lost")

    def settle_many(self, deliveries: Sequence[Delivery]) -> Sequence[Delivery]:
        if self.settle_faults:
            raise self.settle_faults.popleft()
        with self._broker.changed:
            return [delivery for delivery in deliveries if not self._take(delivery)]

    def _take(self, delivery: Delivery) -> bool:
        held = _held(delivery)
        if held.holder is not self:
            return False
        self._entity.held.remove(held)
        return True

    def dead_letter(self, delivery: Delivery, *, reason: str, description: str) -> None:
        with self._broker.changed:
            if not self._take(delivery):
                raise TransientError(f"dead-lettering a message of {self._entity.name}: the lock is lost")
            self._entity.dead.append((delivery.message, reason, description))

    def release(self, deliveries: Sequence[Delivery]) -> None:
        with self._broker.changed:
            for held in map(_held, deliveries):
                if held.holder is self:
                    held.holder = None
            self._broker.changed.notify_all()

    def renew(self, deliveries: Sequence[Delivery]) -> None:
        """A settled message has no lock to renew."""
        with self._broker.changed:
            self._check()
            self.renewals += 1
            here = {id(held) for held in self._entity.held}
            if any(id(_held(delivery)) not in here for delivery in deliveries):
                raise TransientError(f"renewing the lock of a message of {self._entity.name}: the lock is lost")

    def lock_left(self, deliveries: Sequence[Delivery]) -> float:
        return self.lock_lasts

    def state(self) -> bytes | None:
        with self._broker.changed:
            self._check()
            return self._entity.states.get(self.session_id or "")

    def set_state(self, state: bytes | None) -> None:
        with self._broker.changed:
            self._check()
            if state is None or self.session_id is None:
                self._entity.states.pop(self.session_id or "", None)
            else:
                self._entity.states[self.session_id] = state

    def close(self) -> None:
        with self._broker.changed:
            for held in self._mine():
                if held.holder is self:
                    held.holder = None
            if self in self._broker.open_receivers:
                self._broker.open_receivers.remove(self)
            self._broker.changed.notify_all()


def _held(delivery: Delivery) -> Held:
    assert isinstance(delivery, FakeDelivery)
    return delivery.held


class FakeReceivers:
    def __init__(self, broker: FakeBroker, name: str, sessions: bool) -> None:
        self._broker = broker
        self._name = name
        self._sessions = sessions
        self.opened: list[str | None] = []

    def open(self, *, max_wait: float, give_up: Callable[[], bool] | None = None) -> FakeReceiver | None:
        if self._broker.open_faults:
            raise self._broker.open_faults.popleft()
        entity = self._broker.entity(self._name)
        if entity.sessions is not self._sessions:
            raise EntityUnavailable(f"opening a receiver for {self._name}: its sessions do not match")
        deadline = time.monotonic() + max_wait
        with self._broker.changed:
            while True:
                # As an adapter does it: asked before the broker can have answered.
                given_up = give_up is not None and give_up()
                session = self._free_session(entity) if self._sessions and not given_up else None
                left = deadline - time.monotonic()
                if session is not None or not self._sessions or left <= 0 or given_up:
                    break
                self._broker.changed.wait(left if give_up is None else min(left, 0.01))
            if self._sessions and session is None:
                return None
            self.opened.append(session)
            return FakeReceiver(self._broker, entity, session)

    def _free_session(self, entity: FakeEntity) -> str | None:
        taken = {receiver.session_id for receiver in self._broker.open_receivers}
        names = [held.message.session_id for held in entity.held]
        return next((name for name in names if name is not None and name not in taken), None)
