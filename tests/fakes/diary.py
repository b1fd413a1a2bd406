"""A source that is no database: diaries, whose places are entries counted from 1. Shows what the core may know of a source, and what not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from common.names import Ordering, TableName
from ingester.change import Change, Operation
from ingester.position import Place, Position
from ingester.source import CaptureInstance, Page, PageQuery, Probe, ProbeAnswer, ProbeRequest, Stride, TableState


@dataclass(frozen=True, order=True)
class Entry:
    """The place of an entry; 0 is before the first."""

    number: int

    def place(self) -> Place:
        return f"entry-{self.number}", f"day {self.number}", 0, ""

    def __str__(self) -> str:
        return f"entry {self.number}"


def number(position: Position) -> int:
    assert isinstance(position, Entry)
    return position.number


class DiaryHints:
    """As the port says."""

    locked = capture_holds = "wait for the pen"

    def absence(self, table: TableName, state: TableState) -> str | None:
        return None if state.exists else f"{table.key} keeps no diary; give it one"

    def capture_again(self, instance: CaptureInstance) -> str:
        return f"begin another volume after {instance.name}"

    def drop(self, instance: CaptureInstance) -> str:
        return f"burn {instance.name}"

    def first_start(self, table: TableName) -> str:
        return f"take the bookmark out of {table.key}"


@dataclass
class DiarySource:
    """`entries`: how many each diary has. `kept_from`: the first entry that is still legible."""

    entries: dict[TableName, int] = field(default_factory=dict)
    kept_from: int = 1
    hints = DiaryHints()

    def states(
        self, tables: Sequence[TableName], sources: Mapping[TableName, str] | None = None
    ) -> Mapping[TableName, TableState]:
        return {table: self._state(table) for table in tables}

    def _state(self, table: TableName) -> TableState:
        volume = CaptureInstance(f"diary of {table.table}", table, Entry(0), (), source=table.table)
        return TableState(True, (volume,)) if table in self.entries else TableState(False)

    def passed(self, position: Position, moment: str) -> bool:
        return True

    def probe(self, requests: Sequence[ProbeRequest]) -> Probe:
        answers = {request.instance.name: self._answer(request) for request in requests}
        return Probe(Entry(max(self.entries.values())), answers)

    def _answer(self, request: ProbeRequest) -> ProbeAnswer:
        after = number(request.after or Entry(0))
        return ProbeAnswer(Entry(self.kept_from - 1), self.entries[request.instance.table] > after)

    def page(self, query: PageQuery) -> Page:
        table, first = query.instance.table, max(number(query.after) + 1, self.kept_from)
        last = min(self.entries[table], number(query.upto), first + query.rows - 1)
        changes = [
            Change(table, query.instance.name, Entry(at), Operation.INSERT, {"Text": f"dear diary {at}"})
            for at in range(first, last + 1)
        ]
        end = changes[-1].position if changes else None
        return Page(changes, end, len(changes) == query.rows, Entry(self.kept_from - 1))

    def shared_by(self, instance: CaptureInstance, ordering: Ordering) -> tuple[str, ...]:
        return ()

    def stride(self, instance: CaptureInstance, *, after: Position, upto: Position, rows: int) -> Stride | None:
        raise AssertionError("a diary is read by one")

    def close(self) -> None:
        pass
