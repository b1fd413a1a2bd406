"""Changes as lines of the envelope "changes", each committed as soon as it is written, before another line may begin. Opens nothing.

For `dstream provider`. What a kill makes repeated is therefore one line, however many lines a page has. A line that was written and not
committed (the database was away) is committed when its table is read again: it is not repeated as long as the process lives, and a kill before
that repeats at most this one of its table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

import orjson

from common.bus.ports import OutOfTime, TimeLeft
from common.changes import change as element
from common.changes import envelope
from common.clock import SteadyClock, steady
from common.errors import DStreamError, TransientError
from common.message import Message
from common.names import Origin, TableName
from common.values.quick import quick
from ingester.change import OPERATION_NAMES, Change, Operation
from ingester.offsets import TakenOffsets
from ingester.position import Position
from ingester.slices import Expired
from ingester.task.encode import Encoder
from ingester.task.envelope import NativeEnvelope
from ingester.task.identity import Identity

_TURN_SECONDS = 30.0
"""How long the lines of one page may take before the slice ends between two of them, so that a slow reader gets all tables in turn."""
_OF_ROWS = (Operation.INSERT, Operation.UPDATE, Operation.DELETE)
"""What moves an offset by itself. An event may stand at the position of the change that follows it."""
_NO_QUEUE = ""
_OF_A_QUEUE = ("Destination", "IngestQueue")


class LineOutput(Protocol):
    """Where lines go; see ingester/stdio/output.py."""

    unsaved: dict[TableName, tuple[Position | None, Position]]

    def claim(self, table: TableName) -> object: ...

    def turn(self, table: TableName, token: object | None) -> AbstractContextManager[Callable[[bytes], None]]: ...


@quick(frozen=True, slots=True, kw_only=True)
class LineMessage(Message):
    """An element of a line. `position`: where its table's offset stands after it; None: it does not move the offset."""

    table: TableName
    position: Position | None


class LineEncoder(Encoder):
    """Makes elements of lines."""

    def __init__(self, origin: Origin) -> None:
        super().__init__(origin, _NO_QUEUE, "table")
        self._metadata_of = NativeEnvelope(origin, _NO_QUEUE).metadata

    def message(self, change: Change, identified: Identity | None = None) -> LineMessage:
        identified = identified or self._identity(change)
        body = element(
            table_name=_named(change.table),
            operation=OPERATION_NAMES[change.operation],
            data=self._data(change, identified),
            before=None if change.before is None else orjson.dumps(change.before),
            timestamp=change.commit_time,
            lsn=identified.lsn,
            event_id=identified.event_id,
        )
        moves = change.history is None and change.operation in _OF_ROWS
        return LineMessage(
            body=body,
            message_id=identified.event_id,
            table=change.table,
            position=change.position if moves else None,
        )

    def _data(self, change: Change, identified: Identity) -> bytes:
        """An event is about no row: its metadata stands there, as in a topic with this envelope, but for what is about a queue."""
        if change.operation >= 0:
            return orjson.dumps(change.data)
        metadata = self._metadata_of(change, identified)
        return orjson.dumps({key: value for key, value in metadata.items() if key not in _OF_A_QUEUE})


def _named(table: TableName) -> str:
    """As the original names a table, and the topics that have this envelope."""
    return f"{table.schema}.{table.table}"


@dataclass(slots=True)
class _Taken:
    """The table whose slice runs. `at`: its stored offset. `token`: what its lines are written with."""

    table: TableName
    epoch: int
    at: Position | None
    token: object
    until: float


