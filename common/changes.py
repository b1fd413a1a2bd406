"""The envelope "changes": several changes of one table in one JSON object. Pure, and the same bytes for the same changes.

`dstream provider` writes one a line (docs/provider.md), and a topic can have it with one change. It never reads values: rows are JSON that is
already written, and pass through as they are.
"""

from __future__ import annotations

import json
from collections.abc import Sequence


def change(
    *,
    table_name: str,
    operation: str,
    data: bytes,
    timestamp: str | None,
    lsn: str,
    event_id: str,
    before: bytes | None = None,
) -> bytes:
    """One element of `changes`. `operation`: as `OperationType` has it. `data`, `before`: JSON objects. `lsn`: 20 hexadecimal digits."""
    head = {"table_name": table_name, "change_type": operation.lower()}
    tail = {"timestamp": timestamp, "lsn": spelled(lsn), "event_id": event_id}
    row = b',"data":' + data + (b"" if before is None else b',"before":' + before)
    return _json(head)[:-1] + row + b"," + _json(tail)[1:]


def envelope(*, table_name: str, server_name: str, changes: Sequence[bytes], poll_interval: str | None) -> bytes:
    """All of it, without a line's end. `changes`: made by `change`. `poll_interval`: null where nobody polls."""
    head = _json({"table_name": table_name, "server_name": server_name})[:-1]
    metadata = _json({"batch_size": len(changes), "poll_interval": poll_interval})
    return head + b',"changes":[' + b",".join(changes) + b'],"metadata":' + metadata + b"}"


def spelled(lsn: str) -> str:
    """`00000036:00000b20:0003`, as SQL Server's own tools write it, of 20 hexadecimal digits."""
    return f"{lsn[:8]}:{lsn[8:16]}:{lsn[16:]}"


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
