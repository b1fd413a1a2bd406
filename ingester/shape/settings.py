"""The `shape` block and the same settings of a table's override, and the shapes that follow from both. Opens nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from difflib import get_close_matches
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from common.cel.filters import FilterError, FilterText, lacking
from common.config.settings import Location, MapBlock, Settings
from common.errors import PermanentError
from ingester.change import OPERATION_NAMES, Operation
from ingester.shape.filters import compile_filter
from ingester.shape.mask import MaskText
from ingester.shape.table_shape import OnFilterError, TableShape

SKIPPABLE = {OPERATION_NAMES[one]: one for one in (Operation.INSERT, Operation.UPDATE, Operation.DELETE)}


def _column(value: Any) -> Any:
    if isinstance(value, str) and not value.strip():
        raise ValueError("is empty: write a column's name")
    return value


def _operation(value: Any) -> Any:
    if isinstance(value, str) and value not in SKIPPABLE:
        near = get_close_matches(value.capitalize(), SKIPPABLE, n=1, cutoff=0.6)
        meant = f' (did you mean "{near[0]}"?)' if near else ""
        listed = ", ".join(f'"{name}"' for name in SKIPPABLE)
        raise ValueError(f"must be one of {listed}{meant}")
    return value


Columns = tuple[Annotated[str, BeforeValidator(_column)], ...]
Operations = tuple[Annotated[str, BeforeValidator(_operation)], ...]
Masks = Annotated[Mapping[str, MaskText], MapBlock()]


class ShapeOverride(Settings):
    """What of one table is sent. What is not given is taken from `shape`."""

    columns: Columns | None = Field(
        default=None,
        description=(
            "The columns that are sent, the key's among them. None, the default: what `shape` says. Takes the place of its `columns`, and of "
            "what its `exclude_columns` says of them."
        ),
    )
    exclude_columns: Columns | None = Field(
        default=None,
        description="Columns that are not sent, nor read, in addition to those of `shape`. None, the default: only those.",
    )
    mask: Masks = Field(
        default_factory=dict,
        description="As in `shape`, in addition to its masks; for the same column this one wins. Empty by default.",
    )
    filter: FilterText | None = Field(
        default=None, description="As in `shape`. None, the default: the filter there. Write `true` for none."
    )
    skip_operations: Operations | None = Field(
        default=None, description="As in `shape`. None, the default: the value there."
    )
    skip_unchanged: bool | None = Field(default=None, description="As in `shape`. None, the default: the value there.")
    on_filter_error: OnFilterError | None = Field(
        default=None, description="As in `shape`. None, the default: the value there."
    )
    schema_events: bool | None = Field(default=None, description="As in `shape`. None, the default: the value there.")
    initial_schema_events: bool | None = Field(
        default=None, description="As in `shape`. None, the default: the value there."
    )
    trace_column: str | None = Field(
        default=None, description="As in `shape`. None, the default: the value there. Empty: none."
    )

    @classmethod
    def conflicts(cls, given: Mapping[str, Any]) -> Iterable[tuple[Location, str]]:
        return shape_conflicts(given)


class ShapeSettings(Settings):
    """The `shape` block."""

    columns: Columns | None = Field(
        default=None,
        description=(
            "The columns that are sent, the key's among them, of every table. None, the default: all captured ones. Here a table may lack "
            "a column; in its own override it may not."
        ),
    )
    exclude_columns: Columns | None = Field(
        default=None,
        description="Columns that are not sent, nor read from the server. None, the default. Not together with `columns`.",
    )
    mask: Masks = Field(
        default_factory=dict,
        description=(
            'How values of columns are masked: `mask { Email = "hash:SHA-256:SALT" }`, or `redact`, `truncate:4`, `null`. Empty by default. '
            "Texts are secret. See shape.md."
        ),
    )
    filter: FilterText | None = Field(
        default=None,
        description=(
            "A CEL expression over `data`, `before` and `metadata`: only changes for which it is true are sent. None, the default: all. "
            "See shape.md."
        ),
    )
    skip_operations: Operations = Field(
        default=(), description="Operations whose changes are not sent: `Insert`, `Update`, `Delete`. None by default."
    )
    skip_unchanged: bool = Field(
        default=False,
        description=(
            "Whether updates are left out that changed the value of no column that is sent. Off by default, because then the row before each "
            "update is read as well."
        ),
    )
    on_filter_error: OnFilterError = Field(
        default="fail",
        description=(
            "What happens to a change on which the filter fails: `fail` stops its table before the change; `dead_letter` sends it to be "
            "dead-lettered and goes on. The default is `fail`, because otherwise subscribers do not get the change."
        ),
    )
    schema_events: bool = Field(
        default=False,
        description="Whether an event comes before the first change with other columns. Off by default, because consumers must know it.",
    )
    initial_schema_events: bool = Field(
        default=False,
        description=(
            "With `schema_events`: whether an event also comes before the table's first change of all, and before the rows of each snapshot, so "
            "that a consumer that begins there knows the columns. Outputs that create tables need it. Off by default, as `schema_events` is."
        ),
    )
    trace_column: str | None = Field(
        default=None,
        description=(
            "A column in which applications write the W3C `traceparent` of their write. It becomes the application property `traceparent`, "
            "also where the column is not sent. Tables without it have none. None, the default. See tracing.md."
        ),
    )

    @classmethod
    def conflicts(cls, given: Mapping[str, Any]) -> Iterable[tuple[Location, str]]:
        return shape_conflicts(given)


def shape_conflicts(given: Mapping[str, Any]) -> Iterable[tuple[Location, str]]:
    """What contradicts itself in one block, as plain data or as a model's fields, parts of which may be wrong."""
    columns, excluded, masks = _names(given, "columns"), _names(given, "exclude_columns"), _masked(given)
    if any(not name.strip() for name in masks):
        yield ("mask",), "has a mask without a column: write the column's name"
    if given.get("columns") == ():
        yield ("columns",), "is empty: name the columns, or leave it out for all"
    if columns and excluded:
        yield ("exclude_columns",), "is given together with columns: one list says which columns are sent"
    for setting, names in (
        ("columns", columns),
        ("exclude_columns", excluded),
        ("mask", masks),
        ("skip_operations", _names(given, "skip_operations")),
    ):
        yield from _twice(setting, names)
    yield from _masked_and_left_out((), columns, excluded, masks)


