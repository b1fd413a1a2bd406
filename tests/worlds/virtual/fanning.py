"""Outputs and routers on the virtual clock. The slots, lanes, couriers and the parking are the product's; senders and the gate are models."""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from common.bus.ports import MessageRefused, OutOfTime, SendInterrupted, TimeLeft, for_ever
from common.errors import PermanentError
from common.message import Message
from router.publishing.turns import nothing
from router.receiving.fan_out.behind import Behind
from router.receiving.fan_out.handover import FanOut
from router.receiving.fan_out.lanes import Lane
from router.receiving.fan_out.progress import Remembered, Rereads
from router.receiving.fan_out.session import Means, Session
from router.receiving.gate import Gate, Question
from router.receiving.pace import Pace
from router.receiving.parking import Parking
from router.receiving.slot import Forwarder
from router.receiving.unpack import UnpackingReceivers
from router.tally import Tally
from tests.worlds.virtual.sessions import Broker, VirtualReceivers
from tests.worlds.virtual.simulation import Simulation

PACE = Pace(batch=20, accept_wait=1.0, longest_wait=2.0, poll=0.25, idle=3.0, turn=5.0, linger=1.0)


@dataclass
class Server:
    """One output. `trouble`: what it does now: `refuse`, `mute`, `slow`, `doubt`; None: it works."""

    world: Simulation
    name: str
    refuses: Collection[str]
    latency: float
    trouble: str | None = None
    arrived: list[tuple[float, Message]] = field(default_factory=list)
    has: Counter[str] = field(default_factory=Counter)

    def accept(self, messages: Iterable[Message]) -> None:
        for message in messages:
            self.arrived.append((self.world.now, message))
            self.has[message.message_id or ""] += 1

    def take(self, messages: Sequence[Message]) -> None:
        """Raises what a sender of the port raises."""
        random = self.world.random
        self.world.sleep(self.latency)
        trouble = self.trouble
        if trouble == "refuse":
            raise SendInterrupted("away")
        if trouble == "mute":
            some = random.randrange(len(messages) + 1) if random.random() < 0.3 else 0
            self.world.after(random.uniform(0, 40), partial(self.accept, self._up_to(messages)[:some]))
            self.world.sleep(30)
            raise SendInterrupted("no answer")
        if trouble == "slow":
            self.world.sleep(1.5)
        refused = next((at for at, each in enumerate(messages) if each.message_id in self.refuses), None)
        some = len(messages) if refused is None else refused
        if trouble == "doubt" and random.random() < 0.5:
            some = random.randrange(some + 1)
            self.accept(messages[:some])
            raise SendInterrupted("in doubt", accepted=range(random.randrange(some + 1)))
        self.accept(messages[:some])
        if refused is not None:
            raise MessageRefused(self.name, messages[refused], "is refused", at=refused, accepted=range(refused))

    def _up_to(self, messages: Sequence[Message]) -> Sequence[Message]:
        return messages[: next((at for at, each in enumerate(messages) if each.message_id in self.refuses), None)]


class VirtualSender:
    """A `TopicSender`: one send at a time, and a back-off after a failure."""

    chunk_bytes = 2_000

    def __init__(self, server: Server, topic: str) -> None:
        self.topic = topic
        self._server = server
        self._taken = False
        self._failures = 0
        self._not_before = 0.0

    def pause(self) -> float:
        return max(0.0, self._not_before - self._server.world.now)

    def send(
        self, messages: Sequence[Message], *, left: TimeLeft = for_ever, meanwhile: Callable[[], None] = nothing
    ) -> bool:
        waited = False
        while self._taken:
            waited = True
            self._server.world.sleep(0.5)
            meanwhile()
        if waited and self.pause() > 0:
            return False
        if left() <= 0:
            raise OutOfTime("the lock does not last")
        self._taken = True
        try:
            self._server.take(messages)
        except SendInterrupted:
            self._failures += 1
            self._not_before = self._server.world.now + min(10.0, 0.5 * 2**self._failures)
            raise
        finally:
            self._taken = False
        self._failures = 0
        return True


class VirtualStreams:
    def __init__(self, server: Server, topics: Collection[str]) -> None:
        self.topics = topics
        self._senders = {topic: VirtualSender(server, topic) for topic in topics}

    def __getitem__(self, topic: str) -> VirtualSender:
        return self._senders[topic]

    def label(self, topic: str) -> str:
        return topic

    def admit(self, topics: Iterable[str]) -> Mapping[str, str]:
        return {}


class VirtualBell:
    def __init__(self, world: Simulation) -> None:
        self._world = world
        self._rung = False
        self._waiter: Any = None

    def ring(self) -> None:
        self._rung = True
        if self._waiter is not None:
            self._world.wake(self._waiter)
            self._waiter = None

    def wait(self, seconds: float) -> None:
        if not self._rung:
            self._waiter = self._world.current
            try:
                self._world.sleep(seconds)
            finally:
                self._waiter = None
        self._rung = False


