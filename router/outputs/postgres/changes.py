"""Reads messages as what they do to a table: a change of a row, or an event about the table. Pure.

The ingester's own bytes are read by `router.outputs.rows.reading`, and the row's text is passed on as it stands, so that no digit is lost. Anything
that it does not take is read by `router.envelopes.native`, which says what is wrong.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Final

import orjson

from common.message import Message
from router.envelopes.native import read
from router.envelopes.port import NotNative
from router.outputs.postgres.position import Position, before, of_change, of_read
from router.outputs.rows.reading import quickly

DELETE, INSERT, UPDATE, READ, GAP, SCHEMA, BEGIN, END = 1, 2, 4, 0, -1, -2, -3, -4

_OF_ROWS: Final = (DELETE, INSERT, UPDATE, READ)
_KNOWN: Final = (*_OF_ROWS, GAP, SCHEMA, BEGIN, END)
_place: Final = re.compile(r"[0-9a-f]{20}").fullmatch
_unstorable: Final = re.compile(r"\\u(?:0000|[dD][89a-fA-F])").search
"""Perhaps text that PostgreSQL cannot hold: what stands for U+0000 or half a surrogate pair in JSON."""
as_text: Final = json.JSONDecoder(parse_int=str, parse_float=str).decode
"""Reads JSON; its numbers become text, digit for digit."""

Row = dict[str, Any]


@dataclass(slots=True)
class Change:
    """`at`: the message's place in what is sent. `text`: `data` as JSON; `row` and `before`: read, where numbers may have lost digits."""

    at: int
    body: bytes
    operation: int
    lsn: str
    position: Position
    text: str
    row: Row
    before: Row | None
    metadata: dict[str, Any]

    @property
    def of_row(self) -> bool:
        return self.operation in _OF_ROWS

    @property
    def ends_snapshot(self) -> bool:
        return self.operation == READ and bool((self.metadata.get("Snapshot") or {}).get("Last"))

    @property
    def origin(self) -> str:
        """The server and the database whose log its position is of."""
        return f"{self.metadata.get('Server')}.{self.metadata.get('Database')}".lower().replace("\0", "\ufffd")

    def exact(self) -> Row:
        """The row with numbers as text."""
        found: Row = as_text(self.text)
        return found

    def exact_before(self) -> Row:
        found: Row = as_text(read(self.body).before or "{}")
        return found


def change_of(message: Message, at: int, *, replace: bool) -> Change:
    """`replace`: put U+FFFD in place of what PostgreSQL cannot hold. Raises NotNative, Unstorable."""
    found = _fast(message.body, at) or _slow(message.body, at)
    _check(found.metadata, found.operation)
    _made_storable(found, replace=replace)
    return found


def _check(metadata: Row, operation: int) -> None:
    """Raises NotNative for parts of the metadata that are used here and are not as the ingester writes them."""
    if not isinstance(metadata.get("ChangedColumns") or [], list):
        raise NotNative("metadata.ChangedColumns is not a list of names")
    if operation != READ or (snapshot := metadata.get("Snapshot")) is None:
        return
    if not isinstance(snapshot, dict) or not isinstance(name := snapshot.get("Id"), str) or _held(name):
        raise NotNative("metadata.Snapshot is not as the ingester writes it")


class Unstorable(Exception):
    """`column`: whose text PostgreSQL cannot hold."""

    def __init__(self, column: str) -> None:
        super().__init__(column)
        self.column = column


def _fast(body: bytes, at: int) -> Change | None:
    """None for what it does not understand."""
    found = quickly(body)
    if found is None:
        return None
    metadata = found.metadata
    try:
        operation, lsn, seqval, command = (metadata[name] for name in ("OperationID", "LSN", "SeqVal", "CommandID"))
        if type(operation) is not int or type(command) is not int or not (_place(lsn) and _place(seqval)):
            return None
        position = _position(operation, lsn, command, seqval)
    except (ValueError, KeyError, TypeError, NotNative):
        return None
    return Change(at, body, operation, lsn, position, found.text, found.row, found.before, metadata)


def _slow(body: bytes, at: int) -> Change:
    native = read(body)
    position = _position(native.operation_id, native.lsn, native.command_id, native.seqval)
    return Change(
        at,
        body,
        native.operation_id,
        native.lsn,
        position,
        native.data,
        as_text(native.data),
        None if native.before is None else as_text(native.before),
        native.metadata,
    )


def _position(operation: int, lsn: str, command: int, seqval: str) -> Position:
    if operation not in _KNOWN:
        raise NotNative(f"metadata.OperationID is {operation}, which is not known here")
    if operation == READ:
        return of_read(lsn)
    if operation < 0:
        return before(lsn)
    try:
        return of_change(lsn, command, seqval, operation)
    except ValueError as error:
        raise NotNative(str(error)) from error


def _made_storable(change: Change, *, replace: bool) -> None:
    if _unstorable(change.text) is not None and (row := _storable(change.exact(), replace=replace)) is not None:
        change.text, change.row = orjson.dumps(row).decode(), row
    if change.before is not None:
        change.before = _storable(change.before, replace=replace) or change.before


def _storable(row: Row, *, replace: bool) -> Row | None:
    """The row with other text where some cannot be held; None where all can."""
    if (name := next((name for name in row if _held(name)), None)) is not None:
        raise Unstorable(ascii(name))  # no column has that name
    found = {name: _repaired(value) for name, value in row.items() if isinstance(value, str)}
    other = {name: value for name, value in found.items() if value != row[name]}
    if not other:
        return None
    if not replace:
        raise Unstorable(next(iter(other)))
    return {**row, **other}


def _repaired(text: str) -> str:
    return "".join("\ufffd" if c == "\0" or "\ud800" <= c <= "\udfff" else c for c in text) if _held(text) else text


def _held(text: str) -> bool:
    """Whether it has something that cannot be held."""
    if "\0" in text:
        return True
    if text.isascii():
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False
