"""SIGKILL of an ingester at an exact point of its work, and what arrived a second time because of it.

A kill happens on the emulator's thread (or the relay's, or the proxy's) that has just met the ingester at that point, and is done before
that thread goes on: so nothing that the ingester does next can come before its death.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from enum import Enum
from typing import Self

from emulators.sqlserver.injection import Fault
from emulators.sqlserver.results import Cancel, Event, LoginRequest, Session, SqlError
from ingester.sqlserver.sql import locks as queries_of_locks
from ingester.sqlserver.sql.changes import P
from tests.azurite.proxy import Answer, Proxy
from tests.worlds.relay import Relay
from tests.worlds.tcp_relay import TcpRelay
from tests.worlds.world import Ingester, World

QUEUE = "ingest-queue"


class Point(Enum):
    """Where an ingester may be when it dies."""

    READ = "after read: a page's rows went out"
    SENDING = "mid-send: half of the octets of a send came through"
    UNANSWERED = "mid-send: a send was carried out, its answer went to nobody"
    SENT = "after send, before commit: the UPDATE of the offset arrived, and does not run"
    COMMITTED = "mid-commit: the UPDATE of the offset ran, its answer goes to nobody"
    TAKING = "acquiring: the application lock is asked for"
    RAISED = "acquiring: the epoch was raised, its answer goes to nobody"
    CLAIMING = "acquiring: the offset is about to be claimed"
    RENEWING = "renewing: the session is asked whether it still holds"
    LEASING = "acquiring: the blob's lease is asked for"
    LEASED = "acquiring: the blob's lease was given, its answer goes to nobody"
    NUMBERED = "acquiring: the blob's epoch is about to be written"
    EXTENDING = "renewing: the blob's lease is about to be renewed"
    EXTENDED = "renewing: the blob's lease was renewed, its answer goes to nobody"


IN_DATABASE = tuple(point for point in Point if point.value.partition(" blob")[1] == "")
"""Points that an ingester with `sqlserver` locks comes to."""
AT_BLOBS = (Point.LEASING, Point.LEASED, Point.NUMBERED, Point.EXTENDING, Point.EXTENDED)
"""What is particular to `azure_blob` locks."""

_CALL = "EXEC sys.sp_executesql N'"
_PAGE, _MOVE, _PROBE = (
    f"{_CALL}SELECT TOP (",
    f"{_CALL}UPDATE dbo.cdc_offsets\nSET last_lsn",
    "SELECT sys.fn_cdc_get_max_lsn()",
)


def _called(text: str) -> str:
    """What a batch begins with that gives its parameters to `text`."""
    return _CALL + text.partition(P)[0].replace("'", "''")


_ARRIVING = {
    Point.TAKING: _called(queries_of_locks.TAKE),
    Point.CLAIMING: _called("DECLARE @claims TABLE"),
    Point.RENEWING: _called(queries_of_locks.MODE),
}
"""What a batch begins with that arrives at each point."""
ACQUIRING = frozenset(point for point in Point if point.value.startswith("acquiring"))
"""Points that nobody comes to while every table has an owner."""
_ORPHANS = 60.0
"""Seconds after which no worker of a driver that was killed is left."""
_PATIENCE = 15.0
"""Seconds after which a further ingester is started, if nobody acquires anything."""
_DONE = {
    Point.READ: _PAGE,
    Point.RAISED: _called(queries_of_locks.RAISE_EPOCH),
}
"""What a batch begins with that has run at each point."""
_REQUESTS = {
    Point.LEASING: ("'x-ms-lease-action': 'acquire'", None),
    Point.LEASED: ("'x-ms-lease-action': 'acquire'", Answer(None, after=True)),
    Point.NUMBERED: ("comp=metadata", Answer(None)),
    Point.EXTENDING: ("'x-ms-lease-action': 'renew'", Answer(None)),
    Point.EXTENDED: ("'x-ms-lease-action': 'renew'", Answer(None, after=True)),
}
"""What a request to the blob service holds at each point, and what becomes of it."""


@dataclass(frozen=True)
class Kill:
    """`whole`: with its JVM and Spark's workers; else they are left to find out, and may go on for a moment."""

    point: Point | None
    whole: bool
    victim: Ingester
    at: float


