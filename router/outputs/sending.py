"""One call of `send` by an adapter that works in an event loop: what was accepted, and which of several faults is reported. Pure."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Sequence
from typing import Any

from common.bus.ports import MessageRefused, OutOfTime, SendInterrupted, TimeLeft
from common.errors import DStreamError, EntityUnavailable, TransientError, unforeseen
from common.message import Message
from router.outputs.event_loop import LoopThread

_DEFECT = "this is a defect: report it with this line; the messages wait, and are sent again"


class Sending:
    """`accepted`: places of messages that the server has said to have. `faults`: what went wrong; after the first one nothing more begins."""

    def __init__(self, messages: Sequence[Message], left: TimeLeft, doing: str) -> None:
        self.messages = messages
        self.left = left
        self.doing = doing
        self.accepted: set[int] = set()
        self.faults: list[DStreamError] = []

    def sessions(self) -> list[list[int]]:
        """Places of messages of one session each that are not accepted; messages without a session are one more."""
        groups: dict[str | None, list[int]] = {}
        for at, message in enumerate(self.messages):
            if at not in self.accepted:
                groups.setdefault(message.session_id, []).append(at)
        return list(groups.values())

    def out_of_time(self) -> OutOfTime:
        return OutOfTime(f"{self.doing}: nothing more may be sent", accepted=frozenset(self.accepted))

    def run(self, loop: LoopThread, work: Coroutine[Any, Any, None], *, most: float) -> None:
        """Return once all are accepted. `most`: seconds, where no less are left. Raises as a `Sender` does."""
        try:
            loop.call(work, seconds=min(self.left(), most), doing=self.doing)
        except TransientError as error:
            kind = OutOfTime if self.left() <= 0 else SendInterrupted
            raise kind(error.message, hint=error.hint, accepted=frozenset(self.accepted)) from error
        except DStreamError:
            raise
        except Exception as error:
            text = f"{self.doing}: {unforeseen(error)}"
            raise SendInterrupted(text, hint=_DEFECT, accepted=frozenset(self.accepted)) from error
        if self.faults:
            raise self.verdict()

    def verdict(self) -> DStreamError:
        """Of several faults, the one that says most: what a person must do, what is in doubt, what was refused, who is busy."""
        fault, accepted = min(self.faults, key=_weight), frozenset(self.accepted)
        if isinstance(fault, EntityUnavailable):
            # an error of this type has no places: those that were accepted are reported first, and the next send meets it again
            return SendInterrupted(fault.message, hint=fault.hint, accepted=accepted) if accepted else fault
        if isinstance(fault, (SendInterrupted, MessageRefused)):
            fault.accepted = accepted
        return fault


async def side_by_side(works: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Return when all have ended. When one raises, the others are cancelled and have ended before the caller knows: nobody goes on sending behind
    a `send` that is over."""
    try:
        async with asyncio.TaskGroup() as group:
            for work in works:
                group.create_task(work)
    except ExceptionGroup as several:
        raise several.exceptions[0] from several


def _weight(fault: DStreamError) -> tuple[int, int]:
    match fault:
        case EntityUnavailable():
            return 0, 0
        case MessageRefused():
            return 2, fault.at
        case SendInterrupted(throttled=True):
            return 3, 0
    return 1, 0