class VirtualCouriers:
    def __init__(self, world: Simulation, life: int, most: int) -> None:
        self._world, self._life, self._most = world, life, most
        self._busy: Counter[str] = Counter()
        self._queued: dict[str, list[Callable[[], None]]] = {}

    def start(self, output: str, job: Callable[[], None]) -> None:
        self._queued.setdefault(output, []).append(job)
        self._next(output)

    def _next(self, output: str) -> None:
        if self._queued[output] and self._busy[output] < self._most:
            self._busy[output] += 1
            self._world.spawn(partial(self._run, output, self._queued[output].pop(0)), "courier", self._life)

    def _run(self, output: str, job: Callable[[], None]) -> None:
        me = self._world.current
        job()
        if me.dead:
            return
        self._busy[output] -= 1
        self._next(output)

    def bell(self) -> VirtualBell:
        return VirtualBell(self._world)


WRONG = 10.0
"""Seconds for which a gate may say that nobody waits although a session does. The real one does so for two, after a request without an answer."""


class Patient(Gate):
    """Everybody asks. Without `others` it says that nobody waits, also for a while when that is wrong."""

    def __init__(self, world: Simulation, broker: Broker, *, others: bool) -> None:
        super().__init__(lambda: world.now)
        self._others, self._broker = others, broker
        self._empty = self._right = -math.inf

    def enter(
        self, stop: threading.Event, patience: float, *, first: float = 3.0, longest: float = 30.0
    ) -> Question | None:
        return Question(0.0, False, first)

    def leave(self, question: Question, *, found: bool, failed: bool = False) -> None:
        if not found:
            self._empty = self._clock()

    @property
    def opening(self) -> float:
        return 0.02

    def nobody_waits(self, within: float) -> bool:
        now = self._clock()
        if self._others:
            return now - self._empty <= within
        if all(each.holder is not None or not each.waiting for each in self._broker.sessions.values()):
            self._right = now
        return now - self._right <= WRONG


class Stop(threading.Event):
    def __init__(self, world: Simulation) -> None:
        super().__init__()
        self._world = world

    def wait(self, timeout: float | None = None) -> bool:
        until = self._world.now + (timeout or 0.0)
        while not self.is_set() and self._world.now < until:
            self._world.sleep(min(0.25, until - self._world.now))
        return self.is_set()


class Direct:
    """In place of `router.hands.Hands`: the caller does it."""

    def __init__(self, most: int, name: str) -> None: ...

    def do(self, job: Callable[[], object]) -> None:
        job()

    def finish(self, within: float = 0.0) -> int:
        return 0


class Back:
    """A sender to the ingest queue, for poison in packs. `may`: whether it has the right."""

    def __init__(self, broker: Broker, *, may: bool) -> None:
        self._broker, self._may = broker, may

    def batch_bytes(self) -> int:
        return 200_000

    def send(self, messages: Sequence[Message], *, left: TimeLeft | None = None) -> None:
        if not self._may:
            raise PermanentError("no right to send")
        for message in messages:
            self._broker.put(message)

    def close(self) -> None: ...


class Router:
    """One process. `routing`: of its life."""

    def __init__(
        self,
        world: Simulation,
        broker: Broker,
        servers: Mapping[str, Server],
        routing: Any,
        *,
        life: int,
        slots: int,
        room: int,
        memory: float,
        others: bool,
        strict: bool,
        resends: bool = True,
    ) -> None:
        self.resends = resends
        self.world, self.broker, self.life, self.routing = world, broker, life, routing
        self.room, self.memory = room, memory
        self.stop = Stop(world)
        self.parking = Parking(self.stop, room=room, memory=memory)
        self.means = Means(
            {name: VirtualStreams(server, routing.topics) for name, server in servers.items()},
            VirtualCouriers(world, life, slots * 2),
            Rereads(),
            Behind(lambda: world.now),
            routing.fingerprint,
            lambda: world.now,
            Tally(),
            PACE.linger,
            strict,
            led=routing.led,
        )
        self._others = others
        self._made: list[FanOut] = []
        self.actors = [world.spawn(self._slot, "slot", life) for _ in range(slots)]
        self.actors.append(world.spawn(self._park, "parking", life))

    def _slot(self) -> None:
        receivers = UnpackingReceivers(
            VirtualReceivers(self.broker, self.life), lambda: Back(self.broker, may=self.resends)
        )
        slot = Forwarder(
            receivers,
            None,  # type: ignore[arg-type]
            self.stop,
            True,
            PACE,
            Patient(self.world, self.broker, others=self._others),
            self.means.tally,
            clock=lambda: self.world.now,
            parking=self.parking,
            on_poison="stop" if self.means.strict else "dead_letter",
            fan_out=self._fan_out,
        )
        slot.run()

    def _fan_out(self) -> FanOut:
        made = FanOut(self.means, self.routing, Remembered(), self.stop, PACE, self.parking)
        self._made.append(made)
        return made

    def lanes(self) -> Sequence[Lane]:
        """Of the sessions in work and parked."""
        sessions = [made._session for made in self._made] + [each.kept for each in self.parking._waiting]
        return [lane for session in sessions if isinstance(session, Session) for lane in session.lanes]

    def _park(self) -> None:
        while not self.stop.wait(1.0):
            self.parking.look()
        self.parking.close()

    def kill(self) -> None:
        for actor in self.world.actors:
            if actor.life == self.life:
                self.world.kill(actor)
        self.broker.dead(self.life)
