"""Messages of one table as the ingester writes them, in the order in which a log has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from common.message import Message
from common.names import TableName
from router.outputs.port import Stream
from tests.outputs.contract.world import ORIGIN
from tests.outputs.postgres.world import settings

NAMES = {1: "Delete", 2: "Insert", 4: "Update", 0: "Read", -1: "Gap", -2: "Schema", -3: "Begin", -4: "End"}
_made = 0


def stream(name: str | None = None, **more: Any) -> Stream:
    """Of a table whose name no other test has."""
    global _made
    _made += 1
    table = TableName("dbo", name or f"Things{_made}")
    return Stream(ORIGIN.topic(table), table, settings(1, **more).place(ORIGIN, ORIGIN.topic(table), table))


class Feed:
    """`lsn`: of the transaction at hand; each call of `commit` begins another one."""

    def __init__(self, to: Stream) -> None:
        self.stream = to
        self.lsn = 16
        self._number = 0

    def commit(self) -> Feed:
        self.lsn += 1
        return self

    def insert(self, row: Mapping[str, Any], **more: Any) -> Message:
        return self._change(2, row, **more)

    def update(self, row: Mapping[str, Any], before: Mapping[str, Any] | None = None, **more: Any) -> Message:
        return self._change(4, row, before=before, **more)

    def delete(self, row: Mapping[str, Any], **more: Any) -> Message:
        return self._change(1, row, **more)

    def read(
        self, row: Mapping[str, Any], *, lsn: int | None = None, snapshot: str = "a1", last: bool = False
    ) -> Message:
        found = {"Snapshot": {"Id": snapshot, "Chunk": 1, "Last": last}}
        return self.message(0, row, lsn=self.lsn if lsn is None else lsn, metadata=found)

    def gap(self, lsn: int) -> Message:
        return self.message(-1, {}, lsn=lsn, metadata={"Gap": {"From": f"{1:020x}", "To": f"{lsn:020x}"}})

    def schema(self, columns: Sequence[tuple[str, str, int | None]]) -> Message:
        sent = [{"Name": name, "Type": type_, **({"Key": key} if key else {})} for name, type_, key in columns]
        return self.message(-2, {}, lsn=self.lsn, metadata={"SchemaChange": {"Version": "x", "Columns": sent}})

    def _change(self, operation: int, row: Mapping[str, Any], *, lsn: int | None = None, **more: Any) -> Message:
        self.lsn += lsn is None
        return self.message(operation, row, lsn=self.lsn if lsn is None else lsn, **more)

    def message(
        self,
        operation: int,
        row: Mapping[str, Any] | bytes,
        *,
        lsn: int,
        before: Mapping[str, Any] | None = None,
        changed: Sequence[str] = (),
        metadata: Mapping[str, Any] | None = None,
    ) -> Message:
        self._number += 1
        table = self.stream.table
        assert table is not None
        found = {
            "CommandID": 1 if operation > 0 else 0,
            "CommitTime": None,
            "Database": "shop",
            "Destination": self.stream.topic,
            "EventID": f"shop.{table}:{self._number}",
            "LSN": f"{lsn:020x}",
            "OperationID": operation,
            "OperationType": NAMES[operation],
            "Schema": table.schema,
            "SchemaVersion": "ac89c386a7eb",
            "SeqVal": f"{self._number if operation > 0 else 0:020x}",
            "Server": "server",
            "TableName": table.table,
            **({"ChangedColumns": list(changed)} if changed else {}),
            **(metadata or {}),
        }
        body: dict[str, Any] = {"data": orjson.Fragment(row) if isinstance(row, bytes) else row, "metadata": found}
        if before is not None:
            body["before"] = before
        return Message(orjson.dumps(body), found["EventID"], session_id=self.stream.topic)
