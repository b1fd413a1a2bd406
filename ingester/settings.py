"""The `ingester` block: every setting of stage 1, validated and frozen. Opens nothing; `ingester/app.py` acts on it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from difflib import get_close_matches
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import Field, ValidationInfo, model_validator

from common.config.bind import Bound, Document, UnsetPolicy, bind
from common.config.durations import Duration, PositiveDuration, between, format_duration, parse_duration
from common.config.settings import Location, Settings
from common.config.values import Problem
from common.names import TableName
from common.observability.health_settings import HealthSettings
from common.table_selection import TableSelection, is_pattern
from common.topology import Table, Topology, selection_of, twice_listed
from ingester.blocks.locks import LocksBlock
from ingester.blocks.spark import SparkSettings
from ingester.history.settings import Mode, SnapshotOverride, SnapshotSettings
from ingester.shape.counted import uncountable
from ingester.shape.settings import (
    ShapeOverride,
    ShapeSettings,
    against_defaults,
    filter_conflicts,
    filters_lacking,
    shape_of,
)
from ingester.shape.table_shape import AS_CAPTURED, TableShape

PollInterval = Annotated[PositiveDuration, between(timedelta(milliseconds=1), timedelta(days=7))]


class PollIntervals(Settings):
    """How often a table is checked: `poll_interval` after a change, doubling to `max_poll_interval` while it is idle."""

    poll_interval: PollInterval = Field(
        default=timedelta(seconds=5),
        description="Shortest time between two checks of a table, `1ms` to `168h`. `5s` is SQL Server's own pause between two captures.",
    )
    max_poll_interval: PollInterval = Field(
        default=timedelta(minutes=2),
        description=(
            "Longest time between two checks of an idle table, and so the longest delay of its next change. Beside tables that are busy it may "
            "wait for half a second more. `2m` spares the database."
        ),
    )

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.poll_interval > self.max_poll_interval:
            raise ValueError("has a poll_interval longer than its max_poll_interval")
        return self


class _PollingOverride(Settings):
    table_name: Table = Field(description="One of `tables`.")
    poll_interval: PollInterval | None = Field(
        default=None, description="As in `poll_interval_defaults`. None, the default: the value there."
    )
    max_poll_interval: PollInterval | None = Field(
        default=None, description="As in `poll_interval_defaults`. None, the default: the value there."
    )
    snapshot: SnapshotOverride = Field(default_factory=SnapshotOverride, description="Snapshots of this table.")


class TableOverride(ShapeOverride, _PollingOverride):
    """Settings of one table. Those that are missing are taken from `poll_interval_defaults`, `snapshot` and `shape`."""


class TablesOverrides(Settings):
    """Holds one `overrides` block for each table that differs."""

    overrides: tuple[TableOverride, ...] = Field(
        default=(), description="May repeat. None, the default: every table has the defaults."
    )


OnGap = Literal["fail", "skip", "snapshot"]


@dataclass(frozen=True, slots=True)
class TableSettings:
    """One table with its own settings."""

    name: TableName
    poll_interval: timedelta
    max_poll_interval: timedelta
    snapshot: Mode = "never"
    exact: bool = False
    on_gap: OnGap = "fail"
    """What follows a gap of this table: `snapshot` also where its mode is `when_needed`."""
    shape: TableShape = AS_CAPTURED


class IngesterSettings(Topology):
    """The `ingester` block."""

    db_type: Literal["sqlserver"] = Field(description="The kind of source database. There is one.")
    locks: LocksBlock = Field(description="The locks of the tables.")
    poll_interval_defaults: PollIntervals = Field(
        default_factory=PollIntervals, description="Polling of tables without an override."
    )
    tables_overrides: TablesOverrides = Field(
        default_factory=TablesOverrides, description="Tables that differ from the defaults."
    )
    on_gap: OnGap = Field(
        default="fail",
        description=(
            "What happens when cleanup removed changes that were not read: `fail` stops that table and logs how to go on, `skip` goes on "
            "after a warning, `snapshot` sends a gap event and then the rows that the table holds. The default is `fail`, because a person "
            "should decide about a loss."
        ),
    )
    snapshot: SnapshotSettings = Field(
        default_factory=SnapshotSettings,
        description="The rows that the tables hold now, sent as well as their changes. See history.md.",
    )
    shape: ShapeSettings = Field(
        default_factory=ShapeSettings,
        description="What of the changes is sent: columns, masks, filters. The defaults send all that is captured. See shape.md.",
    )
    on_oversize: Literal["fail", "dead_letter"] = Field(
        default="fail",
        description=(
            "What happens to a change that fits no message: `fail` stops that table and logs the row's key and the position; `dead_letter` "
            "leaves a dead letter with the key in the ingest queue and goes on. The default is `fail`, because otherwise subscribers do not get "
            "the change."
        ),
    )
    query_mode: Literal["direct", "function"] = Field(
        default="direct",
        description=(
            "How changes are read: `direct` from the change tables, or `function` only through `cdc.fn_cdc_get_all_changes_...`, for a login "
            "that may not SELECT from change tables. The default is `direct`, because the functions have no command id: a statement that moves "
            "several keys then comes row by row, not deletes before inserts, a large transaction is sorted for each page, and one task reads "
            "a table whatever `queue.ordering` is."
        ),
    )
    before_images: bool = Field(
        default=False,
        description="Whether updates and deletes have the row before the change as well. Off by default, because it doubles an update's size.",
    )
    decimals: Literal["string", "number"] = Field(
        default="string",
        description=(
            "How decimal and money values are written: `string` or `number`, with the same digits. The default is `string`, because most JSON "
            "readers round long numbers."
        ),
    )
    page_rows: int = Field(
        default=2000,
        ge=1,
        le=100_000,
        description=(
            "The most rows of a page, and so the most that each task sends again after a crash. 2000 keep a page near a second. Pages of wide "
            "rows have fewer: at most eight full batches (2 MB on Standard), and never more than 4 MiB."
        ),
    )
    slice: Annotated[PositiveDuration, between(timedelta(milliseconds=1), timedelta(hours=1))] = Field(
        default=timedelta(seconds=10),
        description=(
            "Longest time that a task reads one backlog before others get their turn, `1ms` to `1h`. `10s` lets a stop finish well within 20 s."
        ),
    )
    coalesce: Annotated[Duration, between(timedelta(0), timedelta(minutes=1))] = Field(
        default=timedelta(milliseconds=100),
        description=(
            "When a table is due, how much earlier than due others are checked along with it, by one question and one Spark job, at most `1m`. "
            "`100ms` is short compared with a poll interval. `0s`: each is checked at its own time."
        ),
    )
    low_latency: bool = Field(
        default=False,
        description=(
            "Whether the ingester has the server capture changes (`sys.sp_cdc_scan`) at the shortest `poll_interval` of its tables, and checks "
            "all tables after each scan that captured something. For Azure SQL Database, which captures every 20 s by itself; the role "
            "`db_owner` is needed. Off by default, because each scan costs the database. See run.md."
        ),
    )
    health: HealthSettings | None = Field(
        default=None, description="Where this stage serves metrics and health. None, the default: no port is opened."
    )
    spark: SparkSettings = Field(default_factory=SparkSettings, description="Spark's own settings.")

    @model_validator(mode="after")
    def _consistent(self, info: ValidationInfo) -> Self:
        """For settings made in code; a file's are checked with their lines by `from_document`."""
        if (info.context or {}).get("checked"):
            return self
        names = [override.table_name for override in self.tables_overrides.overrides]
        if not all(map(self.selection.may_have, names)) or len(set(names)) < len(names):
            raise ValueError("has an override for a table that is not in tables, or two for one table")
        if any(table.poll_interval > table.max_poll_interval for table in self.schedule):
            raise ValueError("has a poll_interval longer than the max_poll_interval that holds for the table")
        for override in self.tables_overrides.overrides:
            found = filter_conflicts(dict(override), before_images=self.before_images)
            for at, told in (*against_defaults(dict(override), dict(self.shape)), *found):
                raise ValueError(f"{override.table_name}: {'.'.join(map(str, at))} {told}")
        counted = uncountable({**dict(self), "shape": dict(self.shape)}, self.tables)
        for at, told in (*filter_conflicts(dict(self.shape), before_images=self.before_images), *counted):
            raise ValueError(f"{'.'.join(map(str, at))} {told}")
        if twice := twice_listed({"tables": tuple(self.tables)}):
            raise ValueError(f"tables {twice[0][1]}")
        return self

    @property
    def reaches(self) -> dict[str, object]:
        """The addresses that a start waits for, for the log."""
        return {
            "server": self.db.host,
            "database": self.db.database,
            "queue": self.queue.name,
            "namespace": self.queue.where,
            "spark": self.spark.master,
        }

    @property
    def keeps_schemas(self) -> bool:
        """Whether some table's versions of columns are kept, because its `schema_events` is on."""
        return self.shape.schema_events or any(each.shape.schema_events for each in self.schedule)

    @property
    def schedule(self) -> tuple[TableSettings, ...]:
        """Every table with its settings, in the order of the file."""
        overrides = {override.table_name: override for override in self.tables_overrides.overrides}
        usual = self.poll_interval_defaults
        return tuple(
            TableSettings(
                name,
                (own.poll_interval if (own := overrides.get(name)) else None) or usual.poll_interval,
                (own.max_poll_interval if own else None) or usual.max_poll_interval,
                mode := (own.snapshot.mode if own else None) or self.snapshot.mode,
                bool(self.snapshot.exact if own is None or own.snapshot.exact is None else own.snapshot.exact),
                "snapshot" if mode == "when_needed" else self.on_gap,
                shape_of(self.shape, own),
            )
            for name in self.tables
        )


