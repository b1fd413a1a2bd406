"""Messages as operations of a `_bulk` request. Pure.

Of several changes of one row in a chunk only the newest is written: a document is the whole row, so it holds what those before it did. So
there is one operation for each document, and the order inside a request means nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from json.encoder import encode_basestring as quoted
from typing import Literal, NamedTuple

from common.errors import EntityUnavailable
from common.message import Message
from common.names import TableName
from router.envelopes.port import NotNative
from router.outputs.elasticsearch.documents import mark_document, row_document
from router.outputs.elasticsearch.ids import LIMIT, id_of
from router.outputs.elasticsearch.versions import Versioned, version_of
from router.outputs.rows.change import Event, RowChange, read_change
from router.outputs.rows.keys import Keys, NoSuchColumn
from router.outputs.rows.position import Position


class Operation(NamedTuple):
    """What to do with one document. `at`: the place of its message in the chunk.

    `position`: None for a document that is written once and never changes. `document`: None to delete.
    """

    id: str
    at: int
    position: Position | None
    document: str | None

    @property
    def deletes(self) -> bool:
        return self.document is None

    def lines(self, versioned: Versioned | None = None) -> bytes:
        """Its lines in a request. `versioned`: instead of the version of its position."""
        head = f'"_id":{quoted(self.id)}'
        if self.position is not None:
            version, kind_of_version = versioned or Versioned(version_of(self.position))
            head += f',"version":{version},"version_type":"{kind_of_version}"'
        kind = "delete" if self.deletes else "create" if self.position is None else "index"
        document = "" if self.document is None else f"{self.document}\n"
        return f'{{"{kind}":{{{head}}}}}\n{document}'.encode()


@dataclass
class Chunk:
    """`operations`: one for each id. `of`: for each message, the ids that must be right before it is accepted. `unwritable`: messages that cannot
    be applied, each with the reason. `events`: messages that are about no row. `hidden`: updates that may have changed their key unseen. All three
    by the message's place."""

    operations: dict[str, Operation] = field(default_factory=dict)
    of: list[tuple[str, ...]] = field(default_factory=list)
    unwritable: dict[int, str] = field(default_factory=dict)
    events: dict[int, Event] = field(default_factory=dict)
    hidden: dict[int, RowChange] = field(default_factory=dict)
    _older: dict[str, list[Operation]] = field(default_factory=dict)

    def add(self, operation: Operation) -> str:
        there = self.operations.get(operation.id)
        if there is None or _newer(operation, there):
            self.operations[operation.id] = operation
            operation, there = there or operation, operation
        if operation is not there:
            self._older.setdefault(operation.id, []).append(operation)
        return there.id

    def without(self, operation: Operation) -> Operation | None:
        """The next older one of its document, which now takes its place; None when there is none. `operation` stays known then."""
        older = self._older.get(operation.id)
        if not older:
            return None
        newest = max(older, key=lambda each: (each.position is not None, each.position or (), each.at))
        older.remove(newest)
        self.operations[operation.id] = newest
        return newest


def _newer(one: Operation, there: Operation) -> bool:
    return one.position is not None and (there.position is None or one.position >= there.position)


Deletes = Literal["remove", "mark"]
Maker = Callable[[Sequence[Message]], Chunk]


def rows_chunk(messages: Sequence[Message], keys: Keys, deletes: Deletes) -> Chunk:
    """Raises EntityUnavailable when the settings name no key for a table, or a column that it does not have."""
    chunk, columns = Chunk(), dict[TableName, Sequence[str]]()
    for at, message in enumerate(messages):
        try:
            change = read_change(message.body)
        except NotNative as error:
            chunk.unwritable[at] = f"cannot be applied to a row: {error}"
            chunk.of.append(())
            continue
        if isinstance(change, Event):
            chunk.events[at] = change
            chunk.of.append(())
        else:
            key = columns.get(change.table)
            if key is None:
                key = columns[change.table] = _key_of(change, keys)
            chunk.of.append(_of_row(chunk, at, change, key, deletes))
    return chunk


def _of_row(chunk: Chunk, at: int, change: RowChange, key: Sequence[str], deletes: Deletes) -> tuple[str, ...]:
    try:
        present, former = change.key(key), change.former_key(key)
    except NoSuchColumn as error:
        raise EntityUnavailable(
            f"applying a change of {change.table}: {error}",
            hint="correct the columns of this table in the setting keys",
        ) from error
    if change.hides_former_key(key):
        chunk.hidden[at] = change
    gone = None
    if former is not None:
        mark = mark_document(change, key, former) if deletes == "mark" else None
        gone = chunk.add(Operation(id_of(former), at, change.position, mark))
    document: str | None = row_document(change)
    if change.deletes:
        document = mark_document(change, key, present) if deletes == "mark" else None
    written = chunk.add(Operation(id_of(present), at, change.position, document))
    return (written,) if gone is None else (gone, written)


def _key_of(change: RowChange, keys: Keys) -> Sequence[str]:
    found = keys.of(change.table)
    if found is None:
        raise EntityUnavailable(
            f"applying a change of {change.table}: the setting keys does not say which columns identify its rows",
            hint=f'add keys = {{ "{change.table}" = ["COLUMN"] }} to the output, with the columns of its primary key; or, for a table without one, '
            'use mode = "append"',
        )
    return found


def appended_chunk(messages: Sequence[Message]) -> Chunk:
    """Each message as a document of its own, under its id."""
    chunk = Chunk()
    for at, message in enumerate(messages):
        fault, document = _appended(message)
        if document is None:
            chunk.unwritable[at] = fault
            chunk.of.append(())
        else:
            chunk.of.append((chunk.add(Operation(str(message.message_id), at, None, document)),))
    return chunk


def _appended(message: Message) -> tuple[str, str | None]:
    """Why it cannot be a document, or the document in one line."""
    if not message.message_id or len(message.message_id.encode("utf-8", "replace")) > LIMIT:
        return f"has no message id of 1 to {LIMIT} bytes, which its document would have as its id", None
    try:
        text = message.body.decode()
        if not isinstance(json.loads(text, parse_int=str, parse_float=str), dict):
            return "is not a JSON object", None
    except (ValueError, RecursionError) as error:
        return f"is not a JSON object: {type(error).__name__}", None
    return "", text.replace("\r", " ").replace("\n", " ")
