"""The promises of `ingester/schema/store.py` in a dictionary."""

from __future__ import annotations

from dataclasses import dataclass, field

from common.errors import LeaseLost, TransientError
from common.names import TableName
from ingester.schema.store import KeptSchema


@dataclass
class FakeSchemas:
    """`newest`: the epoch of the table's owner. `fail`: raised by the next `keep`, before anything is kept; `unanswered`: after it was kept."""

    kept: dict[TableName, list[KeptSchema]] = field(default_factory=dict)
    newest: int = 0
    fail: Exception | None = None
    unanswered: Exception | None = None
    asked: int = 0

    def latest(self, table: TableName) -> KeptSchema | None:
        self.asked += 1
        known = self.kept.get(table)
        return known[-1] if known else None

    def keep(self, table: TableName, epoch: int, schema: KeptSchema) -> None:
        if self.fail is not None:
            error, self.fail = self.fail, None
            raise error
        if epoch < self.newest:
            raise LeaseLost("a newer owner")
        known = self.kept.setdefault(table, [])
        if schema.number <= len(known):
            if known[schema.number - 1].version != schema.version:
                raise TransientError("another version was kept meanwhile")
        else:
            known.append(schema)
        if self.unanswered is not None:
            error, self.unanswered = self.unanswered, None
            raise error
