"""A replay: the changes of a range once more, from the change tables, to another topic. Values and decisions. No I/O.

A change that is sent once more is another message with another id: duplicate detection drops neither it nor the live change.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

from common.errors import PermanentError
from common.names import TableName
from ingester.change import Change
from ingester.position import Position
from ingester.source import CaptureInstance
from ingester.window import choose_instance

ID_LENGTH = 128
"""Characters of a message id (https://learn.microsoft.com/azure/service-bus-messaging/service-bus-quotas)."""


@dataclass(frozen=True, slots=True)
class Replay:
    """The changes of `table` in (begin, end], both borders of transactions, to `topic`. `id`: 12 hexadecimal digits."""

    id: str
    table: TableName
    topic: str
    begin: Position
    end: Position

    def change(self, change: Change, event_id: str) -> Change:
        """`change` as it is sent once more. `event_id`: its id when it was sent live."""
        return replace(change, history={"Replay": {"Id": self.id, "EventID": event_id}}, topic=self.topic)

    def event_id(self, event_id: str) -> str:
        """The id of the message that repeats `event_id`: a function of both, at most 128 characters."""
        whole = f"{event_id}:{self.id}"
        if len(whole) <= ID_LENGTH:
            return whole
        return f"{hashlib.sha256(event_id.encode()).hexdigest()}:{self.id}"


class CleanedUp(PermanentError):
    """Changes of the range are gone, and the hint says where it can go on."""


def lsn_of(position: Position) -> str:
    """The LSN of the transaction at or in which `position` is, as `--from` and `--to` read it."""
    return f"0x{position.place()[1]}"


def checked(table: TableName, begin: Position, end: Position, *, low: Position, captured: Position) -> None:
    """Raises PermanentError for a range that is empty, or not all there. `low`: where the captured changes of the table begin."""
    if begin < low:
        raise below(table, str(begin), low)
    if end > captured:
        raise PermanentError(
            f"replaying {table.key}: --to, {end}, is beyond {captured}, which is how far capture has come",
            hint="leave out --to for all that is captured now",
        )
    if begin >= end:
        raise PermanentError(
            f"replaying {table.key}: nothing is in the range: it would begin before {begin} and end after {end}",
            hint="--from must be before --to; both transactions are in the range",
        )


def below(table: TableName, begin: str, low: Position) -> CleanedUp:
    """A range that begins before the captured changes: cleanup was there, or capture was not enabled yet."""
    return CleanedUp(
        f"replaying {table.key}: the range begins at {begin}, below the low watermark, {low}: changes before it were removed or "
        "never captured",
        hint=f"--from {lsn_of(low)} begins at the low watermark",
    )


def passed(table: TableName, after: Position, low: Position) -> CleanedUp:
    """Cleanup has removed changes of the range before they were read."""
    return CleanedUp(
        f"replaying {table.key}: cleanup has passed the replay: changes after {after} are gone, the low watermark is {low} now",
        hint=f"--from {lsn_of(low)} goes on at the low watermark, without those changes; a longer retention keeps more of them",
    )


def next_window(
    instances: Sequence[CaptureInstance], after: Position, end: Position
) -> tuple[CaptureInstance, Position]:
    """The capture instance that has the changes after `after`, and up to where it is read: the end, or where another takes over."""
    instance, successor = choose_instance(instances, after)
    if successor is not None and after < successor.start < end:
        return instance, successor.start
    return instance, end