class Lines:
    """Sender and offsets of one thread. `poll_interval`: of each table, as `metadata` has it. `longest`: bytes of a line, its end included."""

    def __init__(
        self,
        offsets: TakenOffsets,
        output: LineOutput,
        *,
        server_name: str,
        poll_interval: Callable[[TableName], str],
        longest: int,
        clock: SteadyClock = steady,
    ) -> None:
        self._offsets, self._output = offsets, output
        self._server_name, self._poll_interval = server_name, poll_interval
        self._longest = longest
        self._clock = clock
        self._taken: _Taken | None = None

    # offsets

    def load(self, table: TableName, epoch: int, source: str | None = None) -> Position | None:
        token = self._output.claim(table)
        at = self._offsets.load(table, epoch, source)
        self._taken = _Taken(table, epoch, at, token, self._clock() + _TURN_SECONDS)
        left = self._output.unsaved.get(table)
        if left is not None and left[0] == at:
            self._move(self._taken, left[1])
        self._output.unsaved.pop(table, None)
        return self._taken.at

    def commit(self, table: TableName, epoch: int, *, seen: Position | None, position: Position) -> None:
        """`seen` is where the page began. Lines have moved the offset since then."""
        taken = self._taken
        assert taken is not None
        if taken.at != position:
            self._move(taken, position)
        self._output.unsaved.pop(table, None)

    def _move(self, taken: _Taken, position: Position) -> None:
        self._offsets.commit(taken.table, taken.epoch, seen=taken.at, position=position)
        taken.at = position

    # sender

    def batch_bytes(self) -> int:
        return self._longest

    def send(self, messages: Sequence[Message], *, left: TimeLeft | None = None) -> None:
        """Raises OutOfTime when it ends between two lines, whatever the reason: what was written counts, and the next slice meets the reason
        again. That includes an offset that could not be moved: the commit that follows fails by itself, or succeeds. Before the first line it
        raises Expired when nothing more may be written, and TransientError for a slice that was given up.
        """
        rest = [message for message in messages if isinstance(message, LineMessage)]
        assert len(rest) == len(messages)
        written = 0
        while rest:
            line, rest = self._cut(rest)
            try:
                with self._output.turn(line[0].table, self._token(line)) as write:
                    if (left is not None and left() <= 0) or (written and self._late(line)):
                        raise OutOfTime("writing lines: the slice's time is over", accepted=range(written))
                    write(self._line(line))
                    saved = self._save(line)
            except (Expired, TransientError) as error:
                if not written or isinstance(error, OutOfTime):
                    raise
                raise OutOfTime(f"between two lines: {error.message}", accepted=range(written)) from error
            written += len(line)
            if not saved:
                raise OutOfTime("moving the offset after a line", accepted=range(written))

    def close(self) -> None:
        """Nothing is open: the output belongs to the process."""

    def _cut(self, messages: list[LineMessage]) -> tuple[list[LineMessage], list[LineMessage]]:
        """The changes of the next line, at least one, and the others."""
        table = messages[0].table
        size = len(self._line(messages[:1])) + 8  # the count may have more digits
        fitting = 1
        for message in messages[1:]:
            size += len(message.body) + 1
            if size > self._longest or message.table != table:
                break
            fitting += 1
        return messages[:fitting], messages[fitting:]

    def _line(self, messages: Sequence[LineMessage]) -> bytes:
        table = messages[0].table
        whole = envelope(
            table_name=_named(table),
            server_name=self._server_name,
            changes=[message.body for message in messages],
            poll_interval=self._poll_interval(table),
        )
        return whole + b"\n"

    def _token(self, line: Sequence[LineMessage]) -> object | None:
        return None if line[-1].position is None or self._taken is None else self._taken.token

    def _late(self, line: Sequence[LineMessage]) -> bool:
        return line[-1].position is not None and self._taken is not None and self._clock() >= self._taken.until

    def _save(self, line: Sequence[LineMessage]) -> bool:
        """Move the offset behind the line. Returns whether that is done."""
        taken, position = self._taken, line[-1].position
        if position is None or taken is None or taken.table != line[-1].table:
            return True
        try:
            self._move(taken, position)
        except DStreamError:
            self._output.unsaved[taken.table] = taken.at, position
            return False
        return True