def against_defaults(given: Mapping[str, Any], usual: Mapping[str, Any]) -> Iterable[tuple[Location, str]]:
    """Masks of a table for columns that the defaults leave out of it. `usual`: the `shape` block."""
    listed = _names(given, "columns")
    columns = [] if listed else _names(usual, "columns")
    yield from _masked_and_left_out((), columns, _besides(_names(usual, "exclude_columns"), listed), _masked(given))


def filter_conflicts(given: Mapping[str, Any], *, before_images: bool) -> Iterable[tuple[Location, str]]:
    """Of a filter with the rest of the configuration."""
    text = given.get("filter")
    if before_images or not isinstance(text, str):
        return
    with suppress(
        FilterError, PermanentError
    ):  # the first is reported at its setting, the second is of no configuration
        if compile_filter(text).uses_before:
            yield ("filter",), "uses before, which no change has while before_images is off: set before_images = true"


def filters_lacking(given: Mapping[str, Any]) -> Iterable[tuple[Location, str]]:
    """Of a filter that cannot be evaluated on this machine, for those who evaluate it."""
    if isinstance(given.get("filter"), str) and (told := lacking()) is not None:
        yield ("filter",), told


def shape_of(usual: ShapeSettings, own: ShapeOverride | None) -> TableShape:
    """The shape of one table. `own`: of its override, where it has one."""
    own = own or ShapeOverride()
    given = {*(own.columns or ()), *(own.exclude_columns or ()), *own.mask}
    columns = usual.columns if own.columns is None else own.columns
    excluded = (*_besides(usual.exclude_columns or (), own.columns or ()), *(own.exclude_columns or ()))
    masks = (*usual.mask.items(), *own.mask.items())  # for a column that both name, the later one holds
    skipped = usual.skip_operations if own.skip_operations is None else own.skip_operations
    return TableShape(
        columns=columns,
        excluded=excluded,
        masks=masks,
        filter=usual.filter if own.filter is None else own.filter,
        skip_operations=tuple(SKIPPABLE[name] for name in skipped),
        skip_unchanged=_own(own.skip_unchanged, usual.skip_unchanged),
        on_filter_error=own.on_filter_error or usual.on_filter_error,
        schema_events=_own(own.schema_events, usual.schema_events),
        initial_schema_events=_own(own.initial_schema_events, usual.initial_schema_events),
        trace_column=(usual.trace_column if own.trace_column is None else own.trace_column) or None,
        shared=frozenset({*(columns or ()), *excluded, *usual.mask} - given),
    )


def _besides(names: Iterable[str], listed: Iterable[str]) -> tuple[str, ...]:
    """What all tables leave out but this one sends, because its own `columns` names it, is not among them."""
    sent = {name.casefold() for name in listed}
    return tuple(name for name in names if name.casefold() not in sent)


def _own(own: bool | None, usual: bool) -> bool:
    return usual if own is None else own


def _names(given: Mapping[str, Any], setting: str) -> list[str]:
    found = given.get(setting)
    return [name for name in found if isinstance(name, str)] if isinstance(found, tuple) else []


def _masked(given: Mapping[str, Any]) -> list[str]:
    found = given.get("mask")
    return list(found) if isinstance(found, Mapping) else []


def _twice(setting: str, names: Sequence[str]) -> Iterable[tuple[Location, str]]:
    first: dict[str, str] = {}
    for name in names:
        known = first.setdefault(name.casefold(), name)
        if known is not name:
            at: Location = (setting, name) if setting == "mask" else (setting,)
            same = "" if known == name else f', first as "{known}": names match without case'
            yield at, f'has "{name}" twice{same}'


def _masked_and_left_out(
    at: Location, columns: Sequence[str], excluded: Sequence[str], masks: Sequence[str]
) -> Iterable[tuple[Location, str]]:
    listed, gone = {name.casefold() for name in columns}, {name.casefold() for name in excluded}
    for name in masks:
        if name.casefold() in gone or (listed and name.casefold() not in listed):
            where = "exclude_columns" if name.casefold() in gone else "columns"
            yield (*at, "mask", name), f"masks a column that {where} leaves out: remove one of them"
