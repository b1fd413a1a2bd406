"""What an edit lets out that was hidden: masks, columns, filters and exclusions of two texts are compared. Pure.

Looks at the texts and not at the order, because an undo has none. Says no value: a mask may hold a salt.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from common.names import TableName
from common.table_selection import TableSelection
from desk.configuring.hcl.document import Inner, Setting

_ALL = "*"
"""Stands for the columns that are not named."""
_HIDDEN, _MASKED, _SENT = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Covers:
    """What the override of a table hides; nothing, if there is none."""

    masks: Mapping[str, Any]
    excluded: frozenset[str]
    chosen: frozenset[str] | None
    filter: Any
    skipped: frozenset[str]
    unchanged: bool

    @classmethod
    def of(cls, block: Inner | None) -> Covers:
        chosen = None if block is None else block.value_of("columns")
        return cls(
            _map(block, "mask"),
            _texts(block, "exclude_columns"),
            _texts(block, "columns") if chosen else None,
            None if block is None else block.value_of("filter"),
            _texts(block, "skip_operations"),
            block is not None and block.value_of("skip_unchanged") is True,
        )

    def named(self) -> set[str]:
        return {*self.masks, *self.excluded, *(self.chosen or ())}

    def state(self, column: str) -> int:
        if column in self.excluded or (self.chosen is not None and column not in self.chosen):
            return _HIDDEN
        return _MASKED if self.masks.get(column) else _SENT


def uncovered(table: str, old: Covers, new: Covers, written: Mapping[str, str]) -> Iterator[str]:
    """For a person, what of a table is sent from now on. `written`: columns as the texts have them."""
    for column in sorted(old.named() | new.named()):
        before, after = old.state(column), new.state(column)
        name = f"{written.get(column, column)} of {table}"
        if after == _SENT and before != _SENT:
            yield f"{name} is sent from now on"
        elif after == _MASKED and before == _HIDDEN:
            yield f"{name} is sent from now on, masked"
        elif after == before == _MASKED and old.masks[column] != new.masks[column]:
            yield f"{name} is masked in another way from now on"
    if old.state(_ALL) < new.state(_ALL):
        yield f"every column of {table} that its columns left out is sent from now on"
    if old.filter and old.filter != new.filter:
        passed = ", if the new one lets them pass" if new.filter else ""
        yield f"rows of {table} that its filter held back are sent from now on{passed}"
    for operation in sorted(old.skipped - new.skipped):
        yield f"changes of {table} of the kind {operation} are sent from now on"
    if old.unchanged and not new.unchanged:
        yield f"changes of {table} that change no column that is sent are sent from now on"


def uncovered_in(old: Mapping[TableName, Inner], new: Mapping[TableName, Inner], sent: TableSelection) -> Iterator[str]:
    """`old`, `new`: the overrides of both texts. `sent`: by the new text. Only of tables that are sent by it."""
    after = {each.key.lower(): block for each, block in new.items()}
    names = {each.key.lower() for each in sent.names}
    for table, block in old.items():
        if table.key.lower() in names or sent.finding(table) is not None:
            other = after.get(table.key.lower())
            written = {name.lower(): name for each in (other, block) if each is not None for name in _written(each)}
            yield from uncovered(table.key, Covers.of(block), Covers.of(other), written)


def _map(block: Inner | None, name: str) -> dict[str, Any]:
    if block is None:
        return {}
    entry = next((each for each in block.entries if each.name == name), None)
    if isinstance(entry, Inner):
        return {each.name.lower(): each.value for each in entry.entries if isinstance(each, Setting)}
    return {key.lower(): each for key, each in entry.value.items()} if entry and isinstance(entry.value, dict) else {}


def _texts(block: Inner | None, name: str) -> frozenset[str]:
    value = None if block is None else block.value_of(name)
    return (
        frozenset(each.lower() for each in value if isinstance(each, str)) if isinstance(value, list) else frozenset()
    )


def _written(block: Inner) -> Iterator[str]:
    for entry in block.entries:
        if isinstance(entry, Inner) and entry.name == "mask":
            yield from (each.name for each in entry.entries)
        elif isinstance(entry, Setting) and entry.name in ("mask", "columns", "exclude_columns"):
            yield from (each for each in entry.value or () if isinstance(each, str))
