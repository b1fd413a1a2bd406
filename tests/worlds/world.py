"""A world to break: both emulators in this process, a router and any number of ingesters as processes, a workload, a subscriber.

The emulators are at hand for whoever wants to act at an exact point: `world.sqlserver.inject(fault)` and
`world.servicebus.inject(fault)` take the faults of the catalogues and any Fault of a test's own. A connection to SQL Server calls
itself by its ingester's name (LoginRequest.application), and an ingester may be led to Service Bus by another port.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Self

from common.names import Origin, TableName, server_label
from dstream.demo.ledger import Ledger
from dstream.demo.processes import Service, environment, write_config
from dstream.demo.schema import TABLES, create
from dstream.demo.subscriber import Subscriber
from dstream.demo.verdict import Verdict, judge
from dstream.demo.workload import Pace, Workload
from dstream.emulators import Login
from emulators.servicebus.server import ServiceBusEmulator
from emulators.sqlserver.build import build_engine
from emulators.sqlserver.server import SqlServerEmulator
from tests.worlds import dump
from tests.worlds.dump import tree
from tests.worlds.ports import free_port
from tests.worlds.stillness import ROUTER, HealthWatch, Heard, Reign, Stillness, logged, stillnesses
from tests.worlds.tcp_relay import TcpRelay
from tests.worlds.tenures import tenures

DATABASE = "demo"
CAPTURE_INTERVAL = 0.3
"""Seconds between scans of the capture job."""
USER, PASSWORD = "sa", "test-Password-1"
_HEALTH, _HEALTH_HOST = "# health", "127.0.0.1"
"""A line of the configuration in whose place each ingester has its `health` block."""


@dataclass(frozen=True)
class Served:
    """Where both servers listen. `http_port`: of the management API."""

    sql_port: int
    bus_port: int
    http_port: int
    bus_connection_string: str


@dataclass(frozen=True)
class Addresses:
    """Where a service of this world finds what it connects."""

    db_connection_string: str
    bus_connection_string: str
    management_endpoint: str

    def through(self, served: Served, *, bus_port: int | None, sql_port: int | None) -> Addresses:
        """By way of what listens at these ports; None: straight to the emulator."""
        bus, sql = self.bus_connection_string, self.db_connection_string
        if bus_port is not None:
            bus = bus.replace(f":{served.bus_port};", f":{bus_port};")
        if sql_port is not None:
            sql = sql.replace(f":{served.sql_port}?", f":{sql_port}?")
        return replace(self, bus_connection_string=bus, db_connection_string=sql)


SPARK_UP = "Spark has started, slices go there from now on"
"""In the log of an ingester on this machine: from then on tasks run on Spark, and not beside the driver."""


class Ingester(Service):
    """One start of `dstream ingester`; started again it is another one.

    `name`: what it calls itself at SQL Server. `health`: where its health page is. `where`: turns its command into the one
    that is started.
    """

    def __init__(
        self,
        name: str,
        config: Path,
        addresses: Addresses,
        folder: Path,
        variables: Mapping[str, str],
        health: str,
        where: Callable[[Sequence[str]], list[str]],
    ) -> None:
        called = replace(addresses, db_connection_string=f"{addresses.db_connection_string}&app name={name}")
        super().__init__("ingester", config, {**environment(called), **variables}, folder / f"{name}.log")
        self._command = where(self._command)
        self.name = name
        self.health = health

    def kill_tree(self) -> None:
        """SIGKILL to it, its JVM and Spark's workers: as a machine that loses power. `kill` leaves those to find out."""
        signal_tree(self.pid, signal.SIGKILL)
        self.kill()


