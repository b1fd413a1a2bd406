"""Which rows of a change table make one change. Pure: no SQL, no clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from common.errors import PermanentError
from ingester.change import Operation
from ingester.sqlserver.position import LogPosition

BEFORE_UPDATE = 3
"""`__$operation` of a row as it was before an update. The row after it has that of the change."""


@dataclass(frozen=True, slots=True)
class Image:
    """One row of a change table: a position, the update mask as a number (bit ordinal - 1), and the columns' values."""

    position: LogPosition
    mask: int
    commit_time: str | None
    values: Sequence[object]


@dataclass(frozen=True, slots=True)
class PairedRows:
    """The rows of one change. `before`: only for an update whose before image was read."""

    before: Image | None
    row: Image


def pair(images: Sequence[Image], *, full: bool) -> list[PairedRows]:
    """Join the two rows of each update; they are adjacent in position order.

    A before image that ends a full page is left for the next page. Raises PermanentError for one that has no after
    image.
    """
    paired: list[PairedRows] = []
    before: Image | None = None
    for image in images:
        if before is not None and not _same_update(before, image):
            raise PermanentError(f"pairing update images: the row at {before.position} has no after image")
        if image.position.operation == BEFORE_UPDATE:
            before = image
            continue
        paired.append(PairedRows(before, image))
        before = None
    if before is not None and not full:
        raise PermanentError(f"pairing update images: the row at {before.position} has no after image")
    return paired


def _same_update(before: Image, after: Image) -> bool:
    one, other = before.position, after.position
    return other.operation == Operation.UPDATE and (one.lsn, one.command_id, one.seqval) == (
        other.lsn,
        other.command_id,
        other.seqval,
    )
