"""What of one table's changes is sent, as a value that travels with each slice. No behaviour."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ingester.change import Operation
from ingester.shape.mask import Mask

OnFilterError = Literal["fail", "dead_letter"]


@dataclass(frozen=True, slots=True)
class TableShape:
    """Names of columns as the configuration writes them: they match exactly first, then without case.

    `columns`: those that are sent; None: all but the `excluded` ones. `filter`: a CEL expression that is true for a change that is sent.
    `skip_unchanged`: whether updates that changed no sent column are left out. `shared`: the names that only the defaults of all tables
    have, so that this table may lack them. `trace_column`: where an application writes the W3C traceparent of its write.
    """

    columns: tuple[str, ...] | None = None
    excluded: tuple[str, ...] = ()
    masks: tuple[tuple[str, Mask], ...] = ()
    filter: str | None = None
    skip_operations: tuple[Operation, ...] = ()
    skip_unchanged: bool = False
    on_filter_error: OnFilterError = "fail"
    schema_events: bool = False
    initial_schema_events: bool = False
    trace_column: str | None = None
    shared: frozenset[str] = frozenset()


AS_CAPTURED = TableShape()
"""Every captured column of every change, as it is."""
