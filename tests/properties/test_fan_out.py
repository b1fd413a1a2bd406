"""Whatever outputs do, every output gets every message that is routed to it, in order, and no output waits for another.

Each seed is a case: sessions, packs, routes and refusals, outputs that are away, mute, slow or in doubt, locks that are lost, processes that are
killed, stopped and started with other routes. Slots, lanes, couriers and parking are the product's; the clock is virtual.

`FAN_OUT_SEEDS=FIRST-LAST` runs others than the usual seeds.
"""

from __future__ import annotations

import os
import random
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from random import Random
from statistics import median

import pytest
import structlog

from common.bus.packing import condemnation, is_pack, packed, unpack
from common.message import Message
from router.receiving import parking
from router.receiving.fan_out import lanes, progress, session
from router.receiving.fan_out.progress import Kind
from tests.worlds.virtual.fanning import PACE, Direct, Router, Server
from tests.worlds.virtual.sessions import Broker, Session, Waiting
from tests.worlds.virtual.simulation import Simulation

SEEDS, MANY_SEEDS, OF_A_TEST = 40, 5_000, 40

ROOM = 40
SKIPPED = 300
CATCHING_UP = 10.0

HELD_UP = 40.0
"""Seconds within which an output that works has each message while no process dies: a reading from the beginning, with a slot's turn around it. An
outage lasts longer."""

PACKED = 5
"""Changes in a pack."""