class World:
    """Starts everything but the workload and the ingesters on entering, and stops everything on leaving.

    `locks`: the inside of the configuration's `locks` block. `more`: settings of the ingester besides. `workers`: of the router; one is no process
    of its own, which spares two starts of Python.
    `router_by_relay`: the router's way to Service Bus is `router_relay`. `health`: what the health pages of all services say meanwhile.
    `host`: where both servers listen.
    """

    def __init__(
        self,
        folder: Path,
        *,
        pace: Pace,
        locks: str = 'type = "sqlserver"',
        more: str = "",
        workers: int = 1,
        router_by_relay: bool = False,
        seed: int = 3,
        host: str = "localhost",
    ) -> None:
        self._host, self._origin = host, Origin(server_label(host), DATABASE)
        self._listens = "127.0.0.1" if host == "localhost" else host
        self._folder, self._locks, self._more, self._workers = folder, locks, more, workers
        self._make_servers()
        self._pace, self._seed = pace, seed
        self._router_by_relay, self._router_health = router_by_relay, free_port()
        self.topics = {table: self._origin.topic(table) for table in TABLES}
        self.ledger = Ledger()
        self.ingesters: list[Ingester] = []
        """All that were ever started, in that order; `died()` and `pid` tell of each."""
        self.blob_connection_string: str | None = None
        """Where the leases of `azure_blob` locks can be looked at."""

    def _make_servers(self) -> None:
        self._engine = build_engine(users={USER: PASSWORD}, databases=[DATABASE], capture_interval=CAPTURE_INTERVAL)
        self.sqlserver = SqlServerEmulator(self._engine, host=self._listens, port=free_port())
        self.servicebus = ServiceBusEmulator(host=self._listens, port=free_port(), http_port=free_port())

    def _start_servers(self, opened: ExitStack) -> Served:
        opened.callback(self._engine.close)
        opened.enter_context(self.sqlserver)
        opened.enter_context(self.servicebus)
        bus = self.servicebus
        return Served(self.sqlserver.port, bus.port, bus.http_port, bus.connection_string)

    def __enter__(self) -> Self:
        with ExitStack() as opened:
            self.served = served = self._start_servers(opened)
            self.login = Login(self._host, served.sql_port, USER, PASSWORD, DATABASE)
            create(self.login)
            self._addresses = Addresses(
                f"sqlserver://{USER}:{PASSWORD}@{self._host}:{served.sql_port}?database={DATABASE}&encrypt=disable",
                served.bus_connection_string,
                f"http://{self._listens}:{served.http_port}",
            )
            self._config = write_config(
                self._folder,
                self._addresses,
                "200ms",
                locks=self._locks,
                more=f"{_HEALTH}\n{self._more}",
                routing=f'health {{\nhost = "{_HEALTH_HOST}"\nport = {self._router_health}\n}}\nworkers = {self._workers}',
                tasks=2,
            )
            through = self._addresses
            if self._router_by_relay:
                self.router_relay = opened.enter_context(TcpRelay(served.bus_port))
                through = through.through(served, bus_port=self.router_relay.port, sql_port=None)
            self.router = Service("router", self._config, environment(through), self._folder / "router.log")
            opened.callback(self._stop_services)
            self.router.start()
            self.subscriber = Subscriber(served.bus_connection_string, self.topics)
            self.subscriber.start()
            opened.callback(self.subscriber.stop)
            self.workload = Workload(self.login, self.ledger, self._pace, seed=self._seed)
            opened.callback(self.workload.stop)
            self.health = opened.enter_context(HealthWatch(self._health_pages))
            self._opened = opened.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if kind is not None and kind is not KeyboardInterrupt:
                print(self.dump(), flush=True)
        finally:
            self._opened.close()

    def dump(self) -> str:
        """What can be told of a pipeline in which something is missing; in a file, too, whose name stands at the end."""
        services = [*self.ingesters, self.router]
        topics = [f"{topic}/subscriptions/sub1" for topic in self.topics.values()]
        folder = Path(os.environ.get(dump.FOLDER, self._folder))
        path = folder / f"dump-{os.getpid()}-{time.time_ns()}.txt"
        parts: list[tuple[str, Callable[[], str]]] = [
            ("counts", lambda: f"committed {self.ledger.counts()}\nreceived {self.subscriber.counts()}"),
            ("offsets", lambda: dump.offsets(self.login, self._origin)),
            ("sessions at SQL Server", lambda: dump.sessions(self.login)),
            *self._more_of_a_dump(),
            (
                "queue and topics",
                lambda: dump.entities(self.served.http_port, ["ingest-queue", *topics], self._listens),
            ),
            ("processes", lambda: dump.processes(services)),
            ("sockets", lambda: dump.sockets(services)),
            ("asked for stacks", lambda: dump.ask_for_stacks(services)),
            ("logs", lambda: dump.logs(services)),
            ("this process", dump.own_stacks),
        ]
        return f"{dump.dump(parts, path)}\n{path}"

    def _more_of_a_dump(self) -> list[tuple[str, Callable[[], str]]]:
        held = [("application locks", lambda: dump.lock_holders(self.sqlserver))]
        if self.blob_connection_string is not None:
            blobs = self.blob_connection_string
            held.append(("blob leases", lambda: dump.leases(blobs)))
        return held

    def _health_pages(self) -> list[tuple[str, str]]:
        pages = [(each.name, each.health) for each in self.ingesters if each.running]
        return [*pages, (ROUTER, f"{_HEALTH_HOST}:{self._router_health}")] if self.router.running else pages

    def stillness(self) -> list[Stillness]:
        """How long each table stood still so far, the longest first."""
        received, now = self.subscriber.received(), time.time()
        found: list[Stillness] = []
        for table in TABLES:
            committed = [at for _, _, at in self.ledger.entries(table)]
            found += stillnesses(table, committed, [each.at for each in received.get(table, ())], now)
        return sorted(found, key=lambda each: -each.seconds)

    def heard(self) -> Heard:
        """What health pages and logs have said so far that something is the matter, and who had which table."""
        named = [*((each.name, each) for each in self.ingesters), (ROUTER, self.router)]
        words = [*self.health.words, *(word for name, service in named for word in logged(service, name))]
        lives = self.health.lives()
        ends = {life.who: life.end for life in lives}
        reigns = [
            Reign(
                tenure.table,
                each.name,
                tenure.begin.timestamp(),
                ends.get(each.name, time.time()) if tenure.end is None else tenure.end.timestamp(),
            )
            for each in self.ingesters
            for tenure in tenures(each)
        ]
        return Heard(self.topics, words, reigns, lives)

    def _stop_services(self) -> None:
        for service in (*self.ingesters, self.router):
            service.stop()

    def start_ingester(
        self, *, bus_port: int | None = None, sql_port: int | None = None, variables: Mapping[str, str] = {}
    ) -> Ingester:
        """One more; returns at once. `bus_port`, `sql_port`: where it finds Service Bus and SQL Server instead of at the emulators.

        `variables`: of its environment, for a `locks` block that asks for some.
        """
        name = f"ingester-{len(self.ingesters)}"
        health = self._health_address()
        addresses = self._addresses.through(self.served, bus_port=bus_port, sql_port=sql_port)
        config = self._folder / f"{name}.hcl"
        host, _, port = health.partition(":")
        text = self._config.read_text().replace(_HEALTH, f'health {{\nhost = "{host}"\nport = {port}\n}}')
        config.write_text(self._adapted(text))
        ingester = Ingester(name, config, addresses, self._folder, variables, health, self._where)
        self.ingesters.append(ingester)
        ingester.start()
        return ingester

    def _health_address(self) -> str:
        """Where the next ingester has its health page."""
        return f"{_HEALTH_HOST}:{free_port()}"

    def _adapted(self, config: str) -> str:
        """An ingester's configuration, for a world that changes it."""
        return config

    def _where(self, command: Sequence[str]) -> list[str]:
        """How an ingester is started, for a world that has it on another machine."""
        return list(command)

    def delivered(self, wanted: Mapping[TableName, int] | None = None) -> bool:
        """Whether as many messages have arrived on each topic as changes were committed, or as are `wanted`."""
        received, counts = self.subscriber.counts(), self.ledger.counts() if wanted is None else wanted
        return all(received.get(table, 0) >= count for table, count in counts.items())

    def verdict(self, timeout: float = 60) -> Verdict:
        """Both ends compared, once everything has arrived, or after `timeout` seconds without."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline and not self.delivered():
            time.sleep(0.1)
        time.sleep(1)
        return judge(self.ledger, self.subscriber.received(), TABLES)

    def offsets(self) -> dict[str, tuple[bytes, int, bytes, int]]:
        """The stored offset of each table, in an order that compares as positions do."""
        with self.login.connect() as connection, connection.cursor() as cursor:
            cursor.execute("SELECT OBJECT_ID(N'dbo.cdc_offsets')")
            if cursor.fetchone()[0] is None:  # no ingester has come so far yet
                return {}
            cursor.execute(
                "SELECT table_name, last_lsn, last_command_id, last_seq, last_operation FROM dbo.cdc_offsets "
                "WHERE last_lsn IS NOT NULL"
            )
            return {row[0]: (bytes(row[1]), row[2], bytes(row[3]), row[4]) for row in cursor.fetchall()}


def good(verdict: Verdict) -> bool:
    """Whether something was committed and all of it arrived once, in order; raises AssertionError with examples when it did not."""
    examples = [example for table in verdict.tables.values() for example in table.examples]
    seen = {count: verdict.total(count) for count in ("lost", "duplicated", "out_of_order", "wrong")}
    assert seen == {"lost": 0, "duplicated": 0, "out_of_order": 0, "wrong": 0}, "\n".join(examples)
    return verdict.total("committed") > 0


def wait_until(condition: Callable[[], bool], what: str, timeout: float = 120, *, every: float = 0.1) -> None:
    """Raises AssertionError, naming `what`, when it does not become true. `every`: seconds between two looks; few for what does not stay true."""
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, f"still not: {what}"
        time.sleep(every)


def signal_tree(pid: int, number: signal.Signals) -> None:
    """A signal to a process and everything below it."""
    for found in tree(pid):
        with suppress(ProcessLookupError):
            os.kill(found, number)
