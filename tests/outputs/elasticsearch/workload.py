"""A table that changes at random, and its changes as the ingester writes them."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Any, Final

from common.message import Message

KEY: Final = ("Order", "Line")
Row = Mapping[str, Any]


class Workload:
    """A table with a key of two columns, whose rows are inserted, updated, moved to other keys and deleted, several times in a transaction.
    Its columns change now and then."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.rows: dict[tuple[Any, ...], dict[str, Any]] = {}
        self.lsn, self.columns = 0x40_00000100_0001, ["Text"]
        self.numbers = itertools.count(1)

    def transaction(self) -> list[Message]:
        """Its changes, as the ingester writes them."""
        self.lsn += self.random.choice([0x10000, 0x10000, 0x30000, 0x900000])
        if self.random.random() < 0.02:
            self.columns.append(f"C{len(self.columns)}")
        made = list[Message]()
        for command in range(1, self.random.choice([1, 2, 5, 12]) + 1):
            made += self._statement(command)
        return made

    def _statement(self, command: int) -> Iterator[Message]:
        kind, key = self.random.random(), (self.random.choice(["A", "B", None]), self.random.randint(1, 12))
        row = {"Order": key[0], "Line": key[1]} | {name: self._value() for name in self.columns}
        there = self.rows.get(key)
        if there is None:
            self.rows[key] = row
            yield self._change(command, 2, "Insert", row)
        elif kind < 0.35:
            del self.rows[key]
            yield self._change(command, 1, "Delete", there)
            if kind < 0.12:  # removed and inserted by one transaction
                self.rows[key] = row
                yield self._change(command, 2, "Insert", row)
        elif kind < 0.5 and (other := (key[0], key[1] + 20)) not in self.rows:
            moved = {**there, "Line": other[1]}
            self.rows[other] = moved
            del self.rows[key]
            yield self._change(command, 4, "Update", moved, before=there, changed=["Line"])
        else:
            self.rows[key] = row
            yield self._change(command, 4, "Update", row, before=there, changed=self.columns)

    def _value(self) -> object:
        return self.random.choice([next(self.numbers), None, f"é{next(self.numbers)}", "6.3230", 1.5, "a\u0000b"])

    def _change(
        self,
        command: int,
        operation: int,
        name: str,
        row: Row,
        *,
        before: Row | None = None,
        changed: Sequence[str] = (),
    ) -> Message:
        lsn, seqval = f"{self.lsn:020x}", f"{self.lsn - 1:020x}"
        event_id = f"shop.dbo.Lines:{lsn}-{command}-{seqval}-{operation}"
        metadata = {
            "Server": "server",
            "Database": "shop",
            "Schema": "dbo",
            "TableName": "Lines",
            "EventID": event_id,
            "OperationType": name,
            "OperationID": operation,
            "LSN": lsn,
            "SeqVal": seqval,
            "CommandID": command,
            "CommitTime": None,
            "ChangedColumns": list(changed),
        }
        body = {"data": row, "metadata": metadata} | ({} if before is None else {"before": before})
        return Message(json.dumps(body, ensure_ascii=False).encode(), event_id, session_id="lines")


def rows_of(work: Workload) -> list[str]:
    return sorted(json.dumps(row, sort_keys=True) for row in work.rows.values())
