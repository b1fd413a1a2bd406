"""Which columns of a capture instance are sent, and how each is masked: a shape's names matched with the captured columns. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from common.errors import PermanentError
from ingester.shape.mask import Mask, MaskKind
from ingester.shape.table_shape import AS_CAPTURED, TableShape
from ingester.source import CapturedColumn

TEXT_TYPES = frozenset({"char", "varchar", "nchar", "nvarchar", "sysname", "text", "ntext"})
"""Types whose values are text of any characters."""

HINT = "correct the shape of the table in dstream.hcl: a running ingester takes it over at once, without a restart"


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
            near = get_close_matches(given.casefold(), [name.casefold() for name in own], n=1, cutoff=0.6)
            meant = next((f' (did you mean "{name}"?)' for name in own if near and name.casefold() == near[0]), "")
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
