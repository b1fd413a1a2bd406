"""The reason of a dead letter for what an output refused. Decides nothing else."""

from __future__ import annotations

from common.bus.ports import MessageRefused, MessageTooLarge
from router.envelopes.sender import NotConvertible
from router.publishing.awaited import NoTopic
from router.routes import Reason


def reason_of(error: MessageRefused) -> Reason:
    if isinstance(error, NoTopic):
        return "UnknownDestination"
    if isinstance(error, NotConvertible):
        return "MalformedMessage"
    return "MessageTooLarge" if isinstance(error, MessageTooLarge) else "Refused"
