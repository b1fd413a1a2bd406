"""What tables cost that do nothing, and how long a change of the one that does something takes to the ingest queue."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from pathlib import Path
from statistics import quantiles
from typing import Any, Final

import orjson
from azure.servicebus import ServiceBusClient, ServiceBusReceiveMode

from bench.ingestion.counted import Relay
from bench.ingestion.ground import Ground, origin
from bench.ingestion.whole import Ingester, offsets
from common.bus.ports import QueueNeed
from common.config.durations import parse_duration
from common.names import TableName
from common.servicebus.provision import provision

POLL: Final = "5s"
LAG_POLL: Final = "500ms"
_SETTLED: Final = 5.0
_IN_STEP: Final = 60.0
"""Until tables that were first looked at one after the other are looked at together: a dozen looks."""
_PATIENCE: Final = 120.0
_A_TABLE: Final = 0.1
"""Seconds of patience more."""
_BESIDE: Final = 20
_RATE: Final = 50.0
_NARROW: Final = "Id INT NOT NULL PRIMARY KEY, Name NVARCHAR(50)"


def idle(ground: Ground, folder: Path, count: int, seconds: float) -> dict[str, Any]:
    """`count` tables without a change for `seconds`, polled every five seconds."""
    tables = [ground.table(f"Idle{number}", _NARROW) for number in range(count)]
    ground.cursor.execute("INSERT INTO dbo.Idle0 VALUES (0, N'so that the log has an end')")
    with (
        Relay(ground.emulators.login.port) as relay,
        Ingester(ground, folder, tables, queue="idle", poll=POLL, port=relay.port) as ingester,
    ):
        _wait_for_offsets(ground, ingester, tables)
        time.sleep(_IN_STEP)
        relay.taken()
        before, started = ingester.processor(), time.monotonic()
        time.sleep(seconds)
        counts, after, passed = relay.taken(), ingester.processor(), time.monotonic() - started
    return {
        "tables": count,
        "poll_s": parse_duration(POLL).total_seconds(),
        "probes_s": counts.probes / passed,
        "tables_a_probe": counts.tables / max(1, counts.probes),
        "other_statements_s": (counts.batches - counts.probes) / passed,
        "kilobytes_asked_s": counts.octets / passed / 1000,
        **{f"cores.{name}": (after[name] - before[name]) / passed for name in after},
    }


def lag(ground: Ground, folder: Path, seconds: float) -> dict[str, Any]:
    """Seconds from an active table's commits to their messages in the ingest queue, beside tables that are idle."""
    active = ground.table("Active", _NARROW)
    tables = [active, *(ground.table(f"Beside{number}", _NARROW) for number in range(_BESIDE))]
    needs = [QueueNeed("lag", sessions=True)]
    provision(ground.bus, needs, how="create", management_endpoint=ground.emulators.management_endpoint)
    arrived: dict[int, float] = {}
    committed: dict[int, float] = {}
    changes = int(seconds * _RATE)
    with Ingester(ground, folder, tables, queue="lag", poll=LAG_POLL) as ingester:
        ground.cursor.execute("INSERT INTO dbo.Active VALUES (0, N'opens the worker')")
        _wait_for_offsets(ground, ingester, tables)
        reader = threading.Thread(target=_read, args=(ground, active, changes, arrived), daemon=True)
        reader.start()
        time.sleep(_SETTLED)
        for number in range(1, changes):
            ground.cursor.execute(f"INSERT INTO dbo.Active VALUES ({number}, N'name {number}')")
            committed[number] = time.monotonic()
            time.sleep(1 / _RATE)
        reader.join(30)
        ingester.check()
    lags = [arrived[number] - at for number, at in committed.items() if number in arrived]
    if len(lags) != len(committed):
        raise SystemExit(f"{len(lags)} changes of {len(committed)} arrived")
    shares = quantiles(lags, n=100)
    return {
        "idle_tables": _BESIDE,
        "changes_s": _RATE,
        "capture_every_s": ground.capture_interval,
        "poll_s": parse_duration(LAG_POLL).total_seconds(),
        "lag_p50_s": shares[49],
        "lag_p99_s": shares[98],
        "lag_most_s": max(lags),
    }


def _wait_for_offsets(ground: Ground, ingester: Ingester, tables: list[TableName]) -> None:
    patience = _PATIENCE + _A_TABLE * len(tables)
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        ingester.check()
        ground.cursor.execute("SELECT OBJECT_ID(N'dbo.cdc_offsets', N'U')")
        if ground.cursor.fetchone()[0] is not None and len(_known(ground)) >= len(tables):
            return
        time.sleep(0.5)
    raise SystemExit(f"not every table has an offset after {patience:.0f} s")


def _known(ground: Ground) -> Mapping[str, object]:
    return offsets(ground.cursor)


def _read(ground: Ground, table: TableName, changes: int, arrived: dict[int, float]) -> None:
    with (
        ServiceBusClient.from_connection_string(ground.emulators.bus_connection_string) as client,
        client.get_queue_receiver(
            "lag",
            session_id=origin().session_id(table, "table"),  # type: ignore[arg-type]  # the SDK's union is about sessions
            receive_mode=ServiceBusReceiveMode.RECEIVE_AND_DELETE,
        ) as receiver,
    ):
        while len(arrived) < changes:
            for message in receiver.receive_messages(max_message_count=100, max_wait_time=5):
                now = time.monotonic()
                arrived[orjson.loads(b"".join(message.body))["data"]["Id"]] = now
