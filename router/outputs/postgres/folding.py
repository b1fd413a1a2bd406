"""What a run of changes leaves of each row: the last state by position, so that one statement writes each row once. Pure.

Within the run the rule is that of the table: an older change never overwrites a newer. A row that was deleted and came back has none of the values
that it had before. Keys are compared as text: two spellings of one key are two keys here, and the server says so when they meet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from router.outputs.postgres.changes import DELETE, UPDATE, Change, Row
from router.outputs.postgres.position import Position
from router.outputs.postgres.table import Layout

Key = tuple[str, ...]
LayoutOf = Callable[[tuple[str, ...]], Layout]


@dataclass(slots=True)
class RowState:
    """`deleted`: where the row was deleted last. `put`: its last values; `merged`: those of several messages, where the last has not all of them."""

    position: Position = ""
    deleted: Position | None = None
    put: Change | None = None
    layout: Layout | None = None
    merged: Row | None = None

    def delete(self, position: Position) -> None:
        if position >= self.position:
            self.position, self.deleted = position, position
            self.put = self.layout = self.merged = None

    def write(self, change: Change, layout: Layout, layout_of: LayoutOf) -> None:
        if change.position < self.position:
            return
        self.position = change.position
        if self.put is not None and self.layout is not None and not set(layout.names) >= set(self.layout.names):
            self.merged = {**(self.merged or self.put.exact()), **change.exact()}
            layout = layout_of(tuple(self.merged))
        else:
            self.merged = None
        self.put, self.layout = change, layout

    def row(self) -> Row:
        """Its values, with numbers as text."""
        assert self.put is not None
        return self.put.exact() if self.merged is None else self.merged


@dataclass(slots=True)
class Folded:
    """`doubtful`: updates that wrote a column of the key, whose row before is not known."""

    rows: dict[Key, RowState] = field(default_factory=dict)
    doubtful: int = 0

    def deleted(self) -> list[tuple[Key, Position, bool]]:
        """Keys whose row must be removed, and whether that must be remembered: a row that is written behind it has a position itself."""
        return [(key, row.deleted, row.put is None) for key, row in self.rows.items() if row.deleted is not None]

    def written(self) -> Mapping[Layout, list[RowState]]:
        found: dict[Layout, list[RowState]] = {}
        for row in self.rows.values():
            if row.put is not None and row.layout is not None:
                found.setdefault(row.layout, []).append(row)
        return found


def folded(changes: Iterable[Change], layout_of: LayoutOf) -> Folded:
    found = Folded()
    for change in changes:
        layout = layout_of(tuple(change.row))
        names = layout.key
        key = _key(change.row, names, change.exact)
        state = found.rows.setdefault(key, RowState())
        if change.operation == DELETE:
            state.delete(change.position)
            continue
        if change.operation == UPDATE:
            found.doubtful += _leave_old_key(found, change, names, key)
        state.write(change, layout, layout_of)
    return found


def _leave_old_key(found: Folded, change: Change, names: tuple[str, ...], key: Key) -> bool:
    """An update that moved its row from another key deletes that one. Whether it may have moved it, and nothing says from where."""
    if change.before is None:
        return any(name in names for name in change.metadata.get("ChangedColumns") or ())
    if all(name in change.before for name in names):
        old = _key(change.before, names, change.exact_before)
        if old != key:
            found.rows.setdefault(old, RowState()).delete(change.position)
    return False


def _key(row: Row, names: tuple[str, ...], exact: Callable[[], Row]) -> Key:
    values = [row[name] for name in names]
    if any(type(value) is float for value in values):
        again = exact()
        values = [again[name] for name in names]
    return tuple(_text(value) for value in values)


def _text(value: Any) -> str:
    if type(value) is str:
        return value
    return ("true" if value else "false") if type(value) is bool else str(value)