T = TypeVar("T", bound=IngesterSettings)


def from_document(document: Document, *, unset: UnsetPolicy = "refuse") -> Bound[IngesterSettings]:
    """The ingester's settings, or every problem of its block."""
    return bound_as(IngesterSettings, document, unset=unset)


def bound_as(model: type[T], document: Document, *, unset: UnsetPolicy = "refuse") -> Bound[T]:
    """The same as a model that has more settings."""
    block = document.block("ingester")
    if block is None:
        return Bound(None, [Problem(1, 'block "ingester" is missing')])
    # Only who reads the file for the other stage, or to plan, takes a variable that is not set, and evaluates no filter.
    here = (_check_filters,) if unset == "refuse" else ()
    return bind(block, model, unset=unset, checks=(twice_listed, _check_overrides, _check_transactions, *here))


def _check_overrides(data: Mapping[str, Any]) -> Iterator[tuple[Location, str]]:
    """Checks overrides against the tables and the defaults, on plain data, because the rest of the block may be wrong."""
    selection = selection_of(data)
    usual = data.get("poll_interval_defaults")
    usual = usual if isinstance(usual, dict) else {}
    shape = data.get("shape")
    shape = shape if isinstance(shape, dict) else {}
    seen: set[str] = set()
    for number, override in enumerate(_overrides(data)):
        at: Location = ("tables_overrides", "overrides", number)
        name = _name(override.get("table_name"))
        if name is not None and not selection.may_have(name):
            yield (*at, "table_name"), f"names {name}, {_why_not(selection, name)}"
        elif name is not None and _spelled(selection, name) in seen:
            yield (*at, "table_name"), f"names {name} a second time"
        elif name is not None:
            seen.add(_spelled(selection, name))
        yield from _check_intervals(at, override, usual)
        yield from (((*at, *inner), told) for inner, told in against_defaults(override, shape))
        found = filter_conflicts(override, before_images=data.get("before_images") is True)
        yield from (((*at, *inner), told) for inner, told in found)
    found = filter_conflicts(shape, before_images=data.get("before_images") is True)
    yield from ((("shape", *inner), told) for inner, told in found)


