"""Ten faults, injected in turn into a running pipeline: what status, `/readyz`, the alert, the log and the console say of each.

The cause must be named where it can be known, and the remedy with it. What only counts what waits must not look healthy. docs/fail.md has the table.
"""

from __future__ import annotations

import json
import re
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from common.message import Message
from common.names import TableName
from common.servicebus.namespace import ServiceBus
from desk.status import Stages, read
from desk.watching.making import watching_of
from dstream.config import load_both
from dstream.demo.processes import environment
from dstream.demo.schema import CUSTOMERS, EVERYTHING, ORDER_LINES, ORDERS, TABLES
from dstream.demo.workload import Pace
from dstream.rendering.status import status_document, status_lines
from emulators.servicebus.faults.catalogue import EntityFull, SendsRefused
from emulators.sqlserver.faults.capture import CaptureLagging, CaptureStopped
from emulators.sqlserver.injection import Fault
from emulators.sqlserver.results import LoginRequest, SqlError
from ingester.lock_backends import lock_names
from ingester.sqlserver.locks import resource
from tests.worlds.world import SPARK_UP, Ingester, World, wait_until

ALERTS = Path(__file__).parents[2] / "deploy/observability/alerts.yaml"
LONGEST = 300.0
"""Seconds until a fault shows everywhere: capture counts as late after a minute."""


class PasswordRevoked(Fault):
    """The ingester's login is refused from now on; the workload's own is another."""

    def login(self, request: LoginRequest) -> None:
        if request.application.startswith("ingester"):
            raise SqlError(18456, f"Login failed for user '{request.user}'.", 14)


@dataclass
class Said:
    """What each place says, newest first where there are several."""

    status: str = ""
    json: str = ""
    readyz: str = ""
    alert: str = ""
    log: str = ""
    page: str = ""


@dataclass
class Desk:
    """Looks at a world as an operator does."""

    world: World
    stages: Stages
    watching: Any
    _logged: dict[Path, int] = field(default_factory=dict)

    def begin(self) -> None:
        for log in self._logs():
            self._logged[log] = len(log.read_text())

    def look(self) -> Said:
        found = read(self.stages, threading.Event())
        return Said(
            "\n".join(status_lines(found)),
            json.dumps(status_document(found)),
            "\n".join(self._page(address, "/readyz") for address in self._ports()),
            "\n".join(self._alerts()),
            "\n".join(log.read_text()[self._logged.get(log, 0) :] for log in self._logs()),
            "\n".join(
                f"{each.severity} | {each.what} | {each.cause} | {each.remedy} | {each.alert}"
                for each in self.watching.overview().troubles
            ),
        )

    def _logs(self) -> list[Path]:
        return [service.log for service in (*self.world.ingesters, self.world.router)]

    def _ports(self) -> list[str]:
        return [address for _, address in self.world._health_pages()]

    @staticmethod
    def _page(address: str, path: str) -> str:
        try:
            with urllib.request.urlopen(f"http://{address}{path}", timeout=10) as answer:
                return str(answer.read().decode())
        except urllib.error.HTTPError as error:
            return f"{error.code} {error.read().decode()}"
        except OSError as error:
            return f"no answer: {error}"

    def _alerts(self) -> Iterator[str]:
        """Alerts whose first comparison holds now. Their `for` and what they exclude is tried with promtool."""
        samples = [
            sample
            for address in self._ports()
            for family in text_string_to_metric_families(self._page(address, "/metrics"))
            for sample in family.samples
        ]
        for group in yaml.safe_load(ALERTS.read_text())["groups"]:
            for rule in group["rules"]:
                if _holds(rule["expr"], samples):
                    yield rule["alert"]


_COMPARED = re.compile(r"(dstream_\w+)(?:\{(\w+)(!?=)\"([^\"]*)\"\})?(?:\[\w+\])?\)*\s*(==|>|<)\s*([\d.]+)")


def _holds(expr: str, samples: list[Any]) -> bool:
    found = _COMPARED.search(expr)
    if found is None:
        return False
    name, label, how, value, sign, bound = found.groups()
    chosen = [
        each.value
        for each in samples
        if each.name == name and (label is None or (each.labels.get(label) == value) == (how == "="))
    ]
    compare: Mapping[str, Callable[[float, float], bool]] = {
        "==": lambda one, other: one == other,
        ">": lambda one, other: one > other,
        "<": lambda one, other: one < other,
    }
    return any(compare[sign](each, float(bound)) for each in chosen)


def _sql(world: World, *statements: str) -> None:
    with world.login.connect() as connection, connection.cursor() as cursor:
        connection.autocommit(True)
        for statement in statements:
            cursor.execute(statement)


@contextmanager
def password_revoked(world: World) -> Iterator[None]:
    """Existing connections end as well, as those of a pool do in time."""
    with world.sqlserver.inject(PasswordRevoked()):
        with world.login.connect() as connection, connection.cursor() as cursor:
            cursor.execute("SELECT session_id FROM sys.dm_exec_sessions WHERE program_name LIKE 'ingester%'")
            victims = [row[0] for row in cursor.fetchall()]
        for victim in victims:
            with suppress(Exception):  # it has ended by itself
                _sql(world, f"KILL {victim}")
        yield


