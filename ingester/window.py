"""What to read next. Pure: no question to a server, no clock.

A window ends on a whole transaction (how far capture has come, or the start of the next capture instance); a page
inside it may end anywhere, because a position orders everything.
"""

from __future__ import annotations

import shlex
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

    `instances` are in the order in which they were created, and the later one takes over: the old one is read up to its
    `start`, and the later one from there. Both are filled from that point on, so neither a gap nor a duplicate can
    arise. Cleanup raises `start`, of both to the same position or of one alone: it shows from where on an instance is
    complete, not which of two is newer. Without an offset, and with one below all of them, reading starts with the one
    that reaches back furthest.
    """
    starts = [instance.start for instance in instances]
    whole = [at for at, start in enumerate(starts) if after is not None and start <= after]
    oldest = min(starts)
    chosen = whole[-1] if whole else max(at for at, start in enumerate(starts) if start == oldest)
    return instances[chosen], instances[chosen + 1] if chosen + 1 < len(instances) else None


def probe_request(instances: Sequence[CaptureInstance], after: Position | None) -> ProbeRequest:
    """The question about a table whose window is not known yet."""
    instance, successor = choose_instance(instances, after)
    return ProbeRequest(instance, after, successor.start if successor else None)


def superseded(instances: Sequence[CaptureInstance], after: Position | None) -> tuple[CaptureInstance, ...]:
    """The capture instances that are no longer needed: the offset has reached the start of a newer one."""
    if after is None or not instances:
        return ()
    chosen, _ = choose_instance(instances, after)
    return tuple(instances[: instances.index(chosen)])


def window(instances: Sequence[CaptureInstance], after: Position | None, captured: Position | None) -> Window:
    """The window that may be read now. `captured`: how far capture has come, None while nothing was captured yet."""
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


GOES_ON = {
    "skip": "the ingester goes on by itself at the low watermark",
    "snapshot": "the ingester goes on by itself with a gap event and a snapshot",
}


_TAKES = {True: " --take", False: "", None: ' (with locks of type "local" --take, too)'}


def gap_error(
    instance: CaptureInstance, found: Gap, *, on_gap: str = "fail", local: bool | None = None
) -> PermanentError:
    """Changes were removed before they were read: which, and what to do. `on_gap`: what the ingester does, as in the settings.
    `local`: whether locks are of type "local", which nobody else can see held or free; None where that is not known.
    """
    return PermanentError(
        f"reading {instance.table.key}: changes were lost: the offset is at {found.offset}, "
        f"but {instance.name} begins at its low watermark, {found.low_watermark}",
        hint=GOES_ON.get(
            on_gap,
            "cleanup has passed the offset, or Change Data Capture was off for a while: to go on at the low watermark run "
            f"dstream offsets set {_argument(instance.table)} --earliest --skip{_TAKES[local]} and restart the ingester, "
            'see "When changes were lost" in docs/fail.md',
        ),
    )


def _argument(table: TableName) -> str:
    """As a shell takes it."""
    return shlex.quote(table.key)


def source_of(instances: Sequence[CaptureInstance]) -> str | None:
    """Their table; None where that is not known."""
    return instances[0].source or None if instances else None


def lost_error(table: TableName, offset: Position | None, source: str | None, hints: Hints) -> PermanentError:
    """The table that had the name was dropped, and its unread changes with it. `source`: the table whose changes the
    offset counts."""
    at = "no offset" if offset is None else str(offset)
    return PermanentError(
        f"reading {table.key}: changes may be lost: the table or its capture instance was dropped and created "
        f"again; the offset ({at}) is of object {source}, and its changes were dropped with it",
        hint='set on_gap = "skip" to continue with all captured changes of the present table, or, with the ingester stopped, run '
        f"{hints.first_start(table)} for a first start",
    )
