"""What a table's messages hold beside its changes, made into changes so that it goes their way: rows that a snapshot read, and gaps. Pure.

Each has an identity that is the same whenever it is sent: duplicate detection and consumers depend on it.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, field
from typing import NamedTuple

from common.message import ColumnSent, History
from ingester.change import Change, Operation
from ingester.history.rows import RowKey, RowPage
from ingester.history.snapshot import Chunk
from ingester.position import Place, Position
from ingester.schema.store import KeptSchema
from ingester.schema.version import SchemaColumn
from ingester.shape.versions import version_of
from ingester.slices import Slice
from ingester.source import CaptureInstance


@dataclass(frozen=True, order=True, slots=True)
class EventPlace:
    """The position of what is no change: at an LSN, before all changes of its transaction. `words`: for people."""

    identity: str
    lsn: str
    seqval: str
    words: str

    def place(self) -> Place:
        return self.identity, self.lsn, 0, self.seqval

    def __str__(self) -> str:
        return self.words


@dataclass(frozen=True, order=True, slots=True)
class ReadBy:
    """What the positions of all rows of a chunk have in common. `id_key`: see RowChanges."""

    snapshot: str
    lsn: str
    seqval: str
    words: str
    id_key: bytes = field(default=b"", repr=False)


class RowPlace(NamedTuple):
    """The position of a row that was read: where the table's stream stood. `row`: what distinguishes it in its snapshot."""

    row: RowKey
    read: ReadBy

    def place(self) -> Place:
        read = self.read
        return f"{read.snapshot}-{_digest(self.row, read.id_key)}", read.lsn, 0, read.seqval

    def __str__(self) -> str:
        return self.read.words


class RowChanges:
    """Makes the changes of a chunk's rows. `start`: where the table's stream stands. `id_key`: what the hash of a row's key in its id is keyed
    with; empty for rows whose key is sent as it is."""

    def __init__(self, chunk: Chunk, start: Position, id_key: bytes = b"") -> None:
        _, lsn, _, seqval = start.place()
        words = f"{start} (read by snapshot {chunk.snapshot})"
        self._read = ReadBy(chunk.snapshot, lsn, "0" * len(seqval), words, id_key)
        self._chunk, self._attempt = chunk, str(chunk.attempt)
        self._history = of_snapshot(chunk, last=False)
        self._rows = 0

    def of(self, page: RowPage) -> list[Change]:
        """The changes of a page's rows, in order. Pages come in order: a row without a key is identified by its number in the attempt."""
        chunk, read, history, unavailable = self._chunk, self._read, self._history, page.unavailable
        table, instance, topic, ordered = (
            chunk.table.instance.table,
            chunk.table.instance.name,
            chunk.topic,
            self._chunk.table.order,
        )
        version = version_of(page.columns)
        first, self._rows = self._rows + 1, self._rows + len(page.rows)
        return [
            Change(
                table,
                instance,
                RowPlace(row.at if ordered else (self._attempt, str(number)), read),
                Operation.READ,
                row.data,
                unavailable=unavailable,
                key=row.key,
                history=history,
                topic=topic,
                schema_version=version,
            )
            for number, row in enumerate(page.rows, first)
        ]


def of_snapshot(chunk: Chunk, *, last: bool) -> History:
    """What the metadata of a chunk's row says. `last`: nothing of the snapshot follows."""
    return {"Snapshot": {"Id": chunk.snapshot, "Chunk": chunk.number, "Last": last}}


def gap_event(todo: Slice) -> Change:
    """The event about the changes that were lost between the start and the end of `todo`."""
    _, left, _, seqval = todo.start.place()
    _, lsn, _, _ = todo.upto.place()
    at = EventPlace(f"gap-{left}-{lsn}", lsn, "0" * len(seqval), f"{todo.upto} (a gap after {todo.start})")
    history: History = {"Gap": {"From": left, "To": lsn}}
    version, table = version_of(todo.instance.columns, todo.shape), todo.instance.table
    return Change(table, todo.instance.name, at, Operation.GAP, {}, history=history, schema_version=version)


def schema_event(
    instance: CaptureInstance, schema: KeptSchema, previous: str, before: Position, *, snapshot: str | None = None
) -> Change:
    """The event that tells of `schema` before the change at `before`, the first one with its columns. `previous`: the version until then; the
    same where nothing was different. `snapshot`: whose rows it is told for, although it was told before."""
    _, lsn, _, seqval = before.place()
    name = f"schema-{schema.number}-{schema.version}" + ("" if snapshot is None else f"-{snapshot}")
    at = EventPlace(name, lsn, "0" * len(seqval), f"{before} (other columns from here on)")
    columns = [_column(one) for one in schema.columns]
    history: History = {"SchemaChange": {"Version": schema.version, "Previous": previous, "Columns": columns}}
    return Change(
        *(instance.table, instance.name, at, Operation.SCHEMA, {}),
        history=history,
        schema_version=schema.version,
    )


def _column(one: SchemaColumn) -> ColumnSent:
    found: ColumnSent = {"Name": one.name, "Type": one.type}
    if one.key is not None:
        found["Key"] = one.key
    return found


def _digest(row: RowKey, key: bytes) -> str:
    """Of the texts with their lengths, so that no two keys have the same one; 128 bits are enough for any table."""
    text = "".join([f"{len(part)}:{part}" for part in row]).encode("utf-8", "surrogatepass")
    digest = hmac.digest(key, text, "sha256").hex() if key else hashlib.sha256(text).hexdigest()
    return digest[:32]
