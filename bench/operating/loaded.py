"""A pipeline that is never without work: both emulators, `dstream ingester`, `dstream router`, and a writer that keeps a backlog.

Everything shares the machine's cores, so the pipeline takes what is left of them. A subscription of each topic exists and takes nothing: its
rule matches no message, so that the emulator does not fill.
"""

from __future__ import annotations

import json
import socket
import threading
import time
import urllib.request
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from bench.ingestion import system
from bench.ingestion.ground import TRANSACTION_ROWS, Ground, origin
from common.names import TableName
from common.observability.metrics import readings
from dstream.demo.processes import Service, environment
from dstream.emulators import Bus

ROUTED: Final = "dstream_router_messages_routed_total"
_BACKLOG: Final = 3 * TRANSACTION_ROWS
_LOOK: Final = 0.5
_PATIENCE: Final = 180.0

_CONFIG: Final = """\
ingester {{
    db_type              = "sqlserver"
    db_connection_string = "{{{{ env("DSTREAM_DB_CONNECTION_STRING") }}}}"
    poll_interval_defaults {{
        poll_interval     = "500ms"
        max_poll_interval = "500ms"
    }}
    queue {{
        name                = "ingest-queue"
        connection_string   = "{{{{ env("DSTREAM_INGEST_CONNECTION_STRING") }}}}"
        management_endpoint = "{management}"
    }}
    locks {{
        type = "local"
    }}
    tables = {tables}
    health {{
        host = "127.0.0.1"
        port = {ports[0]}
    }}
    spark {{
        master = "local[4]"
    }}
}}
router {{
    workers = 1
    source {{
        connection_string   = "{{{{ env("DSTREAM_PUBLISHER_CONNECTION_STRING") }}}}"
        management_endpoint = "{management}"
    }}
    output {{
        connection_string   = "{{{{ env("DSTREAM_PUBLISHER_CONNECTION_STRING") }}}}"
        management_endpoint = "{management}"
    }}
    health {{
        host = "127.0.0.1"
        port = {ports[1]}
    }}
}}
"""


@dataclass(frozen=True, slots=True)
class Moment:
    """`routed`: messages so far. `processor`: seconds of each part so far."""

    at: float
    routed: float
    processor: dict[str, float]


class Loaded:
    """`with` starts everything, waits until messages reach the topics, and stops it at the end. `busy`: tables with a load; `idle`: tables beside."""

    def __init__(self, folder: Path, *, busy: int, idle: int) -> None:
        self.busy = [TableName("dbo", f"Busy{number}") for number in range(busy)]
        self.tables = [*self.busy, *(TableName("dbo", f"Idle{number}") for number in range(idle))]
        self._folder = folder
        entities = folder / "entities.json"
        entities.write_text(json.dumps(_entities(self.tables)))
        self._ground = Ground(bus=Bus(config=entities))
        self._ports = _free_ports(2)
        self._stop = threading.Event()
        self._writer = threading.Thread(target=self._write, name="writer", daemon=True)
        self.written = 0

    def __enter__(self) -> Self:
        emulators = self._ground.__enter__().emulators
        self.config, self.variables = self._folder / "dstream.hcl", environment(emulators)
        names = json.dumps([table.key for table in self.tables])
        management = emulators.management_endpoint
        self.config.write_text(_CONFIG.format(management=management, tables=names, ports=self._ports))
        for table in self.tables:
            self._ground.table(table.table)
        self._services = [
            Service(stage, self.config, self.variables, self._folder / f"{stage}.log")
            for stage in ("ingester", "router")
        ]
        for service in self._services:
            service.start()
        self._wait_for_router()
        self._writer.start()
        ends = time.monotonic() + _PATIENCE
        while self.routed() < TRANSACTION_ROWS / 5:
            self._check(ends, "no load reached the topics")
            time.sleep(_LOOK)
        print("the pipeline is loaded", flush=True)
        return self

    def __exit__(self, *details: object) -> None:
        self._stop.set()
        if self._writer.ident is not None:
            self._writer.join(60)
        for service in self._services:
            service.stop()
        self._ground.__exit__(*details)

    def moment(self) -> Moment:
        """Ends the measurement when a stage has ended, or when the writer was too slow."""
        self._check(float("inf"), "")
        routed = self.routed()
        if self.written - routed < TRANSACTION_ROWS / 5:
            raise SystemExit(f"the pipeline had nothing to do: {self.written - routed:.0f} changes waited")
        ingester, router = (service.pid for service in self._services)
        parts = {"ingester": [ingester, *system.descendants(ingester)], "router": [router, *system.descendants(router)]}
        parts |= {name: [self._ground.emulators.pid(name)] for name in ("sqlserver", "servicebus")}
        spent = {name: sum(map(system.processor_seconds, pids)) for name, pids in parts.items()}
        return Moment(time.monotonic(), routed, spent)

    def routed(self) -> float:
        """Messages that topics have accepted."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self._ports[1]}/metrics", timeout=30) as answer:
            return sum(each.value for each in readings(answer.read().decode(), [ROUTED]))

    def _wait_for_router(self) -> None:
        ends = time.monotonic() + _PATIENCE
        while True:
            try:
                self.routed()
            except OSError:
                self._check(ends, "the router serves no metrics")
                time.sleep(_LOOK)
            else:
                return

    def _check(self, ends: float, late: str) -> None:
        for service in self._services:
            if service.died() is not None:
                raise SystemExit(f"the {service.stage} ended by itself:\n{service.tail()}")
        if time.monotonic() > ends:
            raise SystemExit(f"{late} within {_PATIENCE:.0f} s:\n{self._services[1].tail()}")

    def _write(self) -> None:
        """A transaction for each table in turn, whenever fewer changes than the backlog wait."""
        with closing(self._ground.emulators.login.connect()) as connection, connection.cursor() as cursor:
            turn = 0
            while not self._stop.wait(_LOOK / 2):
                while self.written - self.routed() < _BACKLOG and not self._stop.is_set():
                    first = turn // len(self.busy) * TRANSACTION_ROWS
                    _fill(cursor, self.busy[turn % len(self.busy)], first)
                    turn += 1
                    self.written += TRANSACTION_ROWS


def _fill(cursor: Any, table: TableName, first: int) -> None:
    cursor.execute(
        f"INSERT INTO {table.quoted} SELECT Id + {first}, Big, Name, Code, Amount, Price, Ratio, Seen, Guid, Flag FROM dbo.Seed"
    )


def _entities(tables: list[TableName]) -> dict[str, Any]:
    """The topics with a subscription each, in the form of Microsoft's emulator."""
    rule = {
        "Name": "none",
        "Properties": {"FilterType": "Correlation", "CorrelationFilter": {"Label": "of no message"}},
    }
    subscriptions = [{"Name": "sub1", "Rules": [rule]}]
    topics = [{"Name": origin().topic(table), "Subscriptions": subscriptions} for table in tables]
    return {"UserConfig": {"Namespaces": [{"Name": "sbemulatorns", "Topics": topics}]}}


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports
