"""Single changes, looked for in SQL Server's change tables: by position, and by key. Reads only, in short statements, within bounds that are told.

Knows nothing of shapes and messages: it hands out changes as they were read.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from common.errors import ConfigurationError, PermanentError
from common.names import TableName
from ingester.change import Change, Operation
from ingester.operating.finding import Moved, TableLook
from ingester.operating.offset_desk import Move, OffsetDesk
from ingester.source import CapturedColumn, CaptureInstance, PageQuery, Source
from ingester.sqlserver.change_table import ChangeTable, change_table
from ingester.sqlserver.connection import Connection
from ingester.sqlserver.position import LogPosition, Lsn, in_the_log, in_words
from ingester.sqlserver.sql import changes as queries_of_changes
from ingester.sqlserver.sql import finding as queries
from ingester.sqlserver.sql.newer import sorted_key
from ingester.sqlserver.times import CommitTimes
from ingester.window import choose_instance, source_of

WINDOW = 20_000
"""Rows that one statement reads."""
MOST_ROWS = 1_000_000
SECONDS = 4.0
"""How long a search by key may take."""
_MOVES = 50

ColumnsOf = Callable[[CaptureInstance], tuple[str, ...] | None]

_PLACE = re.compile(r"([0-9a-f]{20})-(\d{1,10})-([0-9a-f]{20})-(\d)")
_LSN_IN_WORDS = re.compile(r"LSN 0x([0-9a-f]{20})")
_END = LogPosition.end_of(Lsn(b"\xff" * 10))


@dataclass(frozen=True, slots=True)
class Positions:
    """Of a row's changes, the newest first, with what each is read from. As `Found`."""

    found: Sequence[tuple[ChangeTable, LogPosition]]
    rows: int
    back_to: str | None


def position_of_place(place: str) -> LogPosition | None:
    """The position of a change from the end of its event id; None for that of something else."""
    found = _PLACE.fullmatch(place)
    if found is None or int(found[4]) not in (Operation.DELETE, Operation.INSERT, Operation.UPDATE):
        return None
    return LogPosition(Lsn(bytes.fromhex(found[1])), int(found[2]), bytes.fromhex(found[3]), int(found[4]))


