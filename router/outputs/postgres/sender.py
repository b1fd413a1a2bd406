"""Applies the messages of one stream to one table. A chunk is one transaction; accepted means committed.

When the answer to a commit is lost the chunk is sent again, which changes nothing: the guard by position keeps what is there. What this module
refuses to do: write a row without the guard, or go on behind a change that the table does not take.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import psycopg
import structlog

from common.bus.ports import MessageRefused, MessageUnwritable, OutOfTime, SendInterrupted, TimeLeft, for_ever
from common.errors import EntityUnavailable, Throttled, TransientError
from common.message import Message
from common.names import TRANSACTIONS
from router.envelopes.port import NotNative
from router.outputs.port import Stream
from router.outputs.postgres.changes import GAP, SCHEMA, Change, Unstorable, change_of
from router.outputs.postgres.connections import Connections, Timed
from router.outputs.postgres.errors import TableChanged, Unfit, about_data, table_changed, translated
from router.outputs.postgres.settings import PostgresSettings
from router.outputs.postgres.target import Target

_T = TypeVar("_T")

BATCH_BYTES = 1 << 20
"""Of a chunk: a transaction of a few thousand rows."""

_UNFIT = (
    "change the column or the constraint so that it takes the value, and it goes on by itself; or set on_unfit = "
    '"dead_letter" to leave such changes out of the table'
)
_UNSTORABLE = 'set unstorable_text = "replace" to store U+FFFD in its place'
_FOREIGN = "only messages of DStream's ingester can be applied as rows"

log = structlog.get_logger(__name__)


class PostgresSender:
    """A `common.bus.ports.OpenableSender`. Between two sends it holds nothing but what it knows of the table."""

    def __init__(self, stream: Stream, settings: PostgresSettings, connections: Connections) -> None:
        self._stream = stream
        self._settings = settings
        self._connections = connections
        self._target = Target(stream.destination, settings)
        self._doing = f"applying changes to {stream.destination}"
        self._warned = False

    def __repr__(self) -> str:
        return f"<PostgresSender to {self._stream.destination} at {self._settings.where}>"

    def open(self) -> None:
        """A table that a schema event creates later need not be there yet."""
        if self._stream.table != TRANSACTIONS:
            self._in_time(for_ever, lambda connection: self._target.look(connection))

    def batch_bytes(self) -> int:
        return BATCH_BYTES

    def close(self) -> None:
        """The connections are the output's. What is known of the table is looked up again, since a person may have changed it."""
        self._target.forget()

    def send(self, messages: Sequence[Message], *, left: TimeLeft | None = None) -> None:
        sending = _Sending(self, messages, left or for_ever)
        try:
            sending.all()
        except (MessageRefused, OutOfTime, EntityUnavailable):
            raise
        except TransientError as error:
            if sending.left() <= 0:
                raise sending.out_of_time() from error
            throttled = isinstance(error, Throttled)
            raise SendInterrupted(
                error.message, hint=error.hint, accepted=sending.accepted, throttled=throttled
            ) from error

    def _in_time(self, left: TimeLeft, work: Callable[[Timed], _T]) -> _T:
        """What `work` returns, with a connection that is closed when the time is up. Raises Unfit, TableChanged and DStreamError.

        TableChanged is raised only where what is known of the table was not looked up for this call.
        """
        known = self._target.known
        seconds = min(self._settings.timeout.total_seconds(), left())
        try:
            with self._connections.one(time.monotonic() + seconds) as connection:
                return work(connection)
        except psycopg.Error as error:
            if (unfit := about_data(error)) is not None:
                raise unfit from error
            if table_changed(error) and known:
                raise TableChanged(error) from error
            raise translated(error, self._doing, self._stream.destination, self._settings.user) from error

    def _applied(self, changes: Sequence[Change], left: TimeLeft) -> None:
        """In one transaction. Raises Unfit and DStreamError."""
        try:
            doubtful = self._in_time(left, lambda connection: self._target.apply(connection, changes))
        except TableChanged:
            self._target.forget()
            doubtful = self._in_time(left, lambda connection: self._target.apply(connection, changes))
        if doubtful and not self._warned:
            self._warned = True
            log.warning(
                "key changed without the row before",
                table=self._stream.destination,
                updates=doubtful,
                effect="a row whose key has changed stays under its old key as well",
                hint="set ingester.before_images = true",
            )