@contextmanager
def grant_missing(world: World) -> Iterator[None]:
    with world.servicebus.inject(SendsRefused(world.topics[CUSTOMERS], "amqp:unauthorized-access")):
        yield


@contextmanager
def capture_stopped(world: World) -> Iterator[None]:
    with world.sqlserver.inject(CaptureStopped()):
        yield


@contextmanager
def capture_lagging(world: World) -> Iterator[None]:
    with world.sqlserver.inject(CaptureLagging(90)):
        yield


@contextmanager
def topic_deleted(world: World) -> Iterator[None]:
    topic, admin = world.topics[EVERYTHING], world.servicebus.admin
    kept, subscription = admin.get(topic).description, admin.get(f"{topic}/Subscriptions/sub1").description
    admin.delete(topic)
    yield
    admin.create(topic, kept)
    admin.create(f"{topic}/Subscriptions/sub1", subscription)


@contextmanager
def topic_disabled(world: World) -> Iterator[None]:
    topic, admin = world.topics[ORDER_LINES], world.servicebus.admin
    active = admin.get(topic).description
    admin.update(topic, replace(active, status="SendDisabled"))
    yield
    admin.update(topic, active)


@contextmanager
def quota_full(world: World) -> Iterator[None]:
    with world.servicebus.inject(EntityFull(world.topics[ORDERS])):
        yield


@contextmanager
def poison(world: World) -> Iterator[None]:
    bus = ServiceBus.from_connection_string(world.servicebus.connection_string)
    with closing(bus.sender("ingest-queue")) as sender:
        sender.send([Message(b"no json", "poison-1", "poison")])
    yield


@contextmanager
def gap(world: World) -> Iterator[None]:
    """Cleanup removes changes of a table while it cannot be read."""
    with password_revoked(world):
        time.sleep(5)
        _sql(
            world,
            "DECLARE @now BINARY(10) = sys.fn_cdc_get_max_lsn(); EXEC sys.sp_cdc_cleanup_change_table "
            "@capture_instance = N'sales_Orders', @low_water_mark = @now, @threshold = 1000000",
        )
    yield


Says = Mapping[str, str]
"""A pattern for each place where the fault must show."""

_TOPIC = {
    "status": r"ingest-queue +- +[1-9]",
    "json": '"queue": "ingest-queue", "active": [1-9]',
    "alert": "DStreamTopicUnavailable",
}
"""The stores do not know why a topic accepts nothing, but not healthy is what they look: messages wait in the queue."""

FAULTS: Mapping[str, tuple[Callable[[World], AbstractContextManager[None]], Says]] = {
    "poison": (
        poison,
        {
            "status": r"ingest-queue +- +\d+ +[1-9]",
            "json": '"dead_letters": [1-9]',
            "alert": "DStreamDeadLettersWait",
            "log": "message dead-lettered .*MalformedMessage.*the body is not JSON",
            "page": r"Dead letters wait in queue ingest-queue \| .*for a person \| look at their reasons",
        },
    ),
    "grant missing": (
        grant_missing,
        _TOPIC
        | {
            "readyz": "503 topic .*customers.events is unavailable: .* is refused .*Send",
            "log": r"\[error +\] topic unavailable .*customers.*is refused.*hint=.*Send",
            "page": r"critical \| Topic \S*customers.events refuses this sender \| .*is refused.*Send",
        },
    ),
    "topic disabled": (
        topic_disabled,
        _TOPIC
        | {
            "readyz": "503 topic .*orderlines.events is unavailable: .*SendDisabled.*enable the entity",
            "log": "topic unavailable .*orderlines.*SendDisabled.*hint=.*enable the entity",
            "page": r"critical \| Topic \S*orderlines.events is disabled \| .*SendDisabled.*enable the entity",
        },
    ),
    "topic deleted": (
        topic_deleted,
        _TOPIC
        | {
            "readyz": "503 topic .*everything.events is unavailable: .*does not exist.*create it again",
            "log": "topic unavailable .*everything.*does not exist.*hint=.*create it again",
            "page": r"critical \| Topic \S*everything.events does not exist \| .*create it again",
        },
    ),
    "quota full": (
        quota_full,
        _TOPIC
        | {
            "readyz": "503 topic .*orders.events is unavailable: .*maximum entity size.*the entity is full",
            "log": "topic unavailable .*orders.*maximum entity size.*hint=.*the entity is full",
            "page": r"critical \| Topic \S*orders.events is full \| .*maximum entity size.*the entity is full",
        },
    ),
    "capture stopped": (
        capture_stopped,
        {
            "status": r"problem: capture has stopped.*\(USE \[.*EXEC sys.*\)",
            "json": '"capture": {"state": "capture_stopped".*"remedy": "',
            "alert": "DStreamCaptureStopped",
            "log": "capture.*hint=",
            "page": r"critical \| Capture has stopped \| .*USE \[.*EXEC sys.* \| DStreamCaptureStopped",
        },
    ),
    "capture lagging": (
        capture_lagging,
        {
            "status": r"problem: .*\(.*\)",
            "json": '"capture": {"state": "capture_lagging".*"remedy": "',
            "alert": "DStreamCaptureLagging",
            "log": "capture.*hint=",
            "page": r"Capture is late \| .* \| DStreamCaptureLagging",
        },
    ),
    "password revoked": (
        password_revoked,
        {
            "status": "unknown: .*login refused.*check user and password",
            "json": '"complete": false.*login refused',
            "readyz": "503 the connection to SQL Server is lost: .*login refused.*restart with the new ones",
            "alert": "DStreamSqlServerUnreachable",
            "log": "connection to SQL Server lost, retrying .*login refused.*hint=.*restart with the new ones",
            "page": r"critical \| SQL Server refuses the login \| .*login refused.*DStreamSqlServerUnreachable",
        },
    ),
    "gap": (
        gap,
        {
            "status": "problem: sales.Orders: .*lost",
            "json": '"problem": ".*lost',
            "readyz": "503 .*sales.Orders",
            "alert": "DStreamTableStopped",
            "log": "table stopped.*sales.Orders.*lost",
            "page": r"critical \| sales.Orders has (stopped|lost changes) \| ",
        },
    ),
}
"""The gap is the last: its table stays stopped."""