class SqlServerFinder:
    """Needs SELECT on schema cdc and on dbo.cdc_offsets, as `dstream status` does."""

    def __init__(
        self, connection: Connection, source: Source, desk: OffsetDesk, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._connection = connection
        self._source = source
        self._desk = desk
        self._clock = clock
        self._times = CommitTimes(connection)

    def look(self, table: TableName) -> tuple[TableLook, Sequence[CaptureInstance]]:
        """The instances: empty if the table cannot be read."""
        stored = self._desk.stored().get(table.key)
        state = self._source.states([table])[table]
        offset = None if stored is None else stored.position
        words = None if offset is None else in_words(offset)
        updated = None if stored is None else stored.updated
        if (absence := self._source.hints.absence(table, state)) is not None:
            return TableLook(table, absence, offset=offset, offset_words=words, updated=updated), ()
        newest = change_table(state.instances[-1])
        return TableLook(
            table,
            low=min(instance.start for instance in state.instances),
            captured=self._desk.captured(),
            offset=offset,
            offset_words=words,
            updated=updated,
            dropped=stored is not None and stored.source not in (None, "", source_of(state.instances)),
            keys=[column.name for column in sorted_key(newest)],
        ), state.instances

    def read(
        self, instances: Sequence[CaptureInstance], position: LogPosition, columns: ColumnsOf
    ) -> tuple[CaptureInstance, Change] | None:
        """The change at a position, as the ingester would read it, before images included. `columns`: which of an instance; None: all."""
        if not instances:
            return None
        instance, _ = choose_instance(instances, LogPosition.before(position.lsn))
        # An update's before image comes before its after image, and is read with it.
        earlier = LogPosition(position.lsn, position.command_id, position.seqval, min(position.operation - 1, 2))
        upto = LogPosition.end_of(position.lsn)
        query = PageQuery(instance, earlier, upto, 1, columns=columns(instance), before_images=True)
        found = next(iter(self._source.page(query).changes), None)
        return (instance, found) if found is not None and found.position == position else None

    def of_key(self, instances: Sequence[CaptureInstance], key: Mapping[str, str], most: int) -> Positions:
        """From the newest capture instance, and below its start from the older one. Raises ConfigurationError."""
        found, rows, upper, ends = list[tuple[ChangeTable, LogPosition]](), 0, _END, self._clock() + SECONDS
        for each in reversed(instances):
            instance = change_table(each)
            asked = self._key(instance, key)
            while True:
                started = self._connection.rows(*queries.window_start(instance, upper, WINDOW))
                if not started:
                    break
                positions = self._connection.rows(*queries.of_key(instance, asked, upper, WINDOW))
                found += [(instance, _position(*row)) for row in positions]
                first = _position(*started[0][:4])
                rows += started[0][4]
                upper = LogPosition(first.lsn, first.command_id, first.seqval, first.operation - 1)
                if len(found) > most or rows >= MOST_ROWS or self._clock() >= ends:
                    return Positions(found[: most + 1], rows, first.lsn.hex)
                if started[0][4] < WINDOW:
                    break
            upper = LogPosition.before(in_the_log(each.start).lsn)
        return Positions(found, rows, None)

    def _key(self, instance: ChangeTable, key: Mapping[str, str]) -> list[tuple[CapturedColumn, str]]:
        columns, given = sorted_key(instance), {name.casefold(): text for name, text in key.items()}
        if not columns:
            raise ConfigurationError(
                [f"table {instance.table.key}: it has no key in {instance.name}, so its rows cannot be told apart"],
                hint="look for the change by its EventID",
            )
        names = [column.name for column in columns]
        if {name.casefold() for name in names} != set(given) or len(given) != len(key):
            raise ConfigurationError([f"key: the columns of the key of {instance.table.key} are {', '.join(names)}"])
        asked = [(column, given[column.name.casefold()]) for column in columns]
        for column, text in asked:
            check = queries.fits(column, text)
            # SQL Server takes an empty text for 0, and for the first day of 1900.
            if check is not None and not (text.strip() and self._connection.rows(*check)[0][0]):
                raise ConfigurationError(
                    [f"key: the text for {column.name} is no value of type {column.declared or column.type}"]
                )
        return asked

    def moved_over(self, table: TableName, position: LogPosition) -> Moved | None:
        """By the LSNs of the moves; None where they may not be seen."""
        try:
            moves = self._desk.moves(table, _MOVES)
        except PermanentError:
            return None
        return next((Moved(m.begun, m.to, m.at, m.login) for m in moves if _skips(m, position.lsn.hex)), None)

    def commit_time(self, position: LogPosition) -> str | None:
        rows = self._connection.rows(queries_of_changes.COMMITTED, (position.lsn.value,))
        return None if not rows or rows[0][0] is None else self._times.utc([rows[0][0]])[rows[0][0]]

    def close(self) -> None:
        self._connection.close()


def _position(lsn: bytes, command: int, seqval: bytes, operation: int) -> LogPosition:
    return LogPosition(Lsn(bytes(lsn)), command, bytes(seqval), operation)


def _skips(move: Move, lsn: str) -> bool:
    """Whether it goes from before the whole transaction to behind it. A move without a beginning was the first offset."""
    begun, to = None if move.begun is None else _lsn_in(move.begun), _lsn_in(move.to)
    if to is None or (move.begun is not None and begun is None):
        return False
    begins = move.begun is None or begun is None or begun < lsn or (begun == lsn and move.begun.startswith("before"))
    return begins and (lsn < to or (lsn == to and move.to == f"after LSN 0x{to}"))


def _lsn_in(words: str) -> str | None:
    found = _LSN_IN_WORDS.search(words)
    return None if found is None else found[1]
