"""What is done to one table, each in one transaction under the table's lock: rows, events about the table, and the sweep after a gap.

The lock is one for all routers and ends with the transaction, so that two of them never write one table at the same time.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

import orjson
import psycopg
import structlog

from common.errors import EntityMissing, EntityUnavailable
from router.envelopes.port import NotNative
from router.outputs.postgres import definitions, statements
from router.outputs.postgres.catalog import table_of, unfit
from router.outputs.postgres.changes import READ, Change
from router.outputs.postgres.connections import Timed, run
from router.outputs.postgres.folding import Folded, RowState, folded
from router.outputs.postgres.position import before
from router.outputs.postgres.settings import PostgresSettings
from router.outputs.postgres.statements import LOCK, SESSION, Own, lock_number
from router.outputs.postgres.table import Layout, Table, parts_of, quoted

Statement = tuple[str, Sequence[Any]]

_FORGET_EVERY: Final = 600.0
"""Seconds between two looks for keys that were remembered long enough."""
_FORGET_AT_ONCE: Final = 5_000
_SWEPT_PAGES: Final = 8_192
"""Of a table, in one transaction: 64 MB."""
_NOT_SWEPT: Final = ("", 0)
"""Of which gap, and up to which page: what another router has swept meanwhile says nothing of the next gap."""
_EVENTS = "set ingester.shape.schema_events = true and take a snapshot of the table, or create it yourself (docs/outputs/postgres.md)"

log = structlog.get_logger(__name__)


class Target:
    """Of one sender; not thread-safe."""

    def __init__(self, place: str, settings: PostgresSettings) -> None:
        self._place = place
        self._schema, self._name = parts_of(place)
        self._settings = settings
        self._own = Own(settings.own_schema)
        self._lock = lock_number(place)
        self._table: Table | None = None
        self._layouts: dict[tuple[str, ...], Layout] = {}
        self._begun: dict[str, str] = {}
        self._origins = set[str]()
        self._swept = _NOT_SWEPT
        self._said = ""
        self._forget_at = 0.0

    @property
    def known(self) -> bool:
        return self._table is not None

    def forget(self) -> None:
        """Look the table up again before it is used next."""
        self._table = None
        self._layouts.clear()
        self._origins.clear()
        self._swept = _NOT_SWEPT

    def look(self, connection: Timed) -> None:
        """Raises EntityMissing, EntityUnavailable, psycopg.Error. A table that a schema event may create need not be there."""
        if connection.execute("SELECT to_regclass($1)", (self._own.deleted,)).fetchone() == (None,):
            raise EntityMissing(
                f"the table {self._own.deleted} does not exist",
                hint='set router.provision = "create", or create DStream\'s own tables: `dstream plan` prints the statements',
            )
        self._load(connection)
        if self._table is None and self._settings.schema_changes != "apply":
            raise self._missing()

    def apply(self, connection: Timed, changes: Sequence[Change]) -> int:
        """Returns how many updates may have left a row under its old key."""
        if self._table is None:
            self._load(connection)
        table = self._table
        if table is None:
            raise self._missing()
        self._claim(connection, changes)
        found = folded(changes, lambda names: self._layout(connection, names))
        table = self._table or table
        reads = self._new_snapshots(changes)
        statements_ = [*self._writes(table, found), *reads]
        last = changes[-1]
        if last.ends_snapshot:
            whole = statements.snapshot_whole(self._own)
            statements_.append((whole, (self._place, str(last.metadata["Snapshot"]["Id"]))))
        forgets = time.monotonic() >= self._forget_at
        if forgets:
            seconds = self._settings.remember_deletes.total_seconds()
            statements_.append((statements.forget(self._own), (self._place, seconds, _FORGET_AT_ONCE)))
        counts = self._commit(connection, statements_)
        self._begun.update({given[1]: given[2] for _, given in reads})
        if forgets and counts[-1] < _FORGET_AT_ONCE:  # else the next chunk goes on
            self._forget_at = time.monotonic() + _FORGET_EVERY
        return found.doubtful

    def _claim(self, connection: Timed, changes: Sequence[Change]) -> None:
        """Positions of two databases do not compare: one's rows would count as older than the other's, and be dropped."""
        for origin in {change.origin for change in changes} - self._origins:
            answer = connection.execute(statements.claim(self._own), (self._place, origin)).fetchone()
            if answer is None or answer[0] != origin:
                place = self._place.replace("'", "''")
                raise EntityUnavailable(
                    f"{self._place} has rows of {'nobody' if answer is None else answer[0]}, and these are of {origin}",
                    hint=f"give each database its own table ({{database}} in `table`); or, if {origin} takes its place, stop the other one, empty "
                    f"the table (docs/outputs/postgres.md) and run: UPDATE {self._own.tables} SET origin = NULL WHERE target = '{place}'",
                )
            self._origins.add(origin)

    def gap(self, connection: Timed, lsn: str) -> None:
        """It says at once what a person may have to do: the sweep needs a snapshot's last row, and an empty table has none."""
        self._commit(connection, [(statements.gap_seen(self._own), (self._place, lsn))])
        if lsn != self._said:
            self._said = lsn
            older = f"{quoted(self._settings.position_column)} < decode('{lsn}', 'hex')"
            log.warning(
                "changes of a table are lost, so its rows may have been deleted",
                table=self._place,
                behind=lsn,
                effect="rows that were deleted in the gap stay until the last row of a snapshot from behind it has come",
                hint=f"if no snapshot comes, or the table is empty at its source: DELETE FROM {self._place} WHERE {older}",
            )

    def schema(self, connection: Timed, metadata: Mapping[str, Any]) -> None:
        """Make the table hold the columns of a schema event, where the settings say so. Raises NotNative."""
        self.forget()
        if self._settings.schema_changes != "apply":
            return
        try:
            columns = definitions.sent_columns(metadata)
        except ValueError as error:
            raise NotNative(str(error)) from error
        connection.execute("BEGIN")
        self._begin(connection)
        self._load(connection)
        made = self._made(connection, columns)
        for text in made:
            connection.execute(text)
        _committed(connection)
        self.forget()
        if made:
            log.info("table follows its source", table=self._place, statements=made)

    def sweep(self, connection: Timed) -> bool:
        """Whether nothing is left to sweep; else another call goes on."""
        due = connection.execute(statements.due_sweep(self._own), (self._place,)).fetchone()
        if due is None:
            return True
        if self._table is None:
            self._load(connection)
        if self._table is None:
            raise self._missing()
        pages = connection.execute(statements.PAGES, (self._place,)).fetchone()
        first = self._swept[1] if self._swept[0] == due[0] else 0
        to = first + _SWEPT_PAGES
        text = statements.sweep(self._table, self._own)
        self._commit(connection, [(text, (first, to, before(due[0]), self._place))])
        self._swept = due[0], to
        if pages is not None and to < pages[0]:
            return False
        self._commit(connection, [(statements.swept(self._own), (self._place, due[0]))])
        self._swept = _NOT_SWEPT
        log.info("rows that were deleted in a gap are removed", table=self._place, behind=due[0])
        return True

    def _load(self, connection: Timed) -> None:
        self.forget()
        self._table = table_of(connection, self._schema, self._name, self._settings.position_column)
        if self._table is not None and (wrong := unfit(self._table)) is not None:
            self._table = None
            raise EntityUnavailable(f"the table {self._place} cannot be used: {wrong[0]}", hint=wrong[1])

    def _layout(self, connection: Timed, names: tuple[str, ...]) -> Layout:
        """Raises EntityUnavailable where the table has not all that the messages have."""
        if (found := self._layouts.get(names)) is not None:
            return found
        assert self._table is not None
        found = self._table.layout(names)
        if found.unknown or found.missing:
            self._load(connection)  # a column may have been added meanwhile
            if self._table is None:
                raise self._missing()
            found = self._table.layout(names)
        if found.missing:
            raise EntityUnavailable(
                f"{self._place}: messages have no value for the column {', '.join(found.missing)} of its primary key",
                hint="give the table the primary key of its source, and send those columns",
            )
        if found.unknown and self._settings.schema_changes != "ignore":
            raise EntityUnavailable(
                f"{self._place}: the table has no column for {', '.join(found.unknown)}",
                hint=f'add it, or set schema_changes = "ignore"; to have it added by itself {_EVENTS}',
            )
        self._layouts[names] = found
        return found

    def _writes(self, table: Table, found: Folded) -> list[Statement]:
        made = list[Statement]()
        if gone := found.deleted():
            document = [_deletion(key, position, remember) for key, position, remember in gone]
            made.append((statements.delete(table, self._own), (orjson.dumps(document).decode(), self._place)))
        for layout, rows in found.written().items():
            positions = "{" + ",".join([row.position for row in rows]) + "}"
            made.append(
                (statements.upsert(table, layout, self._own), (_document(layout, rows), positions, self._place))
            )
        return made

    def _new_snapshots(self, changes: Sequence[Change]) -> list[Statement]:
        """Where snapshots began whose rows are among `changes`, unless that is known."""
        begun = dict[str, str]()
        for change in changes:
            if change.operation == READ and isinstance(of := change.metadata.get("Snapshot"), dict):
                name = str(of.get("Id"))
                begun[name] = min(change.lsn, begun.get(name, change.lsn))
        text = statements.snapshot_seen(self._own)
        return [(text, (self._place, name, lsn)) for name, lsn in begun.items() if lsn < self._begun.get(name, "g")]

    def _begin(self, connection: Timed) -> None:
        left = max(1, int((connection.until - time.monotonic()) * 1000))
        connection.execute(SESSION, (str(left),))
        connection.execute(LOCK, (self._lock,))

    def _commit(self, connection: Timed, given: Sequence[Statement]) -> Sequence[int]:
        """Returns how many rows each of `given` was about."""
        left = max(1, int((connection.until - time.monotonic()) * 1000))
        begin: list[Statement] = [("BEGIN", ()), (SESSION, (str(left),)), (LOCK, (self._lock,))]
        try:
            answers = run(connection, [*begin, *given, ("COMMIT", ())])
        except BaseException:
            _roll_back(connection)
            raise
        _refuse_rollback(answers[-1].statusmessage)
        return [each.rowcount for each in answers[len(begin) : -1]]

    def _made(self, connection: Timed, columns: Sequence[definitions.Sent]) -> list[str]:
        lower = self._settings.names == "lower"
        if self._table is not None:
            return definitions.changes(self._table, columns, lower=lower)
        if not any(each.key for each in columns):
            raise EntityUnavailable(
                f"the table {self._place} cannot be created: its source has no key",
                hint="give the source a primary key, or create the table with one",
            )
        made = list[str]()
        if connection.execute("SELECT to_regnamespace($1)", (quoted(self._schema),)).fetchone() == (None,):
            made.append(definitions.make_schema(self._schema))
        position = self._settings.position_column
        made.append(definitions.make_table(self._schema, self._name, columns, position, lower=lower))
        return made

    def _missing(self) -> EntityMissing:
        hint = _EVENTS if self._settings.schema_changes == "apply" else "create it (docs/outputs/postgres.md)"
        return EntityMissing(f"the table {self._place} does not exist", hint=hint)


