"""What an edit lets out that was hidden: masks, columns, filters and exclusions of two texts are compared, those for all tables included. Pure.

Looks at the texts and not at the order, because an undo has none. Says no value: a mask may hold a salt.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from common.names import TableName
from common.table_selection import TableSelection
from desk.configuring.hcl.document import Inner, Setting

_ALL = "*"
"""Stands for the columns that are not named."""
_HIDDEN, _MASKED, _SENT = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Covering:
    """What a text has of it. `shape`: of all tables."""

    shape: Inner | None
    overrides: Mapping[TableName, Inner]


@dataclass(frozen=True, slots=True)
class Covers:
    """What the override of a table and the block `shape` hide together; nothing, if there is neither."""

    masks: Mapping[str, Any]
    excluded: frozenset[str]
    chosen: frozenset[str] | None
    filter: Any
    skipped: frozenset[str]
    unchanged: bool
    failed: bool

    @classmethod
    def of(cls, shape: Inner | None, own: Inner | None) -> Covers:
        """As `ingester.shape.settings.shape_of` reads them."""
        listed, usual = _texts(own, "columns"), _texts(shape, "columns")
        expression = _own(shape, own, "filter")
        return cls(
            {**_map(shape, "mask"), **_map(own, "mask")},
            (_texts(shape, "exclude_columns") - listed) | _texts(own, "exclude_columns"),
            listed or usual or None,
            None if isinstance(expression, str) and expression.strip() == "true" else expression,
            _texts(own if _value(own, "skip_operations") is not None else shape, "skip_operations"),
            _own(shape, own, "skip_unchanged") is True,
            _own(shape, own, "on_filter_error") == "dead_letter",
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
    if old.filter and new.failed and not old.failed:
        yield f"changes of {table} on which its filter fails are dead-lettered from now on, and can be read there"


def uncovered_in(old: Covering, new: Covering, sent: TableSelection) -> Iterator[str]:
    """`sent`: by the new text. Only of tables that are sent by it."""
    names = {each.key.lower() for each in sent.names}
    before, after = ({each.key.lower(): block for each, block in of.overrides.items()} for of in (old, new))
    shapes = [each for each in (new.shape, old.shape) if each is not None]
    for table in dict.fromkeys((*old.overrides, *new.overrides)):
        key = table.key.lower()
        if (key in names or sent.finding(table) is not None) and not _alike(old, new, before.get(key), after.get(key)):
            blocks = [each for each in (after.get(key), before.get(key), *shapes) if each is not None]
            held, holds = Covers.of(old.shape, before.get(key)), Covers.of(new.shape, after.get(key))
            yield from uncovered(table.key, held, holds, _spelled(blocks))
    if old.shape is not new.shape:
        held, holds = Covers.of(old.shape, None), Covers.of(new.shape, None)
        yield from uncovered("the other tables", held, holds, _spelled(shapes))


def _alike(old: Covering, new: Covering, one: Inner | None, other: Inner | None) -> bool:
    """Of nearly all tables nothing changed, and there may be thousands."""
    return _equal(one, other) and _equal(old.shape, new.shape)


def _equal(one: Inner | None, other: Inner | None) -> bool:
    return one is other if one is None or other is None else one.same(other)


def _spelled(blocks: Iterable[Inner]) -> dict[str, str]:
    """As the first of them has each name."""
    found = dict[str, str]()
    for name in (name for each in blocks for name in _written(each)):
        found.setdefault(name.lower(), name)
    return found


def _value(block: Inner | None, name: str) -> Any:
    return None if block is None else block.value_of(name)


def _own(shape: Inner | None, own: Inner | None, name: str) -> Any:
    value = _value(own, name)
    return _value(shape, name) if value is None else value


def _map(block: Inner | None, name: str) -> dict[str, Any]:
    if block is None:
        return {}
    entry = next((each for each in block.entries if each.name == name), None)
    if isinstance(entry, Inner):
        return {each.name.lower(): each.value for each in entry.entries if isinstance(each, Setting)}
    return {key.lower(): each for key, each in entry.value.items()} if entry and isinstance(entry.value, dict) else {}


def _texts(block: Inner | None, name: str) -> frozenset[str]:
    value = _value(block, name)
    return (
        frozenset(each.lower() for each in value if isinstance(each, str)) if isinstance(value, list) else frozenset()
    )


def _written(block: Inner) -> Iterator[str]:
    for entry in block.entries:
        if isinstance(entry, Inner) and entry.name == "mask":
            yield from (each.name for each in entry.entries)
        elif isinstance(entry, Setting) and entry.name in ("mask", "columns", "exclude_columns"):
            yield from (each for each in entry.value or () if isinstance(each, str))
