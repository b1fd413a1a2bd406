"""The ingester as a user runs it, a process with Spark: how fast it drains a backlog, what it costs while nothing happens, how long a
change takes. Progress is read from dbo.cdc_offsets, by a client of its own; a commit there follows the send of its page.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from bench.ingestion import system
from bench.ingestion.ground import Ground
from common.names import TableName
from dstream.demo.processes import Service
from ingester.position import Position
from ingester.sqlserver.position import LogPosition, Lsn
from ingester.sqlserver.sql.pauses import CREATE

SLOTS: Final = 8
"""Of Spark: the setting's default."""
_PATIENCE: Final = 900.0
_LOOK: Final = 0.05
_SETTLED: Final = 3.0
"""After which the first task has answered, and slices go to Spark."""

_CONFIG: Final = """\
ingester {{
    db_type              = "sqlserver"
    db_connection_string = "{db}"
    poll_interval_defaults {{
        poll_interval     = "{poll}"
        max_poll_interval = "{longest}"
    }}
    queue {{
        type                = "azure_service_bus"
        name                = "{queue}"
        connection_string   = "{bus}"
        management_endpoint = "{management}"
    }}
    locks {{
        type = "local"
    }}
    tables      = {tables}
    on_oversize = "{oversize}"
    spark {{
        master = "local[{slots}]"
    }}
    {more}
}}
"""


def configuration(
    ground: Ground,
    tables: Sequence[TableName],
    *,
    queue: str,
    poll: str = "500ms",
    port: int | None = None,
    oversize: str = "fail",
    slots: int = SLOTS,
    longest: str | None = None,
    more: str = "",
) -> str:
    """The text of an ingester's configuration. `port`: of SQL Server, where it is not the emulator's own. `longest`: between two polls of an idle
    table, where that is not `poll`. `more`: further settings.
    """
    emulators = ground.emulators
    own = emulators.login.port
    return _CONFIG.format(
        db=emulators.db_connection_string.replace(f":{own}?", f":{port or own}?"),
        bus=emulators.bus_connection_string,
        management=emulators.management_endpoint,
        tables=json.dumps([table.key for table in tables]),
        queue=queue,
        poll=poll,
        longest=longest or poll,
        more=more,
        slots=slots,
        oversize=oversize,
    )


class Running:
    """A service while it is measured. `with` starts and stops it."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def __enter__(self) -> Self:
        self._service.start()
        return self

    def __exit__(self, *details: object) -> None:
        self._service.stop()

    def check(self) -> None:
        """Ends the measurement when the service has ended by itself."""
        if self._service.died() is not None:
            raise SystemExit(f"the {self._service.stage} ended by itself:\n{self._service.tail()}")

    def wait_for_spark(self) -> None:
        """Until an ingester's Spark has run a task: then a process is there that starts Python workers."""
        deadline = time.monotonic() + _PATIENCE
        while not system.ingester_processes(self._service.pid)["workers"]:
            self.check()
            if time.monotonic() > deadline:
                raise SystemExit(f"Spark has not started within {_PATIENCE:.0f} s")
            time.sleep(_LOOK)
        time.sleep(_SETTLED)


class Ingester(Running):
    """`dstream ingester` over `tables`, to `queue`."""

    def __init__(
        self,
        ground: Ground,
        folder: Path,
        tables: Sequence[TableName],
        *,
        queue: str,
        **settings: Any,
    ) -> None:
        """`settings`: as of `configuration`."""
        config = folder / f"{queue}.hcl"
        config.write_text(configuration(ground, tables, queue=queue, **settings))
        self._ground = ground
        super().__init__(Service("ingester", config, {}, folder / f"{queue}.log"))

    def processor(self) -> dict[str, float]:
        """Seconds of processor time so far, by process."""
        parts = system.ingester_processes(self._service.pid)
        spent = {name: sum(map(system.processor_seconds, pids)) for name, pids in parts.items()}
        return spent | {
            name: system.processor_seconds(self._ground.emulators.pid(name)) for name in ("sqlserver", "servicebus")
        }

    def peaks(self) -> dict[str, float]:
        """The most memory each process has had, in MB; of the workers (the daemon that forks them left out) the largest."""
        parts = system.ingester_processes(self._service.pid)
        emulators = self._ground.emulators
        known = {name: [emulators.pid(name)] for name in ("sqlserver", "servicebus")}
        return {
            name: round(max(map(system.peak_megabytes, pids), default=0.0)) for name, pids in {**parts, **known}.items()
        }


