"""Net changes: what a window of a change table comes to for each row of the source table. Pure.

As the functions that SQL Server generates since 2016 decide it (their text is in public repositories): the rows of one key are taken
in the order of commit LSN, command id and seqval; the operation follows from the first and the last of them, so from whether the row
existed when the window began, and a row that came and went inside it is left out. The last row is looked for by its seqval, the
largest operation winning: that is the after image of an update, and the insert of a delete and insert that share one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from emulators.sqlserver.cdc.instance import AFTER_UPDATE, BEFORE_UPDATE, DELETE, INSERT
from emulators.sqlserver.engine.extension import Row
from emulators.sqlserver.results import Value
from emulators.sqlserver.sqltypes import SqlType
from emulators.sqlserver.tsql.values.text_order import equality_key
from emulators.sqlserver.tsql.values.types import family, is_unicode

FILTERS = ("all", "all with mask", "all with merge")
"""The values of @row_filter_option, trimmed and in lower case."""

MERGE = 5
"""`__$operation` of 'all with merge': insert or update, whichever the target needs."""


@dataclass(frozen=True, slots=True)
class WindowRow:
    """A row of the change table inside the window; `captured`: the values of the captured columns."""

    start_lsn: bytes
    seqval: bytes
    operation: int
    mask: bytes
    captured: Row


def net_changes(
    rows: Iterable[WindowRow], key: Sequence[int], types: Sequence[SqlType], row_filter: str
) -> Iterator[Row]:
    """`__$start_lsn`, `__$operation`, `__$update_mask` and the captured columns, one row a changed key.

    `rows` in the order of commit LSN, command id, seqval and operation; `key`: the positions of the key among the captured columns, whose
    types are `types`.
    """
    compared = [(at, _key(types[at])) for at in key]
    groups: dict[tuple[object, ...], list[WindowRow]] = {}
    for row in rows:
        groups.setdefault(tuple(equal(row.captured[at]) for at, equal in compared), []).append(row)
    for group in groups.values():
        net = _net(group, row_filter)
        if net is not None:
            yield net


def _net(group: Sequence[WindowRow], row_filter: str) -> Row | None:
    last = max((row for row in group if row.seqval == group[-1].seqval), key=lambda row: row.operation)
    first = next((row.operation for row in group if row.operation != BEFORE_UPDATE), last.operation)
    if last.operation == DELETE and first == INSERT:
        return None
    if row_filter == "all with merge":
        return (last.start_lsn, DELETE if last.operation == DELETE else MERGE, None, *last.captured)
    operation = last.operation if len(group) == 1 else _operation(first, last.operation)
    masked = row_filter == "all with mask" and operation == AFTER_UPDATE
    return (last.start_lsn, operation, _union(group) if masked else None, *last.captured)


def _operation(first: int, last: int) -> int:
    """What to do with a row that was changed more than once: it existed before unless it was inserted first."""
    if first == INSERT:
        return INSERT
    return DELETE if last == DELETE else AFTER_UPDATE


def _union(group: Sequence[WindowRow]) -> bytes:
    bits = 0
    for row in group:
        bits |= int.from_bytes(row.mask, "big")
    return bits.to_bytes(len(group[0].mask), "big")


def _key(kind: SqlType) -> Callable[[Value], object]:
    """Equal for values that compare equal: those of text under their collation."""
    if family(kind) != "string":
        return lambda value: value
    equal = equality_key(kind.collation, is_unicode(kind))
    return lambda value: equal(value) if isinstance(value, str) else value
