"""Dead letters: for each reason, in a sentence, what a person does about it. The same that docs/fail.md says at length. Pure."""

from __future__ import annotations

from typing import Final

from router.routes import Reason

_AGAIN: Final = "then replay it"

_OURS: Final[dict[Reason, str]] = {
    "MalformedMessage": "find out who else sends to the queue: it is not a change as the ingester writes it",
    "MissingDestination": "find out who else sends to the queue: it names no topic",
    "UnknownDestination": f'add its table to the router\'s configuration, or set unknown_destination = "create"; {_AGAIN}',
    "MessageTooLarge": f"raise the topic's maximum message size (Premium), or send it in a smaller envelope; {_AGAIN}",
    "Refused": f"fix what the description names; {_AGAIN}",
    "Oversize": "it stands for a change that fits no message: read the row from the table by its key, and leave the column that is too large out",
    "FilterFailed": "correct the table's filter; then decide whether this change shall be delivered: a replay asks the filter no more",
    "RouteFailed": f"correct the route's filter and restart the router; {_AGAIN}",
}
_SERVICE: Final = {
    "MaxDeliveryCountExceeded": f"its receiver took it and did not complete it, again and again: read the receiver's log; {_AGAIN}",
    "TTLExpiredException": "nobody received it within the time to live: start the receiver, or raise the entity's time to live; then replay it",
    "HeaderSizeExceeded": "its properties are larger than 64 KB: find out who sends it",
    "Session ID is null.": "find out who sends messages without a session to an entity that has sessions",
    "MaxTransferHopCountExceeded": "an entity forwards to another in a circle: correct auto-forwarding",
}
"""https://learn.microsoft.com/azure/service-bus-messaging/service-bus-dead-letter-queues"""

_BY_REASON: Final[dict[str, str]] = {reason.casefold(): text for reason, text in (*_OURS.items(), *_SERVICE.items())}
_OF_A_RECEIVER: Final = (
    "its receiver moved it there for a reason of its own: the description, or the receiver's log, says which"
)


def remedy(reason: str | None) -> str:
    """Of a dead letter with this reason; None: it has none."""
    return _BY_REASON.get((reason or "").casefold(), _OF_A_RECEIVER)