HELD_ELSEWHERE: Says = {
    "status": "sales.Orders +held +[1-9]",
    "json": '"table": "sales.Orders", "lock": "held", "owner": null',
    "alert": "DStreamTableWithoutOwner",
}


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_each_fault_names_cause_and_remedy(tmp_path: Path) -> None:
    world = World(tmp_path, pace=Pace(20 * 100_000, 100_000, large=0))
    missing: dict[str, list[str]] = {}
    with ExitStack() as opened:
        opened.enter_context(world)
        held = opened.enter_context(closing(world.login.connect()))
        ingester = world.start_ingester()
        own = f"{world._addresses.db_connection_string}&app name=ingester-desk"
        variables = environment(replace(world._addresses, db_connection_string=own))
        stages = Stages(*load_both(tmp_path / f"{ingester.name}.hcl", variables))
        _hold(held, resource(lock_names(stages.ingester, [ORDERS])[ORDERS]))
        _started(ingester)
        world.workload.start()
        pages = [f"http://{address}" for _, address in world._health_pages()]
        desk = Desk(world, stages, opened.enter_context(watching_of(stages, scrape=pages, look_every=1.0)))
        desk.begin()
        wait_until(lambda: world.subscriber.counts().get(CUSTOMERS, 0) > 5, "changes arrive", 300)
        missing["lock held elsewhere"] = _unsaid("lock held elsewhere", desk, HELD_ELSEWHERE)
        held.close()
        for name, (fault, says) in FAULTS.items():
            _recovered(world, desk)
            desk.begin()
            with fault(world):
                missing[name] = _unsaid(name, desk, says)
    assert {name: places for name, places in missing.items() if places} == {}


def _started(ingester: Ingester) -> None:
    """On a busy machine Spark may not run its first task in time: the ingester ends, as it should, and a supervisor starts it again."""
    for _ in range(5):
        wait_until(lambda: SPARK_UP in ingester.log.read_text() or not ingester.running, "the ingester starts", 300)
        if ingester.running:
            return
        ingester.start()
    raise AssertionError("the ingester does not start")


def _hold(connection: Any, lock: str) -> None:
    connection.autocommit(True)
    with connection.cursor() as cursor:
        cursor.execute(
            f"EXEC sys.sp_getapplock @Resource = N'{lock}', @LockMode = N'Exclusive', @LockOwner = N'Session', @LockTimeout = 0"
        )


def _recovered(world: World, desk: Desk) -> None:
    wait_until(lambda: desk.look().readyz.split() == ["ok", "ok"], "all is well again", LONGEST)
    for table in TABLES:
        wait_until(
            partial(_more_of, world, table, world.subscriber.counts().get(table, 0)), f"{table} arrives", LONGEST
        )


def _more_of(world: World, table: TableName, than: int) -> bool:
    return world.subscriber.counts().get(table, 0) > than


def _unsaid(name: str, desk: Desk, says: Says) -> list[str]:
    """The places that have not said it after LONGEST."""
    until, left = time.monotonic() + LONGEST, set(says)
    said = desk.look()
    while left and time.monotonic() < until:
        said = desk.look()
        left = {place for place in left if re.search(says[place], getattr(said, place)) is None}
        if left:
            time.sleep(2)
    print(f"{name}: {'all said' if not left else f'not said by {sorted(left)}'}", flush=True)
    for place in sorted(left):
        print(f"--- {place}: {getattr(said, place)[-3000:]}", flush=True)
    return sorted(left)
