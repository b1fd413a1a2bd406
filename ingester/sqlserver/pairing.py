"""Which rows of a change table make one change, and its place in its transaction. Pure: no SQL, no clock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from common.errors import PermanentError
from common.recent import Recent
from ingester.change import Operation
from ingester.sqlserver.change_table import ChangeTable
from ingester.sqlserver.position import LogPosition

BEFORE_UPDATE = 3
"""`__$operation` of a row as it was before an update. The row after it has that of the change."""

_MOST_TABLES = 64
"""Tables whose last places are remembered."""


Pair = tuple[int | None, int]
"""The rows of one change, by their number in the page: the one before it, only for an update whose before image was read, and its own."""


def pair(rows: Sequence[LogPosition], *, full: bool) -> list[Pair]:
    """Join the two rows of each update; they are adjacent in position order. `rows`: their positions.

    A before image that ends a full page is left for the next page. Raises PermanentError for one that has no after
    image.
    """
    paired: list[Pair] = []
    before: int | None = None
    for at, position in enumerate(rows):
        if before is not None and not _same_update(rows[before], position):
            raise PermanentError(f"pairing update images: the row at {rows[before]} has no after image")
        if position.operation == BEFORE_UPDATE:
            before = at
            continue
        paired.append((before, at))
        before = None
    if before is not None and not full:
        raise PermanentError(f"pairing update images: the row at {rows[before]} has no after image")
    return paired


def _same_update(one: LogPosition, other: LogPosition) -> bool:
    return other.operation == Operation.UPDATE and (one.lsn, one.command_id, one.seqval) == (
        other.lsn,
        other.command_id,
        other.seqval,
    )


def refuse_ties(instance: ChangeTable, rows: Sequence[LogPosition]) -> None:
    """Raises PermanentError where the order of two changes is not known, because their command ids were not read."""
    for one, other in pairwise(rows):
        if one == other:
            raise PermanentError(
                f"reading {instance.name}: two changes at {one} differ in their command ids only",
                hint='the published functions do not return command ids: set query_mode = "direct" and grant SELECT on schema cdc',
            )


@dataclass(frozen=True, slots=True)
class Tally:
    """How many changes of a transaction a change table has up to `position`, before images not counted."""

    position: LogPosition
    number: int


class Places:
    """The place of each change among its transaction's changes of its table, from 1. It depends on the change table alone: the same
    change has the same place whoever reads it, in whatever page or part.

    Not thread-safe. Remembers of each table the last change that was read or counted, and its place: most pages begin where the one
    before ended, or between two transactions, or soon after a change of another part. So few changes before a page are counted.
    """

    def __init__(self) -> None:
        self._last = Recent[str, Tally](_MOST_TABLES)

    def known(self, instance: ChangeTable, after: LogPosition) -> Tally:
        """From where the changes of the transaction of `after` must be counted up to there; at `after` itself where they need not be."""
        if after in (LogPosition.before(after.lsn), LogPosition.end_of(after.lsn)):
            return Tally(after, 0)
        last = self._last.get(instance.name)
        if last is not None and last.position.lsn == after.lsn and last.position <= after:
            return last
        return Tally(LogPosition.before(after.lsn), 0)

    def remember(self, instance: ChangeTable, found: Tally) -> None:
        self._last.keep(instance.name, found)

    def of(
        self,
        instance: ChangeTable,
        after: LogPosition,
        before: int,
        changes: Sequence[LogPosition],
        numbers: Mapping[LogPosition, int] | None,
    ) -> list[int]:
        """The place of each of the `changes`, which were read from `after` on, where `before` changes had been.

        `numbers`: by position, its number among the changes of its transaction after `after`, where others are between them.
        """
        found: list[int] = []
        lsn, place = after.lsn, before
        for position in changes:
            if position.lsn != lsn:
                lsn, place, before = position.lsn, 0, 0
            place = place + 1 if numbers is None else before + numbers[position]
            found.append(place)
        if changes:
            self.remember(instance, Tally(changes[-1], place))
        return found
