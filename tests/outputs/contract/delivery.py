"""A caller that sends as the router does: what was not reported accepted is sent again, in order and with the same ids. And the comparison."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from common.bus.ports import MessageRefused, OpenableSender, SendInterrupted
from common.errors import TransientError
from common.message import Message
from tests.outputs.contract.world import Arrival

MERCY = 60.0
"""Seconds after which what has not happened counts as never."""


@dataclass
class Delivered:
    """`accepted`: ids that the sender reported. `interruptions`: what it raised on the way."""

    accepted: list[str] = field(default_factory=list)
    interruptions: list[TransientError] = field(default_factory=list)
    refused: list[Message] = field(default_factory=list)


def deliver(
    sender: OpenableSender, messages: Sequence[Message], *, chunk: int = 50, seconds: float = MERCY, pause: float = 0.05
) -> Delivered:
    """Return when all are accepted or refused. Raises PermanentError as the sender does, and AssertionError when the time is up."""
    done, waiting, end = Delivered(), list(messages), time.monotonic() + seconds
    while waiting:
        assert time.monotonic() < end, f"{len(waiting)} of {len(messages)} not accepted: {done.interruptions[-3:]}"
        page = waiting[:chunk]
        accepted, refused = send_once(sender, page, done)
        done.accepted += [str(page[at].message_id) for at in sorted(accepted)]
        if refused is not None:
            done.refused.append(page[refused])
        waiting = [each for at, each in enumerate(page) if at not in accepted and at != refused] + waiting[chunk:]
        if len(accepted) < len(page) and refused is None:
            time.sleep(pause)
    return done


def send_once(sender: OpenableSender, page: Sequence[Message], done: Delivered) -> tuple[frozenset[int], int | None]:
    """Places that were accepted, and the one that was refused."""
    try:
        sender.send(page)
    except MessageRefused as error:
        return error.accepted, error.at
    except SendInterrupted as error:
        done.interruptions.append(error)
        return error.accepted, None
    except TransientError as error:
        done.interruptions.append(error)
        return frozenset(), None
    return frozenset(range(len(page))), None


@dataclass(frozen=True, slots=True)
class Comparison:
    """What was sent beside what has arrived. `disordered`: first arrivals that come before an earlier one of their session."""

    lost: Sequence[str]
    disordered: Sequence[str]
    foreign: Sequence[str]
    changed: Sequence[str]
    duplicates: int


def compared(sent: Sequence[Message], arrived: Sequence[Arrival], *, ordered: bool = True) -> Comparison:
    ids = [str(each.message_id) for each in sent]
    first: dict[str, Arrival] = {}
    for each in arrived:
        first.setdefault(each.id, each)
    bodies = {str(each.message_id): each.body for each in sent}
    return Comparison(
        lost=[each for each in ids if each not in first],
        disordered=_disordered(sent, list(first)) if ordered else [],
        foreign=[each for each in first if each not in bodies],
        changed=[each.id for each in arrived if each.body is not None and each.body != bodies.get(each.id, each.body)],
        duplicates=sum(count - 1 for count in Counter(each.id for each in arrived).values()),
    )


def _disordered(sent: Sequence[Message], arrived: Sequence[str]) -> list[str]:
    place = {str(each.message_id): (each.session_id, at) for at, each in enumerate(sent)}
    highest: dict[str | None, int] = {}
    found = []
    for each in arrived:
        if each not in place:
            continue
        session, at = place[each]
        if at < highest.get(session, -1):
            found.append(each)
        highest[session] = max(at, highest.get(session, -1))
    return found
