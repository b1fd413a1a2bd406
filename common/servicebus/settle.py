"""Completes many deliveries with one disposition: the protocol has this, and the SDK does not offer it.

`complete_message` of azure-servicebus 7.15 waits one round trip for each message. AMQP settles a range of delivery ids at once
(AMQP 1.0, 2.7.6; "Multi-message receive" in https://learn.microsoft.com/azure/service-bus-messaging/service-bus-amqp-protocol-guide).
It uses private names of the 7.15 line, so each receiver's link is checked first. When something is missing or works differently, callers
settle one by one, and the log says so once.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import structlog
from azure.servicebus import ServiceBusReceivedMessage, ServiceBusReceiver
from azure.servicebus._pyamqp.outcomes import Accepted

_WANTED = frozenset(
    {"wait", "first_delivery_id", "last_delivery_id", "delivery_tag", "settled", "delivery_state", "await_outcome"}
)

log = structlog.get_logger(__name__)


class OutcomeUnknown(Exception):
    """The link was lost, or no answer came: some of the deliveries may be settled and some not."""


def supported(receiver: ServiceBusReceiver) -> bool:
    """Whether the open link of this receiver has what this module relies on."""
    if _refused:
        return False
    missing = _missing(getattr(receiver, "_handler", None))
    if missing is not None:
        refuse(missing)
    return missing is None


def _missing(handler: Any) -> str | None:
    link: Any = getattr(handler, "_link", None)
    connection: Any = getattr(handler, "_connection", None)
    if not isinstance(getattr(link, "_pending_dispositions", None), dict):
        return "its links keep no open dispositions"
    if not isinstance(getattr(link, "_received_delivery_tags", None), set):
        return "its links keep no delivery tags"
    if not callable(getattr(connection, "listen", None)):
        return "its connections cannot be listened to"
    if not all(hasattr(getattr(each, "state", None), "name") for each in (link, connection)):
        return "its links have no state"
    return None if _takes_ranges(link.__class__) else "its links take no ranges of deliveries"


@lru_cache
def _takes_ranges(link: Any) -> bool:
    try:
        return set(inspect.signature(link.send_disposition).parameters) >= _WANTED
    except (AttributeError, TypeError, ValueError):
        return False


_refused: list[str] = []
"""Why this process settles one by one; empty when it does not."""


def refuse(why: str) -> None:
    """From now on this process settles one by one."""
    if not _refused:
        log.warning(
            "this azure-servicebus is not the one that this release was made for: messages are completed one by one",
            reason=why,
            hint="install the version that the release names; until then the router is much slower",
        )
        _refused.append(why)


def delivery_id(message: ServiceBusReceivedMessage) -> int | None:
    """The AMQP delivery id, or None when the SDK does not keep it."""
    number = getattr(message, "_delivery_id", None)
    return number if isinstance(number, int) else None


def settled(message: ServiceBusReceivedMessage) -> bool:
    """Whether it was settled, or may have been; True when the SDK does not keep that."""
    return bool(getattr(message, "_settled", True))


def contiguous(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Ascending runs of delivery ids as (first, last); management answers use up ids of their own, so gaps are normal."""
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return runs


def complete(
    receiver: ServiceBusReceiver, messages: Sequence[ServiceBusReceivedMessage], *, timeout: float
) -> list[ServiceBusReceivedMessage]:
    """Complete all with one disposition for each contiguous run and one wait; return those that the service did not complete.

    Raises OutcomeUnknown, or whatever the connection raises. An AttributeError or TypeError means that the SDK is built differently.
    """
    handler: Any = receiver._handler
    link = getattr(handler, "_link", None)
    if link is None:
        raise OutcomeUnknown("the link is closed")
    by_id = {message._delivery_id: message for message in messages}
    pending: dict[int, dict[str, Any]] = link._pending_dispositions
    for number in by_id:
        pending[number] = {"settled": False, "outcome": None}
    try:
        for first, last in contiguous(by_id):
            link.send_disposition(
                wait=False,
                first_delivery_id=first,
                last_delivery_id=last,
                delivery_tag=by_id[first]._delivery_tag,
                settled=False,
                delivery_state=Accepted(),
                await_outcome=False,
            )
        _await(handler, [pending[number] for number in by_id], timeout)
        return [message for number, message in by_id.items() if not _accepted(pending[number]["outcome"])]
    finally:
        for number, message in by_id.items():
            pending.pop(number, None)
            # The SDK forgets only one tag of a range; sixteen bytes for each message would stay.
            link._received_delivery_tags.discard(message._delivery_tag)
            message._settled = True


def _await(handler: Any, answers: Sequence[dict[str, Any]], timeout: float) -> None:
    deadline = time.monotonic() + timeout
    connection, link = handler._connection, handler._link
    answered = 0
    while True:
        while answered < len(answers) and answers[answered]["settled"]:
            answered += 1
        if answered == len(answers):
            return
        if time.monotonic() >= deadline:
            raise OutcomeUnknown("no answer to the settlement came in time")
        connection.listen(wait=False)
        if link.state.name in {"DETACHED", "ERROR"} or connection.state.name == "END":
            raise OutcomeUnknown("the link closed before the settlement was answered")


def _accepted(outcome: dict[str, Any] | None) -> bool:
    return bool(outcome) and "accepted" in (outcome or {})


def give_back(receiver: ServiceBusReceiver, messages: Sequence[ServiceBusReceivedMessage]) -> None:
    """Settle as `released`: available at once, delivery count unchanged (AMQP 1.0, 3.4.4). Fire and forget."""
    handler: Any = receiver._handler
    if handler is None:
        return
    for message in messages:
        handler.settle_messages(message._delivery_id, message._delivery_tag, "released")
        message._settled = True
