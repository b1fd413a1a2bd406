"""`dstream check` of snapshots: dbo.cdc_snapshots, and the tables that one is taken of by itself. Changes nothing."""

from __future__ import annotations

from collections.abc import Iterator

from common.check import NOT_KNOWN, Finding, Fix, Outcome, by_hand, by_sql, fail, failed, ok, warn
from common.errors import ConnectionLost, DStreamError, TransientError
from common.names import TableName
from ingester.history.rows import RowsQuery
from ingester.settings import IngesterSettings, TableSettings
from ingester.shape.check import columns_read
from ingester.source import CaptureInstance
from ingester.sqlserver.change_table import change_table
from ingester.sqlserver.connection import Connection
from ingester.sqlserver.findings import Session
from ingester.sqlserver.hints import MAKE_SNAPSHOTS, ROWS_FILTERED, USE_SNAPSHOTS
from ingester.sqlserver.history.rows import SqlServerRows
from ingester.sqlserver.source import SqlServerSource
from ingester.sqlserver.sql import operating as queries_of_operating
from ingester.sqlserver.sql import rights
from ingester.sqlserver.sql import snapshots as queries
from ingester.sqlserver.sql.history.base_table import SqlServerTable, base_of

_SUBJECT = "snapshots"
_NO_KEY = by_hand("which columns identify a row of the table is a decision")
_PARTITIONED = by_hand(
    "a further unique index is a decision: it takes space, and partitions can no longer be switched in or out"
)
_FILTERED = by_hand("who may see which rows of the table is a decision")
_PASSES = by_hand("it passes by itself, or the session that holds the table has to end")


def findings(connection: Connection, settings: IngesterSettings, session: Session) -> Iterator[Finding]:
    """Without a snapshot in the configuration only what would make one wait that somebody asks for."""
    configured = [each for each in settings.schedule if each.snapshot != "never" or settings.on_gap == "snapshot"]
    store = list(_store(connection, session, needed=bool(configured)))
    usable = all(each.outcome is Outcome.OK for each in store)
    yield from store
    if not configured:
        return
    states = SqlServerSource(connection, query_mode=settings.query_mode).states([each.name for each in configured])
    rows = SqlServerRows(connection, decimals_as_numbers=settings.decimals == "number")
    for each in configured:
        if not states[each.name].instances:
            continue
        found = _table(rows, each, states[each.name].instances[-1], session)
        if usable or found.outcome is not Outcome.OK:  # nothing is well where none can be taken
            yield found


def _store(connection: Connection, session: Session, *, needed: bool) -> Iterator[Finding]:
    fix = by_sql(rights.MAKE_SNAPSHOTS, rights.use_snapshots(session.user))
    if connection.rows(queries.TABLE_MISSING)[0][0]:
        absent = "does not exist" if _sees_all(connection) else "does not exist, or this login may not see it"
        if needed and all(connection.rows(queries.MAY_MAKE)[0]):
            yield ok(_SUBJECT, "dbo.cdc_snapshots does not exist yet and is created at the first start")
        elif needed:
            text = f"dbo.cdc_snapshots {absent}; this login may not create and use it, so the ingester does not start"
            yield fail(_SUBJECT, text, MAKE_SNAPSHOTS, fix=fix)
        elif not _sees_all(connection):
            yield ok(_SUBJECT, f"dbo.cdc_snapshots {absent}: a snapshot that is asked for waits until it may use it")
    elif connection.rows(queries.MAY_USE)[0][0]:
        yield ok(_SUBJECT, "dbo.cdc_snapshots may be read and written")
    else:
        text = "this login may not read dbo.cdc_snapshots, or not write to it: a snapshot that is asked for waits"
        if needed:
            text = "this login may not read dbo.cdc_snapshots, or not write to it: the ingester does not start"
        yield (fail if needed else warn)(_SUBJECT, text, USE_SNAPSHOTS, fix=fix)


def _sees_all(connection: Connection) -> bool:
    """Whether a table that this login does not see does not exist."""
    return bool(connection.rows(queries_of_operating.SEES_ALL_TABLES)[0][0])


def _table(rows: SqlServerRows, each: TableSettings, instance: CaptureInstance, session: Session) -> Finding:
    subject = f"{_SUBJECT} of {each.name.key}"
    try:
        base = rows.table(instance)
        _one_row(rows, RowsQuery(base, 1, columns=columns_read(each.shape, instance)))
    except ConnectionLost:
        raise
    except TransientError as error:
        return warn(subject, error.message, error.hint, fix=_PASSES)
    except DStreamError as error:
        return failed(subject, error, fix=_fix(error, each.name, session))
    if each.exact and not any(column.key_ordinal for column in change_table(instance).columns):
        return _not_exact(subject, each.name, instance)
    if not base.order:
        text = "the table has no unique key: it is read in one pass, and its changes wait until all its rows are sent"
        hint = "a primary key, or a unique index over columns that are NOT NULL, lets changes through in between"
        return warn(subject, text, hint, fix=_NO_KEY)
    if base_of(base).partitioned_by is not None:
        return _sorted(subject, base_of(base))
    unseen = "; how large a row is, and whether a security policy hides rows, cannot be seen without VIEW DATABASE STATE and VIEW DEFINITION"
    note = unseen if base.rows and base.row_bytes is None else ""
    return ok(subject, f"about {base.rows:,} rows, in the order of {', '.join(base.order)}{note}")


def _fix(error: DStreamError, table: TableName, session: Session) -> Fix:
    if error.hint == ROWS_FILTERED:
        return _FILTERED
    return by_sql(rights.read_table(session.user, table)) if "GRANT SELECT" in (error.hint or "") else NOT_KNOWN


def _one_row(rows: SqlServerRows, query: RowsQuery) -> None:
    """Reads it, as a task would."""
    if query.table.order:
        rows.page(query)
    else:
        with rows.in_one_pass(query) as pages:
            pages.next()


def _sorted(subject: str, base: SqlServerTable) -> Finding:
    keys = ", ".join(base.order)
    return warn(
        subject,
        f"the unique index {base.index} ({keys}) is partitioned by {base.partitioned_by}, across its own order: the server reads and sorts "
        "all that is left of the table for a page, so a snapshot of a large table is slow",
        f"CREATE UNIQUE INDEX ... ON {base.name.quoted} ({keys}) ON [PRIMARY], which is not partitioned, lets a snapshot read page by page",
        fix=_PARTITIONED,
    )


def _not_exact(subject: str, table: TableName, instance: CaptureInstance) -> Finding:
    return fail(
        subject,
        f"snapshot.exact needs a key of the capture instance {instance.name}, which has none",
        f"set exact = false for {table.key}, or capture it with its primary key or a unique index (@index_name)",
        fix=_NO_KEY,
    )
