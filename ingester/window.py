"""What to read next, and which rows make one change. Pure: no SQL, no clock.

A window ends on a whole transaction (the log's max LSN, or the start of the next capture instance); a page inside it may end
anywhere, because a position orders everything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from common.errors import PermanentError
from ingester.change import Operation
from ingester.position import Lsn, Position
from ingester.source import CaptureInstance, ProbeRequest


@dataclass(frozen=True, slots=True)
class Window:
    """(after, upto] of one capture instance; `hands_over` when a newer instance takes the table up at `upto`."""

    instance: CaptureInstance
    after: Position | None
    upto: Position | None
    hands_over: bool


def choose_instance(
    instances: Sequence[CaptureInstance], after: Position | None
) -> tuple[CaptureInstance, CaptureInstance | None]:
    """The capture instance that holds the changes after `after`, and the one that takes over from it.

    `instances` come in the order in which they were made, and it is the later one that takes over: the old one is read up to its
    `start_lsn`, and it from there. Between that point and the next both are filled, so neither a gap nor a duplicate can arise. Cleanup
    raises `start_lsn`, of both to the same LSN or of one alone: it says from where on an instance is whole, not which of two is newer.
    Without an offset, and with one below all of them, reading starts with the one that reaches back furthest.
    """
    starts = [Position.before(instance.start_lsn) for instance in instances]
    whole = [at for at, start in enumerate(starts) if after is not None and start <= after]
    oldest = min(starts)
    chosen = whole[-1] if whole else max(at for at, start in enumerate(starts) if start == oldest)
    return instances[chosen], instances[chosen + 1] if chosen + 1 < len(instances) else None


def probe_request(instances: Sequence[CaptureInstance], after: Position | None) -> ProbeRequest:
    """What to ask about a table before its window is known."""
    instance, successor = choose_instance(instances, after)
    return ProbeRequest(instance, after, successor.start_lsn if successor else None)


def superseded(instances: Sequence[CaptureInstance], after: Position | None) -> tuple[CaptureInstance, ...]:
    """The capture instances that nobody needs any more: the offset has come to the start of a newer one."""
    if after is None or not instances:
        return ()
    chosen, _ = choose_instance(instances, after)
    return tuple(instances[: instances.index(chosen)])


def window(instances: Sequence[CaptureInstance], after: Position | None, max_lsn: Lsn | None) -> Window:
    """What may be read now. `upto` is None while nothing was captured yet."""
    instance, successor = choose_instance(instances, after)
    if max_lsn is None:
        return Window(instance, after, None, hands_over=False)
    end = Position.end_of(max_lsn)
    border = Position.before(successor.start_lsn) if successor else None
    if border is not None and border <= end:
        return Window(instance, after, border, hands_over=True)
    return Window(instance, after, end, hands_over=False)


@dataclass(frozen=True, slots=True)
class Gap:
    """Changes between the offset and the low watermark were removed before they were read."""

    offset: Position
    low_watermark: Lsn


def gap(after: Position, low_watermark: Lsn | None) -> Gap | None:
    """Whether changes after `after` may be gone. A low watermark of 0x00 means that the instance is unknown, not that it is old."""
    if low_watermark is None or low_watermark.unknown or after >= Position.before(low_watermark):
        return None
    return Gap(after, low_watermark)


def gap_error(instance: CaptureInstance, offset: Position, low_watermark: str) -> PermanentError:
    """Changes were removed before they were read: which, and what can be done."""
    return PermanentError(
        f"reading {instance.table.key}: changes were lost: the offset is at LSN 0x{offset.lsn.hex}, "
        f"but {instance.name} begins at its low watermark 0x{low_watermark}",
        hint='CDC cleanup passed the offset; set on_gap = "skip" to go on from the watermark, and lengthen the retention',
    )


@dataclass(frozen=True, slots=True)
class Image:
    """One row of a change table: a position, the update mask as a number (bit ordinal - 1), and the columns' values."""

    position: Position
    mask: int
    commit_time: str | None
    values: Sequence[object]


@dataclass(frozen=True, slots=True)
class PairedRows:
    """Rows that make one change: `before` only for an update whose before image was read."""

    before: Image | None
    row: Image


def pair(images: Sequence[Image], *, full: bool) -> list[PairedRows]:
    """Join an update's two rows, which follow each other in position order.

    A before image that ends a full page is left for the next page. Raises PermanentError for one that has no after image.
    """
    paired: list[PairedRows] = []
    before: Image | None = None
    for image in images:
        if before is not None and not _same_update(before, image):
            raise PermanentError(f"pairing update images: the row at {before.position} has no after image")
        if image.position.operation == Operation.BEFORE_UPDATE:
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