OUTAGE = (45.0, 90.0)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Bounds that a short case reaches; and no lines, of which a case has hundreds."""
    monkeypatch.setattr(lanes, "ROOM_MESSAGES", ROOM)
    monkeypatch.setattr(session, "MOST_SKIPPED", SKIPPED)
    monkeypatch.setattr(session, "CATCHING_UP", CATCHING_UP)
    monkeypatch.setattr(parking, "Hands", Direct)
    before = structlog.get_config()
    structlog.configure(
        logger_factory=structlog.ReturnLoggerFactory(), wrapper_class=structlog.make_filtering_bound_logger(50)
    )
    yield
    structlog.configure(**before)


@dataclass(frozen=True)
class To:
    output: str
    key: str


@dataclass(frozen=True)
class Routes:
    """By topic: the outputs. `odd`: outputs that get only odd messages, as a filter does it."""

    fingerprint: str
    of: dict[str, tuple[str, ...]]
    odd: frozenset[str]

    @property
    def topics(self) -> frozenset[str]:
        return frozenset(self.of)

    def led(self, output: str, kinds: Collection[Kind]) -> str:
        ways = (f"{topic}{output in self.of.get(topic, ())}" for topic in sorted({topic for topic, _, _ in kinds}))
        return f"{output in self.odd} {' '.join(ways)}"

    def targets(self, message: Message, topic: str) -> Sequence[To]:
        return [To(output, topic) for output in self.of[topic] if output not in self.odd or int(message.body) % 2]


class Case:
    def __init__(self, seed: int) -> None:
        random.seed(seed)  # back-offs draw from it
        self.world = Simulation(seed)
        self.random = Random(seed + 1)
        draw = self.random
        self.names = ["a", "b", "c", "d"][: draw.choice((2, 3, 4))]
        self.topics = ["t", "u"][: draw.choice((1, 1, 2))]
        self.sessions = [f"s{number}" for number in range(draw.choice((1, 1, 2, 4)))]
        self.count = draw.choice((60, 200, 500))
        self.seconds = draw.choice((20.0, 60.0, 120.0))
        self.packs = draw.random() < 0.3
        self.wanted: dict[tuple[str, str], float] = {}
        """Which output a message must reach, by the routes of the life that settled it; since when it is in the queue."""
        self.sent: dict[str, Message] = {}
        self.put_at: dict[str, float] = {}
        self.dead: dict[str, str] = {}
        self.received = 0
        """The most often that a message was received."""
        self.lives: dict[int, Router] = {}
        self.upsets: list[float] = []
        """When a process died or stopped, or a lock was lost."""
        self.bad: dict[str, list[tuple[float, float]]] = defaultdict(list)
        self.broker = Broker(self.world, self._settled, self._kept)
        refused = {
            name: {f"m{draw.randrange(self.count)}" for _ in range(draw.choice((0, 0, 0, 2)))} for name in self.names
        }
        latency = draw.choice((0.005, 0.02))
        self.servers = {name: Server(self.world, name, refused[name], latency) for name in self.names}
        self.routes = self._routes("r0")
        self.resends = Random(seed + 2).random() < 0.6
        """Whether the routers may send poison in packs to the queue alone."""
        self._started = 0

    def _routes(self, fingerprint: str) -> Routes:
        draw, every = self.random, tuple(self.names)
        of = {topic: tuple(draw.sample(every, draw.choice((1, len(every), len(every))))) for topic in self.topics}
        return Routes(fingerprint, of, frozenset(draw.sample(every, draw.choice((0, 0, 1)))))

    def _settled(self, held: Waiting, life: int, reason: str | None) -> None:
        message = held.message
        if condemnation(message) is not None:  # it was looked at when its pack was settled
            return
        self.received = max(self.received, held.received)
        for each in unpack(message) if is_pack(message) else (message,):
            name = each.message_id or ""
            if reason is not None:
                self.dead[name] = reason
            topic = str(each.application_properties["destination"])
            for target in self.lives[life].routing.targets(each, topic):
                server = self.servers[target.output]
                self.wanted[name, target.output] = self.put_at[name]
                if name not in server.refuses:
                    assert server.has[name], f"{name} is settled, and {target.output} does not have it"
                else:
                    assert reason is not None or (is_pack(message) and self.resends), (
                        f"{name} is completed, and {target.output} refused it"
                    )

    def _kept(self, held: Session, state: bytes, life: int) -> None:
        """A watermark is never too high."""
        routing = self.lives[life].routing
        for output, mark in progress.read(state, routing.fingerprint, self.names, routing.led)[0].items():
            server = self.servers[output]
            for each in held.waiting:
                if each.number > mark[0] or condemnation(each.message) is not None:
                    continue
                parts = unpack(each.message) if is_pack(each.message) else (each.message,)
                for place, part in enumerate(parts):
                    targets = routing.targets(part, str(part.application_properties["destination"]))
                    name = part.message_id or ""
                    if (each.number, place) <= mark and any(target.output == output for target in targets):
                        assert server.has[name] or name in server.refuses, f"{name} is below the watermark of {output}"

    # What happens

    def start(self) -> None:
        draw = self.random
        self._started += 1
        life = self._started
        self.lives[life] = Router(
            self.world,
            self.broker,
            self.servers,
            self.routes,
            life=life,
            slots=draw.choice((1, 2, 3)),
            room=draw.choice((1, 8, 8)),
            memory=draw.choice((2_000.0, 50_000.0, 50_000.0)),
            others=draw.random() < 0.5,
            strict=False,
            resends=self.resends,
        )

    def trouble(self, name: str, kind: str, begin: float, seconds: float) -> None:
        server = self.servers[name]

        def over() -> None:
            server.trouble = None

        self.world.at(begin, lambda: setattr(server, "trouble", kind))
        self.world.at(begin + seconds, over)
        self.bad[name].append((begin, begin + seconds + 30.0))

    def end_one(self, *, kill: bool) -> None:
        alive = [life for life, router in self.lives.items() if not router.stop.is_set()]
        if not alive:
            return
        router = self.lives[self.random.choice(alive)]
        self.upsets.append(self.world.now)
        router.stop.set()
        if kill:
            router.kill()
        if self.random.random() < 0.3:
            self.routes = self._routes(f"r{self.world.now}")
        self.world.after(self.random.uniform(0, 2), self.start)

    def lose(self) -> None:
        held = [each for each in self.broker.sessions.values() if each.holder is not None]
        if held:
            self.upsets.append(self.world.now)
            self.broker.lose_lock(self.random.choice(held))

    def put(self, first: int, count: int, name: str) -> None:
        made = []
        for number in range(first, first + count):
            told = {"destination": self.random.choice(self.topics)}
            message = Message(str(number).encode(), f"m{number}", name, application_properties=told)
            made.append(message)
            self.sent[f"m{number}"] = message
            self.put_at[f"m{number}"] = self.world.now
        if not self.packs:
            for message in made:
                self.broker.put(message)
            return
        for parcel in packed(made, most=PACKED, limit=200_000):
            self.broker.put(parcel.message)

    def run(self) -> None:
        draw, number = self.random, 0
        while number < self.count:
            some = min(draw.choice((1, 5, 30)), self.count - number)
            at, name = draw.uniform(0, self.seconds), draw.choice(self.sessions)
            self.world.at(at, lambda first=number, some=some, name=name: self.put(first, some, name))  # type: ignore[misc]
            number += some
        for name in draw.sample(self.names, draw.choice((0, 1, 1, 1, len(self.names) - 1))):
            kind = draw.choice(("refuse", "refuse", "mute", "slow", "doubt"))
            self.trouble(name, kind, draw.uniform(0, self.seconds / 2), draw.uniform(*OUTAGE))
        if draw.random() < 0.2:  # it comes and goes
            name = draw.choice(self.names)
            for turn in range(12):
                self.trouble(name, "refuse", 5.0 + turn * 7, draw.uniform(1, 6))
        for _ in range(draw.choice((0, 0, 1, 4))):
            kill = draw.random() < 0.7
            self.world.at(draw.uniform(0, self.seconds + 60), lambda kill=kill: self.end_one(kill=kill))  # type: ignore[misc]
        for _ in range(draw.choice((0, 0, 1, 5))):
            self.world.at(draw.uniform(0, self.seconds + 60), self.lose)
        for _ in range(draw.choice((1, 1, 2))):
            self.start()
        while (self.world.now < self.seconds or self.broker.waiting) and not self.world.failures:
            self.world.sleep(1.0)
            self._check_memory()
            assert self.world.now < 2_000, "it does not end"
        for router in self.lives.values():
            router.stop.set()
        self.world.sleep(5.0)
        self.world.close()

    # What holds

    def _check_memory(self) -> None:
        """In work: what a lane has room for, and one batch of packs. Parked: what the memory allows, and no more."""
        for router in self.lives.values():
            assert sum(router.parking._bytes.values()) <= router.memory
            for lane in router.lanes():
                assert len(lane.undone) < ROOM + PACE.batch * PACKED

    def check(self) -> None:
        if self.world.failures:
            raise self.world.failures[0]
        reached = {name for name, _ in self.wanted}
        assert all(name in reached or not self._goes(name) for name in self.sent)
        for server in self.servers.values():
            self._check_order(server)
        self._check_delays()
        self._check_rereads()

    def _goes(self, name: str) -> bool:
        """Whether every routing there was takes it somewhere."""
        message = self.sent[name]
        topic = str(message.application_properties["destination"])
        return all(router.routing.targets(message, topic) for router in self.lives.values())

    def _check_order(self, server: Server) -> None:
        first: dict[str, None] = {}
        for _, message in server.arrived:
            name = message.message_id or ""
            assert message == self.sent[name], f"{name} has changed"
            first.setdefault(name)
        last: dict[tuple[str | None, object], int] = {}
        places = {name: at for at, name in enumerate(self.put_at)}
        for name in first:
            message = self.sent[name]
            lane = message.session_id, message.application_properties["destination"]
            order = places[name]
            if self._same_routes():
                assert order > last.get(lane, -1), f"{name} came out of order at {server.name}"
            last[lane] = order

    def _same_routes(self) -> bool:
        """Other routes begin with what they find, for outputs that did not have it either."""
        return len({each.routing.fingerprint for each in self.lives.values()}) == 1

    def _roomy(self) -> bool:
        """A session that cannot be parked, for want of room or memory, keeps a slot for a turn, and is closed then."""
        return all(router.room > 1 and router.memory > 10_000 for router in self.lives.values())

    def _check_delays(self) -> None:
        if not self._roomy() or not self._same_routes():
            return
        for (name, output), since in self.wanted.items():
            server = self.servers[output]
            if name in server.refuses or any(begin - 5 < since < end for begin, end in self.bad[output]):
                continue
            if any(since - 60 < upset < since + HELD_UP for upset in self.upsets):
                continue
            came = next(at for at, message in server.arrived if message.message_id == name)
            if any(since < begin < came for begin, _ in self.bad[output]):
                continue
            assert came - since < HELD_UP, f"{name} came to {output} after {came - since:.0f} s"

    def _check_rereads(self) -> None:
        most = 6 + 2 * len(self.upsets) if self._roomy() else 10 + 3 * len(self.upsets) + self.world.now
        assert self.received <= most, f"a message was received {self.received} times"


class Even(Case):
    """One session to four outputs, 25 messages a second for 40 s; one of them is away for 20 s."""

    def __init__(self, kind: str | None) -> None:
        super().__init__(1)
        self.names, self.topics, self.sessions, self.packs = ["a", "b", "c", "d"], ["t"], ["s"], False
        self.servers = {name: Server(self.world, name, (), 0.01) for name in self.names}
        self.routes = Routes("r0", {"t": ("a", "b", "c", "d")}, frozenset())
        self.kind = kind

    def run(self) -> None:
        for number in range(1_000):
            self.world.at(1 + number / 25, lambda number=number: self.put(number, 1, "s"))  # type: ignore[misc]
        if self.kind is not None:
            self.trouble("d", self.kind, 5.0, 20.0)
        router = Router(
            self.world,
            self.broker,
            self.servers,
            self.routes,
            life=1,
            slots=4,
            room=8,
            memory=1e6,
            others=False,
            strict=False,
        )
        self.lives[1] = router
        while self.world.now < 42 or self.broker.waiting:
            self.world.sleep(1.0)
            self._check_memory()
        router.stop.set()
        self.world.sleep(5.0)
        self.world.close()

    def delays(self, since: float = 0.0) -> list[float]:
        """Of the other outputs, for what was put since then and before the one is back."""
        found = [(at, self.put_at[each.message_id or ""]) for name in "abc" for at, each in self.servers[name].arrived]
        return [at - put for at, put in found if put >= since and (not since or put < 24)]


@pytest.mark.parametrize("kind", ["refuse", "mute"])
def test_an_output_that_is_away_does_not_delay_the_others(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "MOST_SKIPPED", 100_000)
    usual, case = Even(None), Even(kind)
    usual.run()
    case.run()
    case.check()
    assert median(case.delays()) <= 1.1 * median(usual.delays())
    assert max(case.delays(since=8.0)) < 0.2
    assert list(case.servers["d"].has) == list(case.sent)
    assert set(case.servers["a"].has.values()) == {1}
    assert case.received <= 3


class Many(Case):
    """More sessions than there is room for, each with a message every 10 s for 100 s; one of two outputs is away all the time."""

    def __init__(self) -> None:
        super().__init__(1)
        self.names, self.topics, self.packs = ["a", "b"], ["t"], False
        self.sessions = [f"s{number}" for number in range(24)]
        self.servers = {name: Server(self.world, name, (), 0.01) for name in self.names}
        self.routes = Routes("r0", {"t": ("a", "b")}, frozenset())

    def run(self) -> None:
        for number in range(240):
            name = self.sessions[number % 24]
            self.world.at(1 + number / 2.4, lambda number=number, name=name: self.put(number, 1, name))  # type: ignore[misc]
        self.trouble("b", "refuse", 0.5, 150.0)
        router = Router(
            self.world,
            self.broker,
            self.servers,
            self.routes,
            life=1,
            slots=2,
            room=8,
            memory=1e6,
            others=True,
            strict=False,
        )
        self.lives[1] = router
        while self.world.now < 200 or self.broker.waiting:
            self.world.sleep(1.0)
            assert self.world.now < 1_000
        router.stop.set()
        self.world.sleep(5.0)
        self.world.close()


def test_sessions_without_room_get_their_messages_to_the_outputs_that_work() -> None:
    case = Many()
    case.run()
    assert not case.world.failures
    case._check_order(case.servers["a"])
    delays = [at - case.put_at[message.message_id or ""] for at, message in case.servers["a"].arrived]
    assert len(case.servers["a"].has) == len(case.servers["b"].has) == 240
    assert max(delays) < 60  # the broker draws which session is next
    assert case.received < 100


def test_an_output_that_comes_and_goes_all_day_costs_few_readings() -> None:
    """The broker may count each of them as a delivery, and 10 are the usual limit."""
    rereads, readings = progress.Rereads(), list[float]()
    for now in range(6 * 3600):
        if rereads.due("s", now):
            rereads.begin("s", now)
            readings.append(now)
    assert [round(then - now) for now, then in pairwise(readings)][:7] == [10, 20, 40, 80, 160, 320, 600]
    assert len(readings) < 45


def _seeds(usual: int) -> list[range]:
    first, _, last = os.environ.get("FAN_OUT_SEEDS", "").partition("-")
    seeds = range(int(first), int(last or first) + 1) if first else range(usual)
    return [seeds[at : at + OF_A_TEST] for at in range(0, len(seeds), OF_A_TEST)]


def _hold(seeds: range) -> None:
    for seed in seeds:
        case = Case(seed)
        try:
            case.run()
            case.check()
        except BaseException as error:
            raise AssertionError(f"seed {seed}: {error!r}") from error


@pytest.mark.parametrize("seeds", _seeds(SEEDS), ids=str)
def test_every_output_gets_everything_in_order_and_waits_for_no_other(seeds: range) -> None:
    _hold(seeds)


@pytest.mark.soak
@pytest.mark.parametrize("seeds", _seeds(MANY_SEEDS), ids=str)
def test_every_output_gets_everything_in_many_cases(seeds: range) -> None:
    _hold(seeds)
