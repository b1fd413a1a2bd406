"""A table's rows and its fence in memory, behind the ports of ingester/history."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from common.names import TableName
from ingester.history.rows import BaseTable, Row, RowKey, RowPage, RowPages, RowsQuery
from ingester.history.snapshot import ChunkId
from ingester.position import Position
from ingester.source import CaptureInstance


@dataclass
class FakeRows:
    """Rows with the key ID: `ids`, in order. `width`: bytes of the other column.

    `changed`: what `changed_since` answers, in turn; the last one again and again. `before_page`: called with the query of each page.
    `ordered`: whether it has a key.
    """

    ids: list[int] = field(default_factory=list)
    width: int = 1
    ordered: bool = True
    changed: list[frozenset[tuple[object, ...]] | None] = field(default_factory=lambda: [frozenset()])
    before_page: Callable[[RowsQuery], None] | None = None
    asked: list[RowsQuery] = field(default_factory=list)
    moments: list[str] = field(default_factory=list)
    passes: list[str] = field(default_factory=list)
    closed: int = 0

    def table(self, instance: CaptureInstance) -> BaseTable:
        return BaseTable(instance, ("ID",) if self.ordered else (), len(self.ids))

    def check(self, table: BaseTable, where: str) -> None:
        pass

    def bounds(self, query: RowsQuery, most: int) -> Sequence[RowKey]:
        found = self._found(query)
        return [row.at for row in found[query.rows - 1 : -1 : query.rows]][:most]

    def page(self, query: RowsQuery) -> RowPage:
        self.asked.append(query)
        if self.before_page is not None:
            self.before_page(query)
        rows = self._found(query)[: query.rows]
        return RowPage(
            rows, len(rows) == query.rows, ("Photo",), f"moment {len(self.asked)}", query.table.instance.columns
        )

    @contextmanager
    def in_one_pass(self, query: RowsQuery) -> Iterator[RowPages]:
        self.passes.append("begun")
        yield _Pass(self, query)
        self.passes.append("left")

    def changed_since(self, table: BaseTable, position: Position, moment: str) -> frozenset[tuple[object, ...]] | None:
        self.moments.append(moment)
        return self.changed[0] if len(self.changed) == 1 else self.changed.pop(0)

    def close(self) -> None:
        self.closed += 1

    def _found(self, query: RowsQuery) -> list[Row]:
        after = int(query.after[0]) if query.after else 0
        upto = int(query.upto[0]) if query.upto else max(self.ids, default=0)
        return [self.row(number) for number in self.ids if after < number <= upto]

    def row(self, number: int) -> Row:
        return Row((str(number),), {"ID": number, "Name": "x" * self.width}, (number,))


@dataclass
class _Pass:
    rows: FakeRows
    query: RowsQuery
    at: int = 0

    def next(self) -> RowPage:
        self.rows.asked.append(self.query)
        if self.rows.before_page is not None:
            self.rows.before_page(self.query)
        first, self.at = self.at, self.at + self.query.rows
        found = [Row((), {"Name": str(number)}) for number in self.rows.ids[first : self.at]]
        return RowPage(found, self.at < len(self.rows.ids), columns=self.query.table.instance.columns)


@dataclass
class FakeFence:
    """`held`: who held it, and for how long. `hold_takes`: what happens meanwhile; `fail`: raised from the time that it is set."""

    held: list[tuple[ChunkId, TableName, int, int, float]] = field(default_factory=list)
    hold_takes: Callable[[], None] | None = None
    fail: Exception | None = None

    def hold(self, chunk: ChunkId, table: TableName, epoch: int, *, round: int, seconds: float) -> None:
        if self.fail is not None:
            raise self.fail
        self.held.append((chunk, table, epoch, round, seconds))
        if self.hold_takes is not None:
            self.hold_takes()
