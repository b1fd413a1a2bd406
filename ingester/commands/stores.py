"""Settings to the stores as these commands read them: each wait has a deadline, and nothing is created or claimed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass

from common.errors import ConfigurationError, DStreamError
from common.in_time import in_time
from common.names import TableName
from ingester.blocks.locks import LocalLockSettings
from ingester.finding.matches import matches
from ingester.history.desk import SnapshotDesk
from ingester.history.rows import Rows
from ingester.lock_backends import lock_names, locks_of
from ingester.locks import Locks
from ingester.operating.moving import Held
from ingester.operating.offset_desk import OffsetDesk
from ingester.operating.pauses import Pauses
from ingester.settings import IngesterSettings
from ingester.source import Source
from ingester.sqlserver.capture import SqlServerCapture
from ingester.sqlserver.catalog.under_cdc import tables_under_cdc
from ingester.sqlserver.connection import Connection
from ingester.sqlserver.history.desk import SqlServerSnapshotDesk
from ingester.sqlserver.history.rows import SqlServerRows
from ingester.sqlserver.operating.desk import SqlServerDesk
from ingester.sqlserver.operating.pauses import SqlServerPauses
from ingester.sqlserver.transactions.source import sql_server_source

_QUERY_SECONDS = 30.0
_LOCKS_SECONDS = 30.0
_LISTED = 20

LOCAL = 'locks of type "local" are known to their own process alone'


@dataclass(frozen=True, slots=True)
class Database:
    """The source database: one connection, so not for several threads."""

    desk: OffsetDesk
    source: Source
    capture: SqlServerCapture
    snapshots: SnapshotDesk
    rows: Rows
    pauses: Pauses


@contextmanager
def database(settings: IngesterSettings) -> Iterator[Database]:
    """Connects at the first question."""
    with closing(connection_of(settings)) as connection:
        yield on(connection, settings)


def connection_of(settings: IngesterSettings) -> Connection:
    """Opens nothing yet."""
    return Connection(settings.db, query_seconds=_QUERY_SECONDS)


def on(connection: Connection, settings: IngesterSettings) -> Database:
    """The stores over `connection`, which stays the caller's to close."""
    source = sql_server_source(
        connection,
        transactions=settings.transactions,
        tables=lambda: settings.tables,
        query_mode=settings.query_mode,
    )
    rows = SqlServerRows(connection, decimals_as_numbers=settings.decimals == "number")
    snapshots, pauses = SqlServerSnapshotDesk(connection), SqlServerPauses(connection)
    capture = SqlServerCapture(connection, beside_scans=settings.low_latency)
    return Database(SqlServerDesk(connection), source, capture, snapshots, rows, pauses)


@dataclass(frozen=True, slots=True)
class LocksSeen:
    """`held`: the tables whose lock somebody holds. `unknown`: why that cannot be seen; then `held` is empty."""

    held: frozenset[TableName] = frozenset()
    unknown: DStreamError | None = None

    def of(self, table: TableName) -> Held:
        if self.unknown is not None:
            return Held.UNKNOWN
        return Held.HELD if table in self.held else Held.FREE


def locks_seen(settings: IngesterSettings, tables: Sequence[TableName]) -> LocksSeen:
    """Which of `tables` have an owner. An error is part of the answer."""
    if isinstance(settings.locks, LocalLockSettings):
        return LocksSeen(unknown=DStreamError(LOCAL))
    try:
        with closing(locks_of(settings, {})) as locks:
            return held_by(locks, settings, tables)
    except DStreamError as error:
        return LocksSeen(unknown=error)


def held_by(locks: Locks, settings: IngesterSettings, tables: Sequence[TableName]) -> LocksSeen:
    """As `locks_seen`, through `locks`. After a deadline they are still in use by a thread that nobody waits for."""
    names = lock_names(settings, tables)
    try:
        held = in_time(_LOCKS_SECONDS, lambda: locks.held(list(names.values())), name="locks")
    except TimeoutError:
        return LocksSeen(unknown=DStreamError(f"looking which locks are held: no answer within {_LOCKS_SECONDS:.0f} s"))
    except DStreamError as error:
        return LocksSeen(unknown=error)
    return LocksSeen(frozenset(table for table, name in names.items() if name in held))


def with_matches(settings: IngesterSettings) -> IngesterSettings:
    """The same with the names of the tables that patterns match now. Asks the database only if there are patterns. Raises DStreamError."""
    if not settings.selection.patterns:
        return settings
    with closing(connection_of(settings)) as connection:
        return matches_on(connection, settings)


def matches_on(connection: Connection, settings: IngesterSettings) -> IngesterSettings:
    """As `with_matches`, over `connection`."""
    return matches(settings, tables_under_cdc(connection)).settings if settings.selection.patterns else settings


def chosen(
    settings: IngesterSettings, given: Sequence[str], tables: Sequence[TableName] | None = None
) -> list[TableName]:
    """The configured tables that were named, in any case; all of them if none was. Raises ConfigurationError.

    `tables`: those that there are; the configured ones unless given.
    """
    tables = settings.tables if tables is None else tables
    if not given:
        return list(tables)
    known = {table.key.lower(): table for table in tables}
    found, problems = list[TableName](), list[str]()
    for text in given:
        try:
            table = known.get(TableName.parse(text).key.lower())
            problem = None if table is not None else f"no such table in the configuration{_meant(text, tables)}"
        except ValueError as error:
            table, problem = None, str(error)
        if table is not None:
            found.append(table)
        else:
            problems.append(f"table {text}: {problem}")
    if problems:
        none = "those that patterns match: none now"
        raise ConfigurationError(problems, hint=f"the tables are {_list(tables) or none}")
    return found


def _meant(text: str, tables: Sequence[TableName]) -> str:
    """Without a schema a name means dbo, which many forget."""
    name = TableName.parse(text).table.lower()
    meant = [table.key for table in tables if table.table.lower() == name]
    return f" (did you mean {' or '.join(meant[:3])}?)" if meant else ""


def _list(tables: Sequence[TableName]) -> str:
    more = f" and {len(tables) - _LISTED} more" if len(tables) > _LISTED else ""
    return ", ".join(table.key for table in tables[:_LISTED]) + more
