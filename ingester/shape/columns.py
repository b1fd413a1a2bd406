"""Which columns of a capture instance are sent, and how each is masked: a shape's names matched with the captured columns. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches

from common.errors import PermanentError
from ingester.shape.mask import Mask, MaskKind
from ingester.shape.table_shape import AS_CAPTURED, TableShape
from ingester.source import CapturedColumn, CaptureInstance

TEXT_TYPES = frozenset({"char", "varchar", "nchar", "nvarchar", "sysname", "text", "ntext"})
"""Types whose values are text of any characters."""

HINT = (
    "correct the shape of the table in the configuration: a running ingester takes it over at once, without a restart; "
    "a provider needs a start with the corrected one"
)


class ShapeRefused(PermanentError):
    """The shape does not fit the table's columns, or cannot be used."""

    def __init__(self, message: str, *, hint: str = HINT) -> None:
        super().__init__(message, hint=hint)


@dataclass(frozen=True, slots=True)
class SentColumn:
    """A captured column that is sent. `mask`: how its values are masked; None: as captured."""

    column: CapturedColumn
    mask: Mask | None = None

    @property
    def masked(self) -> MaskKind | None:
        """`hash` and `redact` make text of any type. `null` makes NULL of every value, `truncate` shorter text."""
        return None if self.mask is None else self.mask.kind


def sent_columns(shape: TableShape, columns: Sequence[CapturedColumn]) -> tuple[SentColumn, ...]:
    """The columns that are sent of a capture instance's `columns`, in their order. Raises ShapeRefused."""
    if shape is AS_CAPTURED:
        return tuple(SentColumn(column) for column in columns)
    names = _Names(columns, shape.shared)
    listed = None if shape.columns is None else names.listed(shape.columns)
    excluded = names.all(shape.excluded, "exclude_columns")
    masks = {at: mask for name, mask in shape.masks for at in names.all([name], "mask")}
    found = []
    for column in columns:
        if column.name in excluded or (listed is not None and column.name not in listed):
            _refuse_left_out_key(column, listed=listed is not None)
            continue
        mask = masks.get(column.name)
        if mask is not None:
            _refuse_mask(column, mask.kind)
        found.append(SentColumn(column, mask))
    if not found:
        raise ShapeRefused("no column is left to send")
    return tuple(found)


def fitted(shape: TableShape, instance: CaptureInstance) -> TableShape:
    """`shape` for what `instance` captured: it may lack the columns that came later, which a newer instance has or will have. So they can be
    named before their first value is sent."""
    if not instance.added:
        return shape
    later = {name.casefold() for name in instance.added}
    named = (*(shape.columns or ()), *shape.excluded, *(name for name, _ in shape.masks))
    return replace(shape, shared=shape.shared.union(name for name in named if name.casefold() in later))


def refuse_uncovered(shape: TableShape, older: Iterable[CaptureInstance], newer: CaptureInstance) -> None:
    """Raise ShapeRefused if a name that hides a column of `older` finds none in `newer`, which has another column instead that is sent as it is.

    A column that was renamed, or made again under another name, would else be sent in clear because all tables' defaults may name columns that
    a table lacks. A list of the columns that are sent names each of them, so there it is meant.
    """
    if shape.columns is not None:
        return
    hiding = {name.casefold(): name for name in (*shape.excluded, *(name for name, _ in shape.masks))}
    own = set(_folded(newer.columns))
    for instance in older:
        known = set(_folded(instance.columns))
        lost = [name for folded, name in hiding.items() if folded in known - own]
        sent = sent_columns(fitted(shape, newer), newer.columns) if lost else ()
        shown = [one.column.name for one in sent if one.mask is None and one.column.name.casefold() not in known]
        if shown:
            raise ShapeRefused(
                f"the shape of {newer.table.key}: what hides {', '.join(lost)} of {instance.name} finds no column in {newer.name}, which "
                f"captures {', '.join(shown)} besides: that may be the same under another name, and would be sent as it is",
                hint="mask or exclude the new column, or list the columns that may be sent in the table's own columns: a running ingester "
                "takes the configuration over at once",
            )


SLIPS = (
    "correct the names in ingester.shape, whose columns may be sent in clear; nothing, if a table with them comes later"
)
"""What to do about `uncaptured` names."""


def uncaptured(shapes: Iterable[TableShape], instances: Iterable[CaptureInstance]) -> tuple[str, ...]:
    """The names in the defaults of all tables that no table has a column for."""
    named = {name.casefold(): name for shape in shapes for name in shape.shared}
    for instance in instances if named else ():
        for folded in (*_folded(instance.columns), *(name.casefold() for name in instance.added)):
            named.pop(folded, None)
    return tuple(sorted(named.values()))


def with_nearest(names: Iterable[str], instances: Iterable[CaptureInstance]) -> tuple[str, ...]:
    """Each of `names` with the captured column that it may stand for."""
    captured = list(dict.fromkeys(column.name for instance in instances for column in instance.columns))
    return tuple(f"{name}{_nearest(name, captured)}" for name in names)


def _folded(columns: Iterable[CapturedColumn]) -> Iterator[str]:
    return (column.name.casefold() for column in columns)


def _nearest(given: str, names: Sequence[str]) -> str:
    near = get_close_matches(given.casefold(), [name.casefold() for name in names], n=1, cutoff=0.6)
    return next((f' (did you mean "{name}"?)' for name in names if near and name.casefold() == near[0]), "")


@dataclass(frozen=True, slots=True)
class _Names:
    columns: Sequence[CapturedColumn]
    shared: frozenset[str]

    def all(self, given: Iterable[str], setting: str) -> frozenset[str]:
        """The columns' own names. A name that differs in case alone stands for every column that it may mean."""
        return frozenset(name for one in given for name in self._matching(one, setting))

    def listed(self, given: Iterable[str]) -> frozenset[str]:
        """The same for columns that are sent, where a name must not stand for a column that may not be meant."""
        found = [(one, self._matching(one, "columns")) for one in given]
        for one, own in found:
            if len(own) > 1:
                either = " or ".join(f'"{name}"' for name in own)
                raise ShapeRefused(f'columns names "{one}", which may be {either}: write the name as the column has it')
        return frozenset(name for _, own in found for name in own)

    def _matching(self, given: str, setting: str) -> list[str]:
        own = [column.name for column in self.columns]
        if given in own:
            return [given]
        found = [name for name in own if name.casefold() == given.casefold()]
        if not found and given not in self.shared:
            meant = _nearest(given, own)
            raise ShapeRefused(f'{setting} names "{given}", which is not a captured column of the table{meant}')
        return found


def _refuse_left_out_key(column: CapturedColumn, *, listed: bool) -> None:
    if column.key_ordinal is None:
        return
    how = "columns does not list" if listed else "exclude_columns names"
    raise ShapeRefused(
        f'{how} "{column.name}", which is part of the key: consumers need it to tell rows apart. It may be hashed, not left out'
    )


def _refuse_mask(column: CapturedColumn, kind: MaskKind) -> None:
    if column.key_ordinal is not None and kind != "hash":
        raise ShapeRefused(
            f'the mask of "{column.name}" is {kind}, and the column is part of the key: rows would no longer be told apart. It may only be '
            "hashed"
        )
    if kind in ("redact", "truncate") and column.type.lower() not in TEXT_TYPES:
        raise ShapeRefused(
            f'the mask of "{column.name}" is {kind}, and its type {column.type} is not text: a consumer that expects a value of this type '
            'would fail. Mask it with "null", or with a hash, which is text'
        )