def _check_filters(data: Mapping[str, Any]) -> Iterator[tuple[Location, str]]:
    shape = data.get("shape")
    yield from ((("shape", *inner), told) for inner, told in filters_lacking(shape if isinstance(shape, dict) else {}))
    for number, override in enumerate(_overrides(data)):
        yield from (
            (("tables_overrides", "overrides", number, *inner), told) for inner, told in filters_lacking(override)
        )


def _check_transactions(data: Mapping[str, Any]) -> Iterator[tuple[Location, str]]:
    yield from uncountable(data, selection_of(data).names)


def _why_not(selection: TableSelection, name: TableName) -> str:
    if (taken := selection.excluding(name)) is not None:
        return f"which !{taken} takes out of tables"
    near = get_close_matches(name.key, [table.key for table in selection.names], n=1, cutoff=0.7)
    meant = f' (did you mean "{near[0]}"?)' if near else ""
    return f"which is not in tables{meant}"


def _spelled(selection: TableSelection, name: TableName) -> str:
    """With patterns a table has one override, however the server spells its name."""
    return name.key.lower() if selection.patterns else name.key


def _check_intervals(
    at: Location, override: Mapping[str, Any], usual: Mapping[str, Any]
) -> Iterator[tuple[Location, str]]:
    """The intervals that will hold for the table: its own, else the defaults."""
    given = [key for key in ("poll_interval", "max_poll_interval") if key in override]
    shortest = _duration({**usual, **override}.get("poll_interval"), "poll_interval")
    longest = _duration({**usual, **override}.get("max_poll_interval"), "max_poll_interval")
    if given and shortest is not None and longest is not None and shortest > longest:
        told = f"{format_duration(shortest)}, {format_duration(longest)}"
        yield (*at, given[0]), f"makes poll_interval longer than max_poll_interval for its table ({told})"


def _overrides(data: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    holder = data.get("tables_overrides")
    found = holder.get("overrides") if isinstance(holder, dict) else None
    return [item for item in found if isinstance(item, dict)] if isinstance(found, tuple) else []


def _name(text: Any) -> TableName | None:
    try:
        return TableName.parse(text) if isinstance(text, str) and not is_pattern(text) else None
    except ValueError:
        return None


def _duration(text: Any, setting: str) -> timedelta | None:
    """The given value, the default when there is none, or None for a value that is not a duration (the model reports it)."""
    if text is None:
        default = PollIntervals.model_fields[setting].default
        return default if isinstance(default, timedelta) else None
    try:
        return parse_duration(text) if isinstance(text, str) else None
    except ValueError:
        return None