def _document(layout: Layout, rows: Sequence[RowState]) -> str:
    """The rows as one JSON document, as their messages have them where that is possible."""
    if layout.as_written and not any(row.merged for row in rows):
        return "[" + ",".join([row.put.text for row in rows if row.put is not None]) + "]"
    fields = tuple(zip(statements.field_names(layout), layout.names, strict=True))
    found = list[dict[str, Any]]()
    for row in rows:
        values = row.row()
        found.append({field: values[name] for field, name in fields})
    return orjson.dumps(found).decode()


def _deletion(key: tuple[str, ...], position: str, remember: bool) -> dict[str, object]:
    return {**{f"k{number}": value for number, value in enumerate(key)}, "p": position, "r": remember}


def _committed(connection: Timed) -> None:
    _refuse_rollback(connection.execute("COMMIT").statusmessage)


def _refuse_rollback(status: str | None) -> None:
    """A commit of a transaction that has failed ends it, and says so in its status alone."""
    if status != "COMMIT":
        raise psycopg.errors.InFailedSqlTransaction("the transaction was rolled back")


def _roll_back(connection: Timed) -> None:
    """Leaves the connection usable; one that is not is closed by the pool."""
    try:
        if not connection.closed and connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
            connection.execute("ROLLBACK")
    except psycopg.Error:
        connection.pgconn.finish()
