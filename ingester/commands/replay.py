"""`dstream replay`: which changes a range holds, and sending them once more. Reads the change tables; stores nothing."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial

import structlog

from common.bus.ports import Sender
from common.errors import PermanentError
from common.names import TableName
from ingester.commands.offsets import Target, counted
from ingester.commands.stores import Database, chosen, database
from ingester.history.replay import Replay, below, checked
from ingester.operating.moving import Span
from ingester.position import Position
from ingester.settings import IngesterSettings
from ingester.source import CaptureInstance, Source
from ingester.sqlserver.connection import Connection
from ingester.sqlserver.transactions.source import sql_server_source
from ingester.task.read_ahead import ReadAhead
from ingester.task.replay import ReplayEncoder, Replayer, ReplayProgress
from ingester.worker_settings import WorkerSettings

log = structlog.get_logger("replay")


@dataclass(frozen=True, slots=True)
class ReplayPlan:
    """`span`: its changes, counted as far as possible. `begin`, `end`: its borders in words."""

    replay: Replay
    span: Span
    begin: str
    end: str


def planned(settings: IngesterSettings, name: str, begin: Target, end: Target | None, topic: str) -> ReplayPlan:
    """`end`: None: all that is captured now. Raises ConfigurationError, and PermanentError for a range that cannot be replayed."""
    [table] = chosen(settings, [name])
    with database(settings) as stores:
        instances = _instances(stores.source, table)
        low, captured = min(instance.start for instance in instances), stores.desk.captured()
        if captured is None:
            raise PermanentError(f"replaying {table.key}: nothing was captured yet")
        first, last = _begin(stores, table, begin, low, captured), _end(stores, table, end, captured)
        checked(table, first, last, low=low, captured=captured)
        span = counted(stores, instances, Span(first, last))
        if span is None:
            raise PermanentError(
                f"replaying {table.key}: the table has no change {stores.desk.words(first)} and up to {stores.desk.words(last)}",
                hint="both times and LSNs are those of commits; dstream offsets shows where the table is",
            )
        replay = Replay(secrets.token_hex(6), table, topic, first, last)
        return ReplayPlan(replay, span, stores.desk.words(first), stores.desk.words(last))


def _instances(source: Source, table: TableName) -> Sequence[CaptureInstance]:
    """Raises PermanentError for a table that is not captured."""
    state = source.states([table])[table]
    if (absence := source.hints.absence(table, state)) is not None:
        raise PermanentError(f"replaying {table.key}: {absence}")
    return state.instances


def _begin(stores: Database, table: TableName, target: Target, low: Position, captured: Position) -> Position:
    if target.lsn is not None:
        return stores.desk.position_of(target.lsn)
    assert target.time is not None
    if not stores.desk.reaches_back(target.time):
        raise below(table, target.time.isoformat(), low)
    found = stores.desk.position_at(target.time)
    if found is None:
        raise PermanentError(
            f"replaying {table.key}: nothing was captured at {target.time.isoformat()} or later; capture has come to {captured}"
        )
    return found


def _end(stores: Database, table: TableName, target: Target | None, captured: Position) -> Position:
    if target is None:
        return captured
    if target.lsn is not None:
        return stores.desk.end_of(target.lsn)
    assert target.time is not None
    found = stores.desk.end_at(target.time)
    if found is None:
        raise PermanentError(
            f"replaying {table.key}: nothing that was committed by {target.time.isoformat()} is captured any longer"
        )
    if found >= captured:
        log.info(
            "replay ends where capture has come to", lsn=stores.desk.words(captured), until=target.time.isoformat()
        )
    return found


def run(
    settings: IngesterSettings,
    replay: Replay,
    sender: Sender,
    stop: threading.Event,
    *,
    most_rate: int | None,
    progress: ReplayProgress,
) -> None:
    """Send all of `replay`. Raises as `Replayer.run`."""
    needed = WorkerSettings.of(settings)
    connection = Connection(needed.db, proven=True, stop=stop)
    inner = sql_server_source(
        connection,
        transactions=needed.transactions,
        before_images=needed.before_images,
        decimals_as_numbers=needed.decimals_as_numbers,
        query_mode=needed.query_mode,
    )
    with closing(ReadAhead(inner)) as source:
        Replayer(
            source,
            sender,
            ReplayEncoder(needed.origin, needed.queue.name, replay),
            partial(_instances, source, replay.table),
            stop,
            most_rows=settings.page_rows,
            most_rate=most_rate,
            transforms=needed.transforms,
            shape=next(table.shape for table in settings.schedule if table.name == replay.table),
            before_images=needed.before_images,
            progress=progress,
        ).run()