class _Sending:
    """One call of `send`."""

    def __init__(self, sender: PostgresSender, messages: Sequence[Message], left: TimeLeft) -> None:
        self._sender = sender
        self._messages = messages
        self.left = left
        self.accepted: set[int] = set()
        self._held: list[Change] = []

    def all(self) -> None:
        replace = self._sender._settings.unstorable_text == "replace"
        for at, message in enumerate(self._messages):
            try:
                self._take(change_of(message, at, replace=replace))
            except (NotNative, Unstorable) as error:
                self._flush()
                raise self._unwritable(at, error) from error
        self._flush()

    def _take(self, change: Change) -> None:
        if change.of_row:
            self._held.append(change)
            if not change.ends_snapshot:
                return
        self._flush()
        if change.operation == GAP:
            self._call(lambda connection: self._sender._target.gap(connection, change.lsn))
        elif change.operation == SCHEMA:
            self._call(lambda connection: self._sender._target.schema(connection, change.metadata))
        self.accepted.add(change.at)

    def _flush(self) -> None:
        """Apply what is held, and sweep if that made a snapshot whole: only then the last of it is accepted."""
        changes, self._held = self._held, []
        if changes:
            self._apply(changes)

    def _apply(self, changes: Sequence[Change]) -> None:
        if self.left() <= 0:
            raise self.out_of_time()
        try:
            self._sender._applied(changes, self.left)
        except Unfit as error:
            if len(changes) == 1:
                raise self._verdict(changes[0], error) from error.__cause__
            middle = len(changes) // 2
            self._apply(changes[:middle])
            self._apply(changes[middle:])
            return
        if changes[-1].ends_snapshot:
            self._sweep()
        self.accepted.update(change.at for change in changes)

    def _call(self, work: Callable[[Timed], Any]) -> None:
        if self.left() <= 0:
            raise self.out_of_time()
        try:
            self._sender._in_time(self.left, work)
        except Unfit as error:
            raise EntityUnavailable(f"{self._sender._doing}: {error.words}") from error.__cause__
        except TableChanged as error:
            self._sender._target.forget()
            raise TransientError(f"{self._sender._doing}: the table has changed meanwhile") from error.error
        self._sweep()

    def _sweep(self) -> None:
        """Page by page, each its own transaction: a sweep may take longer than a send."""
        target = self._sender._target
        while True:
            if self.left() <= 0:
                raise self.out_of_time()
            if self._sender._in_time(self.left, target.sweep):
                return

    def _verdict(self, change: Change, error: Unfit) -> Exception:
        message = self._messages[change.at]
        words = f"is not taken by the table: {error.words}"
        if self._sender._settings.on_unfit == "dead_letter":
            place = self._sender._stream.destination
            return MessageRefused(place, message, words, at=change.at, accepted=self.accepted, hint=_UNFIT)
        return EntityUnavailable(f"{self._sender._doing}: message {message.message_id} {words}", hint=_UNFIT)

    def _unwritable(self, at: int, error: NotNative | Unstorable) -> MessageUnwritable:
        if isinstance(error, Unstorable):
            words, hint = f"has text in the column {error.column} that PostgreSQL cannot hold", _UNSTORABLE
            words += " (U+0000, or half a surrogate pair)"
        else:
            words, hint = f"cannot be applied: {error}", _FOREIGN
        place, message = self._sender._stream.destination, self._messages[at]
        return MessageUnwritable(place, message, words, at=at, accepted=self.accepted, hint=hint)

    def out_of_time(self) -> OutOfTime:
        return OutOfTime(f"{self._sender._doing}: nothing more may be sent", accepted=self.accepted)
