"""Several outputs at a start: which fault ends it, which holds up one output alone, and what happens when that is back."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pytest
from structlog.contextvars import get_contextvars
from structlog.testing import capture_logs

from common.bus.ports import OpenableSender, Provision, SendInterrupted
from common.check import Finding
from common.errors import (
    ConfigurationError,
    DStreamError,
    EntityMissing,
    EntityUnavailable,
    PermanentError,
    Stopped,
    TransientError,
)
from common.message import Message
from common.names import Origin, TableName
from common.retry import Backoff
from router.metrics import UP, samples
from router.outputs.azure_service_bus.settings import ServiceBusOutput
from router.outputs.port import Stream
from router.publishing.outputs import Outputs, most_links_of
from router.routing.settings import RouteBlock
from router.settings import RouterSettings
from router.spots import spot
from router.tally import AWAY_SECONDS, Tally
from tests.fakes.bus import FakeBroker
from tests.unit.router.test_restarts import SETTINGS

ORIGIN = Origin("srv", "db")
PERSONS = ORIGIN.topic(TableName("dbo", "Persons"))
AWAY = TransientError("no route to host", hint="open the port")


@dataclass
class Shelf:
    """An output in memory. `faults`: what the next attempts to provide raise, in turn; `held`: none ends before this is set."""

    broker: FakeBroker = field(default_factory=FakeBroker)
    faults: deque[DStreamError] = field(default_factory=deque)
    held: threading.Event | None = None
    tries: int = 0
    closed: bool = False
    bound: Mapping[str, object] = field(default_factory=dict)

    def sender(self, stream: Stream) -> OpenableSender:
        return self.broker.sender(stream.destination)

    def provision(
        self, streams: Sequence[Stream], *, how: Provision, stop: threading.Event | None = None
    ) -> Collection[str]:
        self.tries += 1
        self.bound = get_contextvars()
        if self.held is not None:
            self.held.wait(60)
        if self.faults:
            raise self.faults.popleft()
        for stream in streams:
            if stream.destination not in self.broker.entities_by_name:
                self.broker.create(stream.destination)
        return ()

    def findings(self, streams: Sequence[Stream], *, provision: Provision) -> Iterator[Finding]:
        yield from ()

    def cut_calls(self) -> None:
        """No call takes time here."""

    def close(self) -> None:
        self.closed = True


def settings() -> RouterSettings:
    stream = ServiceBusOutput(namespace="far.servicebus.windows.net", name="stream", topic="{schema}.{table}")
    route = RouteBlock.model_validate({"from": ("*.*",), "to": ("default", "stream")})
    return SETTINGS.model_copy(
        update={
            "outputs": (stream,),
            "route": (route,),
            "topics": {PERSONS: TableName("dbo", "Persons")},
            "origin": ORIGIN,
        }
    )


@dataclass
class World:
    """`within`: seconds that a start waits for an output once another works."""

    within: float = 60.0
    shelves: dict[str, Shelf] = field(default_factory=lambda: {"default": Shelf(), "stream": Shelf()})
    stop: threading.Event = field(default_factory=threading.Event)
    tally: Tally = field(default_factory=Tally)

    def __post_init__(self) -> None:
        self.outputs = Outputs(
            settings(),
            None,
            self.tally,
            self.stop,
            make=lambda output: self.shelves[output.name],
            within=self.within,
            again=Backoff(first=0.01, longest=0.01),
        )


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    made.stop.set()


def eventually(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_each_output_has_senders_to_its_own_places(world: World) -> None:
    world.outputs.open(world.stop)
    for publishers in world.outputs.publishers.values():
        publishers[PERSONS].send([Message(b"{}", "1")])
    assert world.shelves["default"].broker.entity(PERSONS).bodies == [b"{}"]
    assert world.shelves["stream"].broker.entity("dbo.persons").bodies == [b"{}"]
    assert world.outputs.spots() == {PERSONS, spot(PERSONS, "stream")}
    world.outputs.close()
    assert [shelf.closed for shelf in world.shelves.values()] == [True, True]


def test_a_fault_of_the_configuration_ends_the_start_and_names_the_output(world: World) -> None:
    world.shelves["stream"].faults.append(ConfigurationError(["bad address"]))
    with pytest.raises(ConfigurationError, match="output stream: bad address"):
        world.outputs.open(world.stop)


@pytest.mark.parametrize("kind", [TransientError, PermanentError, EntityUnavailable])
def test_the_start_ends_when_no_output_works_and_says_why_of_each(world: World, kind: type[DStreamError]) -> None:
    world.shelves["default"].faults.append(TransientError("no route to host"))
    world.shelves["stream"].faults.append(kind("it may not be used", hint="grant it"))
    with pytest.raises(kind if kind is TransientError else PermanentError) as raised:
        world.outputs.open(world.stop)
    assert "output default: no route to host" in str(raised.value)
    assert "output stream: it may not be used (grant it)" in str(raised.value)


@pytest.mark.parametrize("kind", [PermanentError, EntityUnavailable, EntityMissing])
def test_a_missing_right_place_or_login_holds_up_its_own_output_alone(world: World, kind: type[DStreamError]) -> None:
    world.shelves["stream"].faults.extend([kind("the password is wrong", hint="correct it")] * 3)
    with capture_logs() as logs:
        world.outputs.open(world.stop)
        world.outputs.publishers["default"][PERSONS].send([Message(b"{}", "1")])
        eventually(lambda: any(line["event"] == "output available again" for line in logs))
    told = [line for line in logs if line["event"].startswith("output")]
    assert [(line["log_level"], line["event"]) for line in told] == [
        ("error", "output unavailable"),
        ("info", "output available again"),
    ]
    assert (told[0]["output"], told[0]["error"], told[0]["hint"]) == ("stream", "the password is wrong", "correct it")


def test_one_that_is_away_holds_up_itself_alone_until_it_is_back(world: World) -> None:
    world.shelves["stream"].faults.extend([AWAY] * 3)
    with capture_logs() as logs:
        world.outputs.open(world.stop)
        world.outputs.publishers["default"][PERSONS].send([Message(b"{}", "1")])
        eventually(lambda: any(line["event"] == "output available again" for line in logs))
    told = [(line["log_level"], line["event"], line["output"]) for line in logs if line["event"].startswith("output")]
    assert told == [("warning", "output unavailable", "stream"), ("info", "output available again", "stream")]
    assert world.shelves["stream"].tries == 4
    world.outputs.publishers["stream"][PERSONS].send([Message(b"{}", "1")])
    assert world.shelves["stream"].broker.entity("dbo.persons").bodies == [b"{}"]


def test_one_without_an_answer_holds_up_the_start_for_a_time_only() -> None:
    world = World(within=0.2)
    held = world.shelves["stream"].held = threading.Event()
    with capture_logs() as logs:
        world.outputs.open(world.stop)
        assert [line["event"] for line in logs if line["event"].startswith("output")] == ["output unavailable"]
        held.set()
        eventually(lambda: any(line["event"] == "output available again" for line in logs))
    world.stop.set()


def test_a_stop_ends_a_start_that_waits(world: World) -> None:
    for shelf in world.shelves.values():
        shelf.held = threading.Event()
    threading.Timer(0.1, world.stop.set).start()
    with pytest.raises(Stopped):
        world.outputs.open(world.stop)
    for shelf in world.shelves.values():
        assert shelf.held is not None
        shelf.held.set()


def test_links_are_counted_over_all_outputs() -> None:
    assert most_links_of(settings(), slots=0) == 2


def test_lines_of_what_a_start_provides_name_the_output(world: World) -> None:
    world.outputs.open(world.stop)
    assert {name: shelf.bound for name, shelf in world.shelves.items()} == {
        "default": {"output": "default"},
        "stream": {"output": "stream"},
    }


def test_with_several_outputs_the_default_one_is_named_too(world: World) -> None:
    world.outputs.open(world.stop)
    shelf = world.shelves["default"]
    shelf.broker.entities_by_name.pop(PERSONS)
    with capture_logs() as logs, pytest.raises(SendInterrupted):
        world.outputs.publishers["default"][PERSONS].send([Message(b"{}", "1")])
    assert [(line["event"], line["output"]) for line in logs] == [("topic unavailable", "default")]


def test_an_output_that_is_away_invents_no_topic_and_is_reported_once() -> None:
    now = [0.0]
    tally = Tally(clock=lambda: now[0], topics=frozenset({PERSONS, spot(PERSONS, "stream")}))
    tally.turned()
    for each in (spot("", "stream"), spot(PERSONS, "stream")):
        tally.topic_failed(each, "no login")
    now[0] = 2 * AWAY_SECONDS
    figures = tally.figures()
    assert figures.ready() == "output stream is unavailable: no login"
    ups = {sample.labels: sample.value for sample in samples(figures) if sample.metric is UP}
    assert ups == {("default", PERSONS): 1, ("stream", PERSONS): 0}
    tally.topic_works(spot("", "stream"))
    tally.topic_failed(PERSONS, "it is full")
    tally.topic_failed(PERSONS, "it is full")
    now[0] += 2 * AWAY_SECONDS
    assert f"topic {PERSONS} of output default is unavailable: it is full" in str(tally.figures().ready())
