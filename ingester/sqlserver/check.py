"""`dstream check` of the source database, the offsets and the server's capture, with the ingester's own questions.
Changes nothing."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing

from common.check import Finding, Outcome, guarded, ok
from common.errors import PermanentError
from common.names import TableName
from common.sqladdress import SqlAddress
from ingester.blocks.locks import LocalLockSettings
from ingester.offsets import Claimed
from ingester.settings import IngesterSettings
from ingester.shape.check import columns_read, judge_defaults, judge_shape
from ingester.shape.table_shape import AS_CAPTURED, TableShape
from ingester.source import CaptureInstance, Probe
from ingester.sqlserver.capture import SqlServerCapture
from ingester.sqlserver.change_table import change_table
from ingester.sqlserver.connection import Connection
from ingester.sqlserver.findings import (
    OffsetsTable,
    Session,
    judge_capture,
    judge_encryption,
    judge_offsets,
    judge_renamed,
    judge_retention,
    judge_table,
    no_cdc,
    no_times,
    refused,
)
from ingester.sqlserver.history.check import findings as findings_of_snapshots
from ingester.sqlserver.offsets import SqlServerOffsets
from ingester.sqlserver.operating.check import moves as findings_of_moves
from ingester.sqlserver.operating.check import pauses as findings_of_pauses
from ingester.sqlserver.rows import RowReader
from ingester.sqlserver.scanning.check import findings as findings_of_scans
from ingester.sqlserver.schema.check import findings as findings_of_schemas
from ingester.sqlserver.source import SqlServerSource
from ingester.sqlserver.sql import capture as queries_of_capture
from ingester.sqlserver.sql import changes as queries
from ingester.sqlserver.sql import check as asked
from ingester.sqlserver.sql import offsets as queries_of_offsets
from ingester.window import probe_request, source_of


def findings(settings: IngesterSettings, destination: str) -> Generator[Finding, None, bool]:
    """One by one. `destination`: where the ingester sends the changes, as offsets store it. Returns whether changes may have been
    sent there, by an offset; not where offsets cannot be read."""
    with closing(Connection(settings.db)) as connection:
        reached = list(guarded("SQL Server", lambda: _server(connection, settings.db)))
        yield from reached
        yield from judge_encryption(settings.db)
        if any(finding.outcome is Outcome.FAIL for finding in reached):
            return False
        check = _Database(settings, destination, connection)
        session = check.session
        yield from guarded("CDC", check.cdc, fix=session.fix_of)
        yield from guarded("offsets", check.offsets, fix=session.fix_of)
        if check.enabled:
            yield from guarded("tables", check.tables, fix=session.fix_of)
            yield from guarded("snapshots", check.snapshots, fix=session.fix_of)
            yield from guarded("pauses", lambda: findings_of_pauses(connection, session), fix=session.fix_of)
            yield from guarded("moves", lambda: findings_of_moves(connection, session), fix=session.fix_of)
            if settings.keeps_schemas:
                yield from guarded("schemas", lambda: findings_of_schemas(connection, session), fix=session.fix_of)
            yield from guarded("capture", check.capture, fix=session.fix_of)
            if settings.low_latency:
                yield from guarded("low latency", lambda: findings_of_scans(connection, session), fix=session.fix_of)
        return check.may_have_sent


def _server(connection: Connection, address: SqlAddress) -> Iterator[Finding]:
    version, edition, database = connection.rows(asked.SERVER)[0]
    yield ok("SQL Server", f"{version}, {edition}, database {database}")
    if address.identity is not None:
        login, user = connection.rows(asked.WHO)[0]
        yield ok("login", f"by access token ({address.identity} identity): {login}, as the database's user {user}")


def _session(connection: Connection, settings: IngesterSettings) -> Session:
    login, user = connection.rows(asked.WHO)[0]
    return Session(
        database=settings.db.database,
        user=user,
        login=login or "",
        azure=bool(connection.rows(queries_of_capture.SERVICE_HAS_NO_AGENT)[0][0]),
        by_function=settings.query_mode == "function",
        tables=settings.tables,
        sees_every_table=connection.rows(asked.SEES_EVERY_TABLE)[0][0] == 1,
        local_locks=isinstance(settings.locks, LocalLockSettings),
    )


class _Database:
    """The methods must be called in their order: later ones use the results of earlier ones."""

    def __init__(self, settings: IngesterSettings, destination: str, connection: Connection) -> None:
        self._settings = settings
        self._destination = destination
        self._connection = connection
        self._readable = False
        self.session = _session(connection, settings)
        self.enabled = False
        """Whether the database has Change Data Capture; known after `cdc`."""
        self.may_have_sent = False
        """Whether an offset stands behind changes of the destination, which may have been sent to it; known after `offsets`."""

    def cdc(self) -> Iterator[Finding]:
        found = self._connection.rows(queries.CDC_ENABLED)
        self.enabled = bool(found and found[0][0])
        if not self.enabled:
            yield no_cdc(self._settings.db.database)
        elif self._connection.rows(queries.MAY_READ_THE_LOGS_TIMES)[0][0] != 1:
            yield no_times(self.session)

    def offsets(self) -> Iterator[Finding]:
        missing = bool(self._connection.rows(queries_of_offsets.TABLE_MISSING)[0][0])
        if missing:
            may_make = all(self._connection.rows(asked.MAY_MAKE_OFFSETS)[0])
            yield judge_offsets(OffsetsTable(may_make=may_make), self.session)
            return
        rights = self._connection.rows(asked.MAY_USE_OFFSETS)[0]
        there = self._connection.rows(asked.OFFSETS_COLUMNS_THERE)[0]
        found = OffsetsTable(
            lacking_rights=[name for name, has in zip(asked.OFFSETS_RIGHTS, rights, strict=True) if not has],
            lacking_columns=[name for name, at in zip(queries_of_offsets.COLUMNS, there, strict=True) if at is None],
        )
        self._readable = "SELECT" not in found.lacking_rights and not found.lacking_columns
        self.may_have_sent = (
            self._readable and self._connection.rows(asked.MAY_HAVE_SENT, (self._destination,))[0][0] > 0
        )
        yield judge_offsets(found, self.session)

    def tables(self) -> Iterator[Finding]:
        """Each table separately, so that an error of one does not hide another."""
        source = SqlServerSource(self._connection, query_mode=self._settings.query_mode)
        states = source.states(self._settings.tables)
        shaped = any(each.shape != AS_CAPTURED for each in self._settings.schedule)
        for each in self._settings.schedule:
            table, state, answer = each.name, states[each.name], Probe(None, {})
            try:
                for instance in state.instances:
                    self._readable_columns(instance, each.shape)
                stored = self._stored(table) if state.instances else Claimed(None)
                offset = stored.position
                if stored.source not in (None, source_of(state.instances)):
                    state = source.states([table], {table: stored.source or ""})[table]
                    yield judge_renamed(table, state, stored, on_gap=each.on_gap)
                    continue
                if state.instances:
                    answer = source.probe([probe_request(state.instances, offset)])
            except PermanentError as error:
                yield refused(table, error, self.session, self._gating_roles(table), self._moved(table))
                continue
            columns = [row[0] for row in self._connection.rows(asked.TABLE_COLUMNS, (table.quoted,))]
            yield from judge_table(table, state, offset, answer, columns, on_gap=each.on_gap, session=self.session)
            yield from judge_shape(each.shape, state.instances, clear=shaped)
        instances = [instance for state in states.values() for instance in state.instances]
        yield from judge_defaults([each.shape for each in self._settings.schedule], instances)

    def _gating_roles(self, table: TableName) -> list[str]:
        try:
            return [row[0] for row in self._connection.rows(asked.GATING_ROLES, (table.quoted,))]
        except PermanentError:  # a login that may not read the catalog of captures
            return []

    def _moved(self, table: TableName) -> str:
        return queries_of_offsets.to_send_elsewhere(table.key, self._destination)

    def _readable_columns(self, instance: CaptureInstance, shape: TableShape) -> None:
        """Raises PermanentError for a column whose type is not supported, as a worker would."""
        settings = self._settings
        columns = columns_read(shape, instance)
        RowReader(
            change_table(instance),
            decimals_as_numbers=settings.decimals == "number",
            before_images=settings.before_images,
            columns=columns,
        )

    def _stored(self, table: TableName) -> Claimed:
        if not self._readable or not self._connection.rows(asked.OFFSET_KNOWN, (table.key,))[0][0]:
            return Claimed(None)
        return SqlServerOffsets(self._connection, self._destination).look(table)

    def snapshots(self) -> Iterator[Finding]:
        yield from findings_of_snapshots(self._connection, self._settings, self.session)

    def capture(self) -> Iterator[Finding]:
        view = SqlServerCapture(self._connection, beside_scans=self._settings.low_latency)
        jobs = view.jobs()
        times = view.times() if self._readable else None
        yield judge_capture(view.facts(), jobs, None if times is None else times.newest, session=self.session)
        yield from judge_retention(jobs, times, [table.key for table in self._settings.tables], session=self.session)