@dataclass(frozen=True, slots=True)
class Drained:
    """`rate`: changes/s from the first commit to the last. `processor`: seconds of each process meanwhile."""

    rate: float
    seconds: float
    processor: dict[str, float]


def offsets(cursor: Any) -> dict[str, Position]:
    """The stored positions by table."""
    cursor.execute("SELECT table_name, last_lsn, last_command_id, last_seq, last_operation FROM dbo.cdc_offsets")
    return {
        name: LogPosition(Lsn(bytes(lsn)), command_id, bytes(seqval), operation)
        for name, lsn, command_id, seqval, operation in cursor.fetchall()
        if lsn is not None and command_id is not None
    }


def last_positions(cursor: Any, tables: Sequence[TableName]) -> dict[str, Position]:
    """Where each table's change table ends."""
    ends: dict[str, Position] = {}
    for table in tables:
        cursor.execute(
            "SELECT TOP (1) ct.[__$start_lsn], ct.[__$command_id], ct.[__$seqval], ct.[__$operation] "
            f"FROM cdc.{table.schema}_{table.table}_CT AS ct ORDER BY ct.[__$start_lsn] DESC, ct.[__$command_id] DESC, "
            "ct.[__$seqval] DESC, ct.[__$operation] DESC"
        )
        lsn, command_id, seqval, operation = cursor.fetchone()
        ends[table.key] = LogPosition(Lsn(bytes(lsn)), command_id, bytes(seqval), operation)
    return ends


@contextmanager
def draining(ingester: Ingester, cursor: Any, tables: Sequence[TableName], rows: int) -> Iterator[Drained]:
    """Run the ingester until it has drained a backlog, and then until the end of the context. The tables are paused until Spark has started:
    the start is another part's figure."""
    cursor.execute(CREATE)
    for table in tables:
        cursor.execute(
            "INSERT INTO dbo.cdc_pauses (table_name, paused_at, paused_by) "
            f"VALUES (N'{table.key}', SYSUTCDATETIME(), N'the bench')"
        )
    with ingester:
        ingester.wait_for_spark()
        cursor.execute("UPDATE dbo.cdc_pauses SET resumed_at = SYSUTCDATETIME() WHERE resumed_at IS NULL")
        yield drained(ingester, cursor, tables, rows)


def drained(ingester: Ingester, cursor: Any, tables: Sequence[TableName], rows: int) -> Drained:
    """Wait for the first commit of any table and for the last of all; `rows` is the backlog's number of changes."""
    ends = last_positions(cursor, tables)
    began, before = 0.0, dict[str, float]()
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        ingester.check()
        now, found = time.monotonic(), offsets(cursor) if _made(cursor) else {}
        if found and not began:
            began, before = now, ingester.processor()
        if all(key in found and found[key] >= end for key, end in ends.items()):
            after = ingester.processor()
            return Drained(
                rows / (now - began), now - began, {name: after[name] - before.get(name, 0.0) for name in after}
            )
        time.sleep(_LOOK)
    raise SystemExit(f"not drained within {_PATIENCE:.0f} s")


def _made(cursor: Any) -> bool:
    cursor.execute("SELECT OBJECT_ID(N'dbo.cdc_offsets', N'U')")
    return cursor.fetchone()[0] is not None
