"""SQL Server, Service Bus, PostgreSQL and OpenSearch, the ingester and the router as processes, and three copies of every table: what a consumer of
its topic makes of the messages, a table of PostgreSQL, and an index. All but SQL Server and Service Bus can be killed."""

from __future__ import annotations

import json
import os
import signal
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from random import Random
from typing import Any, Final, Self

import psycopg
from azure.servicebus.management import ServiceBusAdministrationClient

from common.names import Origin, server_label
from dstream.demo.processes import Service
from dstream.demo.subscriber import Subscriber
from dstream.emulators import Emulators
from tests.emulators.servicebus.contract.namespace import PlainTransport
from tests.faults.test_router_kills import workers_of
from tests.outputs.elasticsearch.node import OpenSearch
from tests.outputs.equals.tables import Application, Table
from tests.outputs.equals.values import as_message, as_row, shown
from tests.outputs.postgres.server import DATABASE, PASSWORD, ROLE, PostgresServer
from tests.worlds.world import signal_tree, wait_until

SOURCE: Final = "shop"
ORIGIN: Final = Origin(server_label("localhost"), SOURCE)
_QUEUE: Final = "ingest-queue"

Copy = Mapping[tuple[str, ...], Mapping[str, str]]
"""By key, the text of each value."""

_CONFIG: Final = """\
ingester {{
    db_type              = "sqlserver"
    db_connection_string = "{db}"
    before_images        = true
    poll_interval_defaults {{
        poll_interval     = "200ms"
        max_poll_interval = "1s"
    }}
    queue {{
        type                = "azure_service_bus"
        name                = "{queue}"
        connection_string   = "{bus}"
        management_endpoint = "{management}"
        ordering            = "{ordering}"
    }}
    locks {{
        type = "sqlserver"
    }}
    shape {{
        schema_events         = true
        initial_schema_events = true
    }}
    snapshot {{
        mode       = "initial"
        chunk_rows = 20
    }}
    tables = [{tables}]
    spark {{
        master = "local[2]"
    }}
}}
router {{
    workers = 2
    source {{
        type                = "azure_service_bus"
        connection_string   = "{bus}"
        management_endpoint = "{management}"
    }}
    output {{
        type                = "azure_service_bus"
        connection_string   = "{bus}"
        management_endpoint = "{management}"
    }}
    output "copy" {{
        type     = "postgres"
        host     = "127.0.0.1:{postgres}"
        database = "{copies}"
        user     = "{role}"
        password = "{password}"
        tls      = "disable"
    }}
    output "search" {{
        type    = "opensearch"
        urls    = ["{search}"]
        deletes = "{deletes}"
        keys    = {{ {keys} }}
    }}
    route {{
        from = [{tables}]
        to   = ["default", "copy", "search"]
    }}
}}
"""


class Copies:
    """Everything runs on entering. `rate`: transactions a second of each table."""

    def __init__(
        self, folder: Path, tables: Sequence[Table], *, ordering: str, deletes: str, rate: float, seed: int
    ) -> None:
        self._folder, self._ordering, self._deletes = folder, ordering, deletes
        self.config = folder / "dstream.hcl"
        self._emulators = Emulators(database=SOURCE, capture_interval=0.3)
        self.tables, self._rate, self._seed = tables, rate, seed
        self.random = Random(seed)
        # Of messages in many sessions only the position says which one of a row is the last, which this consumer does not look at.
        self.targets = ["topic", "postgres", "elasticsearch"] if ordering == "table" else ["postgres", "elasticsearch"]
        self.kills: Counter[str] = Counter()

    def __enter__(self) -> Self:
        with ExitStack() as opened:
            opened.enter_context(self._emulators)
            self._postgres = opened.enter_context(PostgresServer())
            self._node = OpenSearch(self._folder / "opensearch")
            opened.callback(self._node.stop)
            self._restarts = ThreadPoolExecutor(2, thread_name_prefix="restarts")
            self._coming: dict[str, Future[None]] = {}
            opened.callback(self._restarts.shutdown)
            node = self._restarts.submit(self._node.start)
            made = enumerate(self.tables)
            login = self._emulators.login
            with login.connect() as connection, connection.cursor() as cursor:
                cursor.execute("EXEC sys.sp_cdc_enable_db")
                for schema in {table.name.schema for table in self.tables} - {"dbo"}:
                    cursor.execute(f"CREATE SCHEMA {schema}")
            self.applications = [
                Application(login, table, rate=self._rate, seed=self._seed * 10 + at) for at, table in made
            ]
            for application in self.applications:
                application.prepare()
            node.result()
            self._write_config()
            self.ingester = Service("ingester", self.config, {}, self._folder / "ingester.log")
            self.router = Service("router", self.config, {}, self._folder / "router.log")
            opened.callback(self._stop_services)
            self.router.start()
            self.ingester.start()
            topics = {table.name: ORIGIN.topic(table.name) for table in self.tables}
            self.subscriber = Subscriber(self._emulators.bus_connection_string, topics)
            self.subscriber.start()
            opened.callback(self.subscriber.stop)
            transport = PlainTransport(self._emulators.management_endpoint.removeprefix("http://"))
            self._admin = opened.enter_context(
                ServiceBusAdministrationClient.from_connection_string(
                    self._emulators.bus_connection_string, transport=transport
                )
            )
            self._opened = opened.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, *details: object) -> None:
        try:
            if kind is not None:
                print(self.told(), flush=True)
        finally:
            self._opened.close()

    def _write_config(self) -> None:
        keys = ", ".join(f'"{table.name.key}" = {json.dumps(list(table.key.columns))}' for table in self.tables)
        self.config.write_text(
            _CONFIG.format(
                db=self._emulators.db_connection_string,
                bus=self._emulators.bus_connection_string,
                management=self._emulators.management_endpoint,
                queue=_QUEUE,
                ordering=self._ordering,
                deletes=self._deletes,
                tables=", ".join(json.dumps(table.name.key) for table in self.tables),
                postgres=self._postgres.port,
                copies=DATABASE,
                role=ROLE,
                password=PASSWORD,
                search=self._node.url,
                keys=keys,
            )
        )

    def _stop_services(self) -> None:
        for service in (self.ingester, self.router):
            service.stop()

    def told(self) -> str:
        logs = [f"-- {each.log.name}\n{each.tail(40)}" for each in (self.ingester, self.router)]
        counts = {table.key: count for table, count in self.subscriber.counts().items()}
        with suppress(Exception):
            counts |= dict(zip(("active", "dead letters"), self.waiting(), strict=True))
        return "\n".join([f"{dict(self.kills)} {counts}", *logs])

    # kills

    def strike(self, what: str) -> None:
        """SIGKILL. Services are started again at once, servers after a while, without anybody waiting for them."""
        if what in self._coming and not self._coming[what].done():
            return
        pause = self.random.choice([0.0, self.random.uniform(0, 2), self.random.uniform(0, 15)])
        print(
            f"{time.strftime('%X')} {sum(self.kills.values()):4} {self._arrived():6} {what} for {pause:.1f} s",
            flush=True,
        )
        self.kills[what] += 1
        if what == "ingester":
            self._kill(self.ingester)
        elif what == "router":
            self._kill(self.router)
        elif what == "worker":
            for worker in self.random.sample(found := workers_of(self.router.pid), min(1, len(found))):
                with suppress(ProcessLookupError):
                    os.kill(worker, signal.SIGKILL)
        else:
            server = self._postgres if what == "postgres" else self._node
            server.stop()
            self._coming[what] = self._restarts.submit(_start_after, pause, server)

    def _kill(self, service: Service) -> None:
        signal_tree(service.pid, signal.SIGKILL)
        service.kill()
        service.start()

    def _arrived(self) -> int:
        return sum(self.subscriber.counts().values())

    def await_more(self, timeout: float) -> None:
        """Something reaches a topic."""
        arrived = self._arrived()
        wait_until(lambda: self.alive() and self._arrived() > arrived, "more arrives", timeout)

    def alive(self) -> bool:
        """Raises AssertionError with the end of the log if a service has ended by itself."""
        for service in (self.ingester, self.router):
            assert service.died() is None, f"{service.stage} ended by itself:\n{service.tail(30)}"
        return True

    # the end

    def settled(self, timeout: float) -> None:
        """The last row of each table is in every copy, and nothing waits: no message can come any more."""
        for coming in self._coming.values():
            coming.result(timeout)
        for target in self.targets:
            for table in self.tables:
                wait_until(lambda: self._ended(target, table), f"the last row of {table.name.key}: {target}", timeout)  # noqa: B023
        wait_until(lambda: self.alive() and self.waiting()[0] == 0, "nothing waits in the queue", timeout)

    def _ended(self, target: str, table: Table) -> bool:
        self.alive()
        tell = as_row if target == "postgres" else as_message
        return tuple(map(tell, table.key.columns.values(), table.key.end)) in self.copy(target, table)

    def waiting(self) -> tuple[int, int]:
        """Messages in the queue, and its dead letters."""
        found = self._admin.get_queue_runtime_properties(_QUEUE)
        return found.active_message_count or 0, found.dead_letter_message_count or 0

    def source(self, target: str, application: Application) -> Copy:
        """What is to be there."""
        columns = application.table.all_columns
        tell = as_row if target == "postgres" else as_message
        told = [list(map(tell, columns.values(), row)) for row in application.rows()]
        return _by_key(application.table, [dict(zip(columns, row, strict=True)) for row in told])

    def copy(self, target: str, table: Table) -> Copy:
        found = {"topic": self._consumed, "postgres": self._table, "elasticsearch": self._documents}[target](table)
        return _by_key(table, found)

    def _consumed(self, table: Table) -> Sequence[Mapping[str, str]]:
        """By a consumer that applies every message by key, in the order of arrival."""
        rows: dict[str, dict[str, Any]] = {}
        for message in self.subscriber.received()[table.name]:
            body = json.loads(message.body)
            if body["metadata"]["OperationType"] in ("Schema", "Gap"):
                continue
            rows.pop(_text_key(table, body.get("before", body["data"])), None)
            if body["metadata"]["OperationType"] != "Delete":
                rows[_text_key(table, body["data"])] = body["data"]
        return [_document(table, row) for row in rows.values()]

    def history(self, table: Table, key: tuple[str, ...]) -> list[str]:
        """The last messages of its topic about a row."""
        found = list[str]()
        for message in self.subscriber.received()[table.name]:
            body = json.loads(message.body)
            metadata, data = body["metadata"], body["data"]
            about = [
                tuple(json.dumps(row.get(name)) for name in table.key.columns)
                for row in (data, body.get("before", data))
            ]
            if key in about or metadata["OperationType"] == "Schema":
                names = ("OperationType", "LSN", "CaptureInstance", "Snapshot", "EventID")
                found.append(f"{[metadata.get(name) for name in names]} {sorted(data)}")
        return found[-12:]

    def _table(self, table: Table) -> Sequence[Mapping[str, str]]:
        names = ", ".join(f'"{name.lower()}"' for name in table.all_columns)
        try:
            found = self._postgres.rows(f'SELECT {names} FROM "{table.name.schema}"."{table.name.table.lower()}"')
        except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName, psycopg.errors.UndefinedColumn):
            return []
        return [dict(zip(table.all_columns, map(shown, row), strict=True)) for row in found]

    def _documents(self, table: Table) -> Sequence[Mapping[str, str]]:
        name = table.name.table.lower().replace(" ", "_x0020_")
        found = self._node.documents(f"{SOURCE}.{table.name.schema}.{name}")
        return [
            _document(table, {name: value for name, value in each["_source"].items() if name != "_dstream"})
            for each in found
        ]


def _start_after(pause: float, server: PostgresServer | OpenSearch) -> None:
    time.sleep(pause)
    server.start()


def _text_key(table: Table, row: Mapping[str, Any]) -> str:
    return json.dumps([row[name] for name in table.key.columns])


def _document(table: Table, row: Mapping[str, Any]) -> Mapping[str, str]:
    """One that was written before a column was added does not have it: it is NULL there."""
    return {**dict.fromkeys(table.added, "null"), **{name: json.dumps(value) for name, value in row.items()}}


def _by_key(table: Table, rows: Sequence[Mapping[str, str]]) -> Copy:
    found = {tuple(row[name] for name in table.key.columns): row for row in rows}
    assert len(found) == len(rows), f"{table.name.key}: two rows with one key"
    return found
