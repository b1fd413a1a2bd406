"""What to read next. Pure: no question to a server, no clock.

A window ends on a whole transaction (how far capture has come, or the start of the next capture instance); a page inside it may end
anywhere, because a position orders everything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from common.errors import PermanentError
from common.names import TableName
from ingester.position import Position
from ingester.source import CaptureInstance, Hints, ProbeRequest


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
    `start`, and it from there. Between that point and the next both are filled, so neither a gap nor a duplicate can arise. Cleanup
    raises `start`, of both to the same position or of one alone: it says from where on an instance is whole, not which of two is newer.
    Without an offset, and with one below all of them, reading starts with the one that reaches back furthest.
    """
    starts = [instance.start for instance in instances]
    whole = [at for at, start in enumerate(starts) if after is not None and start <= after]
    oldest = min(starts)
    chosen = whole[-1] if whole else max(at for at, start in enumerate(starts) if start == oldest)
    return instances[chosen], instances[chosen + 1] if chosen + 1 < len(instances) else None


def probe_request(instances: Sequence[CaptureInstance], after: Position | None) -> ProbeRequest:
    """What to ask about a table before its window is known."""
    instance, successor = choose_instance(instances, after)
    return ProbeRequest(instance, after, successor.start if successor else None)


def superseded(instances: Sequence[CaptureInstance], after: Position | None) -> tuple[CaptureInstance, ...]:
    """The capture instances that nobody needs any more: the offset has come to the start of a newer one."""
    if after is None or not instances:
        return ()
    chosen, _ = choose_instance(instances, after)
    return tuple(instances[: instances.index(chosen)])


def window(instances: Sequence[CaptureInstance], after: Position | None, captured: Position | None) -> Window:
    """What may be read now. `captured`: how far capture has come, None while nothing was captured yet."""
    instance, successor = choose_instance(instances, after)
    if captured is None:
        return Window(instance, after, None, hands_over=False)
    if successor is not None and successor.start <= captured:
        return Window(instance, after, successor.start, hands_over=True)
    return Window(instance, after, captured, hands_over=False)


@dataclass(frozen=True, slots=True)
class Gap:
    """Changes between the offset and the low watermark were removed before they were read."""

    offset: Position
    low_watermark: Position


def gap(after: Position, low_watermark: Position | None) -> Gap | None:
    """Whether changes after `after` may be gone."""
    if low_watermark is None or after >= low_watermark:
        return None
    return Gap(after, low_watermark)


def gap_error(instance: CaptureInstance, found: Gap) -> PermanentError:
    """Changes were removed before they were read: which, and what can be done."""
    return PermanentError(
        f"reading {instance.table.key}: changes were lost: the offset is at {found.offset}, "
        f"but {instance.name} begins at its low watermark, {found.low_watermark}",
        hint='cleanup has passed the offset; set on_gap = "skip" to continue at the low watermark, and lengthen the retention',
    )


def source_of(instances: Sequence[CaptureInstance]) -> str | None:
    """Which table they are of; None where that is not known."""
    return instances[0].source or None if instances else None


def lost_error(table: TableName, offset: Position | None, source: str | None, hints: Hints) -> PermanentError:
    """The table that had the name is gone, and with it whatever was not read. `source`: whose changes the offset counts."""
    at = "no offset" if offset is None else str(offset)
    return PermanentError(
        f"reading {table.key}: changes may be lost: it was dropped and made again, or its CDC was; the offset ({at}) is of object {source}, "
        "whose changes are gone with it",
        hint='set on_gap = "skip" to go on with all that capture holds of the present one, or, with the ingester stopped, '
        f"{hints.first_start(table)}, which is a first start",
    )
