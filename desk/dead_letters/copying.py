"""What is sent for a dead letter, and why some are not. Pure.

The copy is the message as it was, with an id of its own: with the old one, duplicate detection would drop it without a word for as long as it
remembers the first sending. The same dead letter always gets the same new id, so that after a kill the second sending of a copy is the one dropped.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

from common.bus.browsing import Lying
from common.bus.packing import MARKS
from common.message import Message, Property
from desk.messages.facts import replays_of

_NOT_COPIED: Final = frozenset((Property.SET_ASIDE, "DeadLetterReason", "DeadLetterErrorDescription", *MARKS))
_OVERSIZE: Final = "Oversize"
UNREADABLE: Final = ("MalformedMessage", "MissingDestination")
"""Reasons of the router for what no setting of it makes readable."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where dead letters are sent again. `entity`: a queue or topic of the bus; `name`: for a person. `sessions`: whether it refuses a message
    without a session. `window`: how long it remembers message ids; None: not at all. `others`: subscriptions besides the one whose dead letters
    they are. `routed`: whether the router reads it."""

    entity: str
    name: str
    sessions: bool = False
    window: timedelta | None = None
    others: tuple[str, ...] = ()
    routed: bool = False


def new_id(lying: Lying) -> str:
    return uuid.uuid5(uuid.NAMESPACE_OID, f"{lying.message.message_id} {lying.sequence}").hex


def copy_of(lying: Lying) -> Message:
    message = lying.message
    held = {name: value for name, value in message.application_properties.items() if name not in _NOT_COPIED}
    held[Property.REPLAYS] = replays_of(message) + 1
    if message.message_id is not None:
        held.setdefault(Property.REPLAY_OF, message.message_id)
    foreign = {name: value for name, value in message.foreign.items() if name != "message_id"}
    return replace(message, message_id=new_id(lying), application_properties=held, foreign=foreign)


def why_not(lying: Lying, target: Target, *, most_replays: int, unreadable: bool = False) -> str | None:
    """Why it is left where it is, whatever else is known; None if nothing speaks against sending it."""
    message = lying.message
    if lying.fault is not None:
        return f"it cannot be read: {lying.fault}"
    if message.application_properties.get(Property.OVERSIZE) is not None or lying.reason == _OVERSIZE:
        return (
            "it is a stand-in for a change that is too large, and would only come back: raise the largest message of queue and topic, send the row "
            "with `dstream replay` or `dstream snapshot`, and purge this"
        )
    if target.routed and lying.reason in UNREADABLE and not unreadable:
        return (
            f"the router could not read it ({lying.reason}), and would set it aside again: find out who sent it, and purge it; if the router reads "
            "such messages now, replay it with --unreadable"
        )
    if target.sessions and message.session_id is None:
        return f"it has no session, and {target.name} takes none without"
    if (count := replays_of(message)) >= most_replays:
        times = "once" if count == 1 else f"{count} times"
        return f"it was replayed {times}: find out why it comes back, and raise --most-replays"
    return None
