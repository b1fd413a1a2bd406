"""Changes as rows of a Parquet file. The only module that knows pyarrow.

While its file is open, a message is a line: a JSON array of what its columns need beside the body, and the body as its bytes are. The columns are
the same in every file and with every envelope. The values of the row are JSON text: the messages do not have the types of columns, and types
that are guessed would differ from file to file (docs/decisions/0036-files.md).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any, BinaryIO, Final

import pyarrow as pa
import pyarrow.parquet as pq

from common.message import Message, Property
from router.envelopes.native import read
from router.envelopes.port import NotNative
from router.outputs.file.store import Conversion
from router.outputs.lines import document

_ROWS, _BYTES = 20_000, 16 << 20
"""Of a row group, and so of what is held in memory."""

SCHEMA: Final = pa.schema(
    [
        pa.field("id", pa.string()),
        pa.field("session", pa.string()),
        pa.field("database", pa.string()),
        pa.field("schema", pa.string()),
        pa.field("table", pa.string()),
        pa.field("operation", pa.string()),
        pa.field("lsn", pa.string()),
        pa.field("command_id", pa.int64()),
        pa.field("seqval", pa.string()),
        pa.field("operation_id", pa.int32()),
        pa.field("commit_time", pa.timestamp("ms", tz="UTC")),
        pa.field("schema_version", pa.string()),
        pa.field("data", pa.string()),
        pa.field("before", pa.string()),
        pa.field("metadata", pa.string()),
        pa.field("body", pa.string()),
    ]
)
"""`body`: of a message in another envelope than DStream's own, which then has neither `data`, `before` nor `metadata`."""

_HELD = (Property.DATABASE, Property.SCHEMA, Property.TABLE, Property.OPERATION, Property.LSN, Property.SCHEMA_VERSION)
_INTEGERS = range(-(1 << 31), 1 << 31)
_LONG = range(-(1 << 63), 1 << 63)

_beside = json.JSONDecoder().raw_decode


def staged_line(message: Message) -> bytes:
    """With its line end. Raises NotALine."""
    held = {name: value for name in _HELD if isinstance(value := message.application_properties.get(name), str)}
    beside = {"id": message.message_id, "session": message.session_id} | held
    return b"[" + json.dumps(beside, separators=(",", ":")).encode() + b"," + document(message.body) + b"]\n"


def conversion(compression: str) -> Conversion:
    """`compression`: as Parquet names it, or `none`."""
    return partial(_convert, compression=compression)


def _convert(lines: BinaryIO, file: BinaryIO, *, compression: str) -> None:
    """Raises ValueError for lines that `staged_line` did not write."""
    with pq.ParquetWriter(file, SCHEMA, compression=compression) as writer:
        for rows in _groups(lines):
            writer.write_table(pa.Table.from_pylist(rows, schema=SCHEMA))


def _groups(lines: BinaryIO) -> Iterator[list[dict[str, Any]]]:
    rows: list[dict[str, Any]] = []
    size = 0
    for line in lines:
        rows.append(_row(line.decode()))
        size += len(line)
        if len(rows) >= _ROWS or size >= _BYTES:
            yield rows
            rows, size = [], 0
    if rows:
        yield rows


def _row(line: str) -> dict[str, Any]:
    beside: Any
    beside, end = _beside(line, 1)
    if not isinstance(beside, dict) or line[:1] != "[" or line[end : end + 1] != "," or not line.endswith("]\n"):
        raise ValueError("a line of an open file was changed by another program")
    return {**{name: _text(value) for name, value in beside.items()}, **_of_body(line[end + 1 : -2])}


def _of_body(body: str) -> Mapping[str, Any]:
    """The columns of a body in DStream's own envelope; or the body itself."""
    try:
        native = read(body.encode())
    except NotNative:
        return {"body": None if body == "null" else body}
    return {
        "lsn": native.lsn,
        "command_id": native.command_id if native.command_id in _LONG else None,
        "seqval": native.seqval,
        "operation_id": native.operation_id if native.operation_id in _INTEGERS else None,
        "commit_time": _moment(native.commit_time),
        "data": native.data,
        "before": native.before,
        "metadata": native.described,
    }


def _moment(text: str | None) -> datetime | None:
    """None also for a text that is no time; `metadata` has it."""
    try:
        found = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _text(value: Any) -> str | None:
    """As Parquet can have it: a lone surrogate, which is not Unicode, is escaped."""
    return None if value is None else str(value).encode("utf-8", "backslashreplace").decode()
