"""From the events of a request to the tokens of its answer: the grammar of MS-TDS 2.2.4 and 2.2.7.

The end of a statement is held back until it is known whether anything follows it, because DONE_MORE must say so. Inside an
RPC statements end with DONEINPROC, always with DONE_MORE (python-tds takes the answer for finished otherwise), and the
call ends with RETURNSTATUS, RETURNVALUE and DONEPROC. No I/O; the events may be lazy and are pulled one at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

from emulators.sqlserver.results import (
    DatabaseChanged,
    ErrorMessage,
    Event,
    Info,
    ResultSet,
    ReturnStatus,
    ReturnValue,
    RowCount,
    SqlError,
    StatementDone,
    TransactionChanged,
)
from emulators.sqlserver.wire import tokens
from emulators.sqlserver.wire.rows import row_encoder
from emulators.sqlserver.wire.rpc import Call
from emulators.sqlserver.wire.tokens import Command, Done, Environment, Status

_CHUNK_BYTES = 16384
_CHUNK_ROWS = 512
_FIRST_ROWS = 16
_FAILED = -6
"""What a call returns that ended in an error of severity 16."""

_KINDS = {"begin": Command.BEGIN, "commit": Command.COMMIT, "rollback": Command.ROLLBACK}


class Response:
    """The answer to one batch or one RPC.

    `in_transaction` is asked whenever a DONE is written (DONE_INXACT). `call` is given for an RPC only; `more`: another RPC
    of the same message follows.
    """

    def __init__(
        self,
        server: str,
        in_transaction: Callable[[], bool],
        *,
        call: Call | None = None,
        more: bool = False,
    ) -> None:
        self._server = server
        self._in_transaction = in_transaction
        self._call = call
        self._rpc = call is not None
        self._more = more
        self._held: tuple[Done, Status, Command, int] | None = None
        self._statement_failed = False
        self._in_rows = False
        self._command = Command.NONE
        self._status: int | None = None
        self._values: list[ReturnValue] = []

    def tokens(self, event: Event) -> Iterator[bytes]:
        """The tokens of one event, in chunks. Raises SqlError when a row does; what came before it was yielded."""
        if isinstance(event, Info):
            yield self._release() + tokens.info(event, self._server)
            return
        if isinstance(event, StatementDone):
            yield self._end(Status.FINAL, self._command)
            return
        yield self._close_failed()
        if isinstance(event, ResultSet):
            yield from self._result_set(event)
        elif isinstance(event, RowCount):
            yield self._end(Status.COUNT, Command.INSERT, event.count)
        elif isinstance(event, ErrorMessage):
            yield self._release() + tokens.error(event, self._server)
            self._statement_failed = True
        else:
            yield self._notice(event)

    def fail(self, error: SqlError) -> bytes:
        """The tokens of an error that ends the request; nothing but `finish` may follow."""
        out = self._close_failed() + self._release() + tokens.error(error, self._server)
        if self._rpc and not self._in_rows:
            self._statement_failed = True
            return out
        self._in_rows = False
        return out + self._end(Status.ERROR)

    def finish(self) -> bytes:
        """The last tokens of the answer."""
        if self._call is not None:
            return self._finish_call(self._call)
        out = self._close_failed()
        if self._held is None:
            self._end(Status.FINAL, self._command)
        return out + self._release(last=True)

    def cut_short(self) -> bytes:
        """The last tokens of an answer that ends in the middle: by an ATTENTION, whose acknowledgement is a message of its own, or
        because the session was killed."""
        return self._release() + tokens.done(Done.DONEPROC if self._rpc else Done.DONE, self._inxact(Status.ERROR))

    def _notice(self, event: Event) -> bytes:
        if isinstance(event, DatabaseChanged):
            changed = tokens.text_change(Environment.DATABASE, event.new, event.old)
            if event.collation != event.old_collation:
                changed += tokens.collation_change(event.collation, event.old_collation)
            return self._release() + changed
        if isinstance(event, TransactionChanged):
            self._command = _KINDS.get(event.kind, Command.NONE)
            return self._release() + tokens.transaction_change(event.kind, event.descriptor)
        if isinstance(event, ReturnValue):
            self._values.append(event)
            return b""
        if isinstance(event, ReturnStatus):
            return self._return_status(event.value)
        raise TypeError(f"no token is known for the event {type(event).__name__}")

    def _return_status(self, value: int) -> bytes:
        if self._rpc:
            self._status = value
            return b""
        out = self._release() + tokens.return_status(value)
        self._held = (Done.DONEPROC, Status.FINAL, Command.NONE, 0)
        return out

    def _result_set(self, result: ResultSet) -> Iterator[bytes]:
        encode = row_encoder(tuple(c.type for c in result.columns))
        yield self._release() + tokens.column_metadata(result.columns)
        self._in_rows = True
        rows = iter(result.rows)
        width = len(result.columns) + 1
        total, want = 0, _FIRST_ROWS
        while True:
            out: list[bytes] = []
            try:
                encode(islice(rows, want), out)
            except BaseException:
                yield b"".join(out)
                raise
            got = len(out) // width
            total += got
            chunk = b"".join(out)
            yield chunk
            if got < want:
                break
            want = max(1, min(_CHUNK_ROWS, want * _CHUNK_BYTES // (len(chunk) or 1)))
        self._in_rows = False
        yield self._end(Status.COUNT, Command.SELECT, total)

    def _end(self, status: Status, command: Command = Command.NONE, count: int = 0) -> bytes:
        """End a statement: let go of the end before it and hold this one back."""
        out = self._release()
        if self._statement_failed:
            status |= Status.ERROR
            self._statement_failed = False
        self._command = Command.NONE
        self._held = (Done.DONEINPROC if self._rpc else Done.DONE, status, command, count)
        return out

    def _close_failed(self) -> bytes:
        """A statement that ended in an error gets its DONE before the next thing is told."""
        return self._end(Status.FINAL) if self._statement_failed else b""

    def _release(self, *, last: bool = False) -> bytes:
        if self._held is None:
            return b""
        token, status, command, count = self._held
        self._held = None
        return tokens.done(token, self._inxact(status | (Status.FINAL if last else Status.MORE)), command, count)

    def _finish_call(self, call: Call) -> bytes:
        out = self._release()
        status = Status.ERROR if self._statement_failed else Status.FINAL
        out += tokens.return_status(self._status if self._status is not None else _FAILED if status else 0)
        for nth, value in enumerate(self._values):
            out += tokens.return_value(value, call.ordinal(value.name, nth))
        status |= Status.MORE if self._more else Status.FINAL
        return out + tokens.done(Done.DONEPROC, self._inxact(status))

    def _inxact(self, status: Status) -> Status:
        return status | Status.INXACT if self._in_transaction() else status