@dataclass
class Redelivery:
    """What came to the ingest queue again. `sender`: of each message, who sent it last, by name."""

    sender: dict[str, str] = field(default_factory=dict)
    again: dict[tuple[str, str], set[str]] = field(default_factory=dict)
    """The messages by table and who is to blame: who was killed first of the two that sent it; where both were alive, the first to
    send, who must have lost the lock: on a machine that stalls for seconds this may happen."""

    def arrived(self, name: str, ids: Sequence[str], dead: Mapping[str, float]) -> None:
        """`name` has sent these. `dead`: when each that was killed was."""
        for each in ids:
            before, self.sender[each] = self.sender.get(each), name
            if before is None:
                continue
            guilty = min({before, name} & dead.keys(), key=lambda who: dead[who], default=before)
            self.again.setdefault((guilty, each.rpartition(":")[0]), set()).add(each)


class Killer:
    """Starts ingesters that it can kill at a Point; `kills` are those it did, `redelivery` what came of them."""

    def __init__(self, world: World, *, azurite_port: int | None = None) -> None:
        self._world, self._azurite_port = world, azurite_port
        self._names: dict[str, Ingester] = {}
        self._guard = threading.Lock()
        self._armed: tuple[Point, bool] | None = None
        self._fired = threading.Event()
        self._dead: dict[str, float] = {}
        self.kills: list[Kill] = []
        self.ways: dict[str, dict[str, TcpRelay]] = {}
        """By ingester, the relays through which it goes, by what is behind them."""
        self.redelivery = Redelivery()
        self._open = ExitStack()
        self._opened: dict[str, ExitStack] = {}

    def __enter__(self) -> Self:
        self._open.enter_context(self._world.sqlserver.inject(_Watch(self)))
        return self

    def __exit__(self, *details: object) -> None:
        self._open.close()
        for opened in self._opened.values():
            opened.close()

    def start_ingester(self) -> Ingester:
        """One more, that comes by its points."""
        self._forget_the_dead()
        opened = ExitStack()
        name = f"ingester-{len(self._world.ingesters)}"
        relay = Relay(
            self._world.servicebus.port,
            QUEUE,
            sending=lambda ids, octets: self._sending(name, octets),
            arrived=lambda ids: self._arrived(name, ids),
        )
        sql = TcpRelay(self._world.sqlserver.port)
        ways: dict[str, TcpRelay] = {"Service Bus": relay, "SQL Server": sql}
        variables = {}
        if self._azurite_port is not None:
            proxy = self._open.enter_context(Proxy(self._azurite_port, meet=lambda told: self._asking(name, told)))
            ways["blobs"] = TcpRelay(proxy.port)
            variables["DSTREAM_TEST_BLOB_PORT"] = str(ways["blobs"].port)
        for way in ways.values():
            opened.enter_context(way)
        with self._guard:
            ingester = self._world.start_ingester(bus_port=relay.port, sql_port=sql.port, variables=variables)
            self._names[name] = ingester
            self.ways[name], self._opened[name] = ways, opened
        return ingester

    def _forget_the_dead(self) -> None:
        """Ways that nobody takes any more are closed; workers may outlive their driver for a while."""
        for name in [name for name, at in self._dead.items() if time.monotonic() - at > _ORPHANS]:
            if name in self._opened:
                self._opened.pop(name).close()

    @property
    def living(self) -> list[Ingester]:
        """Those that were not killed, nor given up for dead."""
        return [ingester for ingester in self._names.values() if ingester.name not in self._dead]

    def bury(self) -> list[Ingester]:
        """Those that have ended by themselves, which live no more from now on."""
        ended = [ingester for ingester in self.living if ingester.died() is not None]
        with self._guard:
            for ingester in ended:
                self._dead[ingester.name] = time.monotonic()
        return ended

    def kill_at(
        self, point: Point, *, whole: bool, timeout: float = 120, meanwhile: Callable[[], object] = lambda: None
    ) -> Kill:
        """The ingester that comes to `point` next. Raises AssertionError when none does. `meanwhile` is called now and then."""
        self._fired.clear()
        self._armed = (point, whole)
        if point in ACQUIRING and not self._fired.wait(_PATIENCE):
            self.start_ingester()
        deadline = time.monotonic() + timeout
        while not self._fired.wait(1) and time.monotonic() < deadline:
            meanwhile()
        if not self._fired.is_set():
            self._armed = None
            raise AssertionError(f"nobody came to: {point.value}")
        return self.kills[-1]

    def kill_now(self, ingester: Ingester, *, whole: bool) -> Kill:
        """At whatever point it is."""
        with self._guard:
            return self._kill(ingester, None, whole)

    def reached(self, point: Point, name: str) -> bool:
        """Whether the ingester `name`, that has come to `point`, has been killed for it."""
        if self._armed is None or self._armed[0] is not point:
            return False
        with self._guard:
            ingester = self._names.get(name)
            if self._armed is None or self._armed[0] is not point or ingester is None or name in self._dead:
                return False
            whole, self._armed = self._armed[1], None
            self._kill(ingester, point, whole)
        self._fired.set()
        return True

    def _kill(self, ingester: Ingester, point: Point | None, whole: bool) -> Kill:
        at = self._dead[ingester.name] = time.monotonic()
        (ingester.kill_tree if whole else ingester.kill)()
        self.kills.append(kill := Kill(point, whole, ingester, at))
        return kill

    def _sending(self, name: str, octets: int) -> int | None:
        if self.reached(Point.SENDING, name):
            return octets // 2
        return octets if self.reached(Point.UNANSWERED, name) else None

    def _arrived(self, name: str, ids: list[str]) -> None:
        with self._guard:
            self.redelivery.arrived(name, ids, self._dead)

    def _asking(self, name: str, told: str) -> Answer | None:
        for point, (sign, answer) in _REQUESTS.items():
            if sign in told and self.reached(point, name):
                return answer or Answer(None)
        return None


