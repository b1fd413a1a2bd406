"""Debezium's envelope, as the SQL Server connector 3.x writes it with JsonConverter and `schemas.enable=false`.

The structures are those of io.debezium.data.Envelope, io.debezium.connector.sqlserver.SourceInfo and io.debezium.pipeline.txmetadata. What is
not about a row never looks like one: it is a message event (`op` is `m`), as logical decoding messages are with other connectors. Every
difference to the connector is in docs/envelopes.md.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from json.encoder import encode_basestring as quoted
from typing import Any, Final

from common.changes import spelled
from common.message import Message
from router.envelopes.native import Native, read
from router.envelopes.port import NotNative
from router.envelopes.tombstones import tombstone

VERSION: Final = "dstream"
"""`source.version`: who wrote the event. Debezium's own number would be untrue, and DStream's would change the bytes with each release."""

_ROWS: Final = {"Insert": "c", "Update": "u", "Delete": "d", "Read": "r"}
_TRANSACTIONS: Final = {"Begin": "BEGIN", "End": "END"}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)

_TABLES = 4_096
"""Tables whose part of the source block is remembered."""


class Debezium:
    """`tombstones`: a message without a body follows each delete."""

    def __init__(self, *, tombstones: bool = False) -> None:
        self._tombstones = tombstones

    def converted(self, message: Message) -> Sequence[Message]:
        native = read(message.body)
        if native.operation in _TRANSACTIONS:
            body = _border(native)
        elif native.operation in _ROWS:
            body = _row(native)
        else:
            body = _event(native, message.body)
        made = replace(message, body=body.encode())
        if self._tombstones and native.operation == "Delete":
            return made, tombstone(message)
        return (made,)


def _row(native: Native) -> str:
    """The image after an insert, an update or a read; before a delete, and before an update if it is known."""
    before, after = (native.data, None) if native.operation == "Delete" else (native.before, native.data)
    return (
        f'{{"before":{before or "null"},"after":{after or "null"},"source":{_source(native)},'
        f'"transaction":{_transaction(native)},"op":"{_ROWS[native.operation]}",{_times(native)}}}'
    )


def _event(native: Native, body: bytes) -> str:
    """About no row: the native body, in the form of a message event. It has neither `before` nor `after`."""
    content = base64.b64encode(body).decode()
    return (
        f'{{"op":"m",{_times(native)},"source":{_source(native)},'
        f'"message":{{"prefix":{quoted(f"dstream.{native.operation}")},"content":"{content}"}}}}'
    )


def _source(native: Native) -> str:
    """With `event_serial_no` 2 for an update, whose images are two rows of the change table."""
    begin, names = _of_table(native.server, native.database, native.schema, native.table)
    times = _moments(native.commit_time)
    if native.operation_id > 0:
        snapshot, change_lsn, serial = "false", f'"{spelled(native.seqval)}"', 2 if native.operation == "Update" else 1
    else:
        snapshot, change_lsn, serial = "incremental" if native.operation == "Read" else "false", "null", None
    return (
        f'{begin},"ts_ms":{times[0]},"snapshot":"{snapshot}","db":{quoted(native.database)},"sequence":null,'
        f'"ts_us":{times[1]},"ts_ns":{times[2]},{names},"change_lsn":{change_lsn},"commit_lsn":"{spelled(native.lsn)}",'
        f'"event_serial_no":{"null" if serial is None else serial}}}'
    )


@lru_cache(_TABLES)
def _of_table(server: str, database: str, schema: str, table: str) -> tuple[str, str]:
    begin = f'{{"version":"{VERSION}","connector":"sqlserver","name":{quoted(server)}'
    return begin, f'"schema":{quoted(schema)},"table":{quoted(table)}'


def _times(native: Native) -> str:
    """When the connector handled the event is unknown here, and would differ with each sending: the commit's time stands for it."""
    milliseconds, microseconds, nanoseconds = _moments(native.commit_time)
    return f'"ts_ms":{milliseconds},"ts_us":{microseconds},"ts_ns":{nanoseconds}'


@lru_cache(256)
def _moments(commit_time: str | None) -> tuple[str, str, str]:
    """Milliseconds, microseconds and nanoseconds since 1970, as JSON. Raises NotNative."""
    if commit_time is None:
        return "null", "null", "null"
    try:
        at = datetime.fromisoformat(commit_time)
        microseconds = ((at if at.tzinfo else at.replace(tzinfo=UTC)) - _EPOCH) // _MICROSECOND
    except (ValueError, OverflowError) as error:
        raise NotNative(f"metadata.CommitTime is not a time: {error}") from error
    return str(microseconds // 1000), str(microseconds), str(microseconds * 1000)


def _transaction(native: Native) -> str:
    """The change's place in its transaction, where the ingester sends it (`transactions = true`). Its place among all tables is not known."""
    if (found := native.metadata.get("Transaction")) is None:
        return "null"
    return f'{{"id":{quoted(_id(found))},"total_order":null,"data_collection_order":{_count(found, "TableOrder")}}}'


def _border(native: Native) -> str:
    """The begin or the end of a transaction, as on Debezium's topic of transaction metadata."""
    found = native.metadata.get("Transaction")
    status, total, tables = _TRANSACTIONS[native.operation], "null", "null"
    if status == "END":
        total, tables = _count(found, "EventCount"), _collections(native.database, found)
    return (
        f'{{"status":"{status}","id":{quoted(_id(found))},"event_count":{total},"data_collections":{tables},'
        f'"ts_ms":{_moments(native.commit_time)[0]}}}'
    )


def _collections(database: str, transaction: Any) -> str:
    counts = transaction.get("Tables")
    if not isinstance(counts, list) or not all(
        isinstance(each, dict) and isinstance(each.get("Table"), str) for each in counts
    ):
        raise NotNative("metadata.Transaction.Tables is missing or does not name tables")
    found = [
        f'{{"data_collection":{quoted(database + "." + each["Table"])},"event_count":{_count(each, "Count")}}}'
        for each in counts
    ]
    return f"[{','.join(found)}]"


def _id(transaction: Any) -> str:
    """The commit LSN in Debezium's form."""
    found = transaction.get("Id") if isinstance(transaction, dict) else None
    if not isinstance(found, str) or not found:
        raise NotNative("metadata.Transaction.Id is missing or is not text")
    return spelled(found)


def _count(held: Any, key: str) -> str:
    found = held.get(key) if isinstance(held, dict) else None
    if type(found) is not int:
        raise NotNative(f"metadata.Transaction: {key} is missing or is not a whole number")
    return str(found)