class _Connection(threading.local):
    """What is known of the connection that a thread serves: who logged in, what it asks for, whether its answers are lost.

    `drives`: it is the driver's, whose commits are of tables in which nothing has changed. `commits`: the UPDATE of an offset after a page.
    """

    name = ""
    text = ""
    drives = False
    commits = False
    cut = False


class _Watch(Fault):
    """Sees which point a connection of an ingester has come to; each connection has a thread."""

    def __init__(self, killer: Killer) -> None:
        self._killer = killer
        self._own = _Connection()

    def login(self, request: LoginRequest) -> None:
        self._own.name = request.application

    def statement(self, text: str, session: Session, cancelled: Cancel) -> Iterator[Event]:
        own = self._own
        own.drives = own.drives or text.startswith(_PROBE)
        own.commits, own.text = text.startswith(_MOVE) and not own.drives, text
        met = [point for point, sign in _ARRIVING.items() if text.startswith(sign)]
        if any(self._killer.reached(point, own.name) for point in ([Point.SENT] if own.commits else met)):
            raise SqlError(50001, "Whoever asked for this is dead.")
        return
        yield

    def finished(self) -> None:
        own = self._own
        met = [point for point, sign in _DONE.items() if own.text.startswith(sign)]
        for point in [Point.COMMITTED] if own.commits else met:
            if self._killer.reached(point, own.name):
                own.cut = point is not Point.READ

    def sending(self, count: int) -> int:
        return 0 if self._own.cut else count
