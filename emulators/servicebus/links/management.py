"""`$management` of an entity: locks, peeking, deferred and scheduled messages, sessions, rules, deletion in batches.

Every operation that is documented or that one of Microsoft's clients sends is here; others are refused by name (501).
Sources: learn.microsoft.com "AMQP 1.0 in Azure Service Bus: request-response-based operations", "Batch delete messages in
Azure Service Bus"; Azure/azure-sdk-for-js and azure-sdk-for-go for the wire form of the latter.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import islice
from typing import Any, Final
from uuid import UUID

from emulators.servicebus.amqp.link import Link
from emulators.servicebus.amqp.values import AmqpError, Array, DecodeError, Int, Timestamp
from emulators.servicebus.entities.ingress import Ingress
from emulators.servicebus.entities.node import Node
from emulators.servicebus.entities.queue import Queue
from emulators.servicebus.entities.subscription import Subscription
from emulators.servicebus.entities.topic import Topic
from emulators.servicebus.message import Message, parse_message, render
from emulators.servicebus.store.message_store import MessageStore
from emulators.servicebus.store.outcomes import Outcome
from emulators.servicebus.store.sessions import SessionStore

from .fields import Fields, invalid, user_properties
from .requests import OK, Request, RequestEndpoint, Response, text
from .rule_operations import add_rule, enumerate_rules, remove_rule

_VENDOR: Final = "com.microsoft:"
_RECEIVE_AND_DELETE: Final = 0
_MOST_DELETED: Final = 500
"""Messages that one batch deletes at most, in the Standard tier."""
_EVERY_SESSION: Final = 253_402_300_800_000
"""`last-updated-time` of year 10000: all sessions, whenever their state changed."""
_OUTCOMES: Final = {
    "completed": Outcome.COMPLETE,
    "abandoned": Outcome.ABANDON,
    "defered": Outcome.DEFER,  # the protocol's spelling
    "suspended": Outcome.DEAD_LETTER,
}
_STATUS: Final = {
    "amqp:not-found": 404,
    "amqp:not-implemented": 501,
    "amqp:unauthorized-access": 401,
    "amqp:resource-limit-exceeded": 403,
    "com.microsoft:message-not-found": 404,
    "com.microsoft:message-lock-lost": 410,
    "com.microsoft:session-lock-lost": 410,
    "com.microsoft:entity-disabled": 403,
    "com.microsoft:entity-already-exists": 409,
}
_SEND_OPERATIONS: Final = frozenset(("schedule-message", "cancel-scheduled-message"))


class ManagementEndpoint(RequestEndpoint):
    """Requests to one entity, found anew for each (it may be deleted). `permitted` tells whether the client has a right on it now.

    Sending rights are for what sends, listening rights for everything else, rules included ("The rule manager requires only
    Listen claims", ServiceBusRuleManager).
    """

    def __init__(self, find: Callable[[], Node], clock: Callable[[], int], permitted: Callable[[str], bool]) -> None:
        self._find = find
        self._clock = clock
        self._permitted = permitted

    def refusal(self, failure: AmqpError) -> Response:
        """400 for what has no status of its own."""
        return Response(_STATUS.get(failure.condition, 400), failure.description, condition=failure.condition)

    def handle(self, link: Link, request: Request) -> Response:
        """Raises AmqpError."""
        name = text(request.properties.get("operation", "")).removeprefix(_VENDOR)
        operation = _OPERATIONS.get(name)
        if operation is None:
            raise AmqpError("amqp:not-implemented", f"Operation '{name}' is not supported.")
        right = "Send" if name in _SEND_OPERATIONS else "Listen"
        if not self._permitted(right):
            raise AmqpError("amqp:unauthorized-access", f"Unauthorized access. '{right}' claim(s) are required.")
        return operation(self._find(), Fields(request.body), self._clock())


def _store(node: Node) -> MessageStore:
    if node.store is None:
        raise AmqpError("amqp:not-allowed", f"'{node.entity.path}' is a topic: receive from its subscriptions.")
    return node.store


def _sessions(node: Node) -> SessionStore:
    store = _store(node)
    if not isinstance(store, SessionStore):
        raise AmqpError("amqp:not-allowed", f"'{node.entity.path}' does not support sessions.")
    return store


def _ingress(node: Node) -> Ingress:
    if isinstance(node.entity, Queue | Topic) and not node.dead_letters:
        return node.entity
    raise AmqpError("amqp:not-allowed", f"'{node.entity.path}' cannot be sent to.")


def _subscription(node: Node) -> Subscription:
    if isinstance(node.entity, Subscription) and not node.dead_letters:
        return node.entity
    raise AmqpError("amqp:not-allowed", f"'{node.entity.path}' is no subscription: it has no rules.")


# -- locks and settlement


def _renew_lock(node: Node, body: Fields, now: int) -> Response:
    store, tokens = _held(node, body, now)
    return Response(200, OK, {"expirations": Array(Timestamp, [Timestamp(store.renew(t, now)) for t in tokens])})


def _held(node: Node, body: Fields, now: int) -> tuple[MessageStore, list[bytes]]:
    """The store and the tokens, each of which locks a message there; under the lock of the session that is named, if one is."""
    store = _store(node)
    tokens = [token.bytes_le for token in body.uuids("lock-tokens")]
    session = body.optional_text("session-id")
    if session is not None and isinstance(store, SessionStore):
        store.require_held(session, now)
    for token in tokens:
        if not store.holds(token, now):
            raise store.lost(token)
    return store, tokens


def _update_disposition(node: Node, body: Fields, now: int) -> Response:
    status = body.text("disposition-status")
    if status not in _OUTCOMES:
        raise AmqpError("amqp:not-implemented", f"Disposition '{status}' is not supported.")
    reason = (body.optional_text("deadletter-reason"), body.optional_text("deadletter-description"))
    name = "properties-to-modify"
    changes = user_properties(body.value(name), name) if name in body else {}
    store, tokens = _held(node, body, now)
    for token in dict.fromkeys(tokens):
        store.settle(token, _OUTCOMES[status], now, reason, changes)
    store.pump(now)
    return Response(200, OK)


def _receive_by_sequence_number(node: Node, body: Fields, now: int) -> Response:
    delete = body.integer("receiver-settle-mode") == _RECEIVE_AND_DELETE
    sequences = body.integers("sequence-numbers")
    found = _store(node).take_deferred(sequences, now, body.optional_text("session-id"), delete)
    return Response(200, OK, {"messages": [_locked(message) for message in found]})


def _locked(message: Message) -> dict[str, Any]:
    if message.lock_token is None:
        return {"message": render(message), "lock-token": UUID(int=0)}
    locked = render(message, message.locked_until, message.lock_token)
    return {"message": locked, "lock-token": UUID(bytes_le=message.lock_token)}


# -- looking and deleting


def _peek(node: Node, body: Fields, now: int) -> Response:
    start, count = body.integer("from-sequence-number", least=-(1 << 63)), body.integer("message-count", least=1)
    session = body.optional_text("session-id")
    node.entity.sweep(now)
    sources = [] if node.store is None else [node.store.since(start)]
    if isinstance(node.entity, Ingress) and not node.dead_letters:
        sources.append(node.entity.schedule.since(start))
    ordered = heapq.merge(*sources, key=lambda message: message.sequence)
    found = list(islice((m for m in ordered if session in (None, m.session_id)), count))
    if not found:
        return Response(204, "No messages.")
    return Response(200, OK, {"messages": [{"message": render(message)} for message in found]})


def _batch_delete(node: Node, body: Fields, now: int) -> Response:
    count, before = min(body.integer("message-count", least=1), _MOST_DELETED), body.moment("enqueued-time-utc")
    deleted = _store(node).delete(count, before, body.optional_text("session-id"), now)
    return Response(200, OK, {"message-count": Int(deleted)}) if deleted else Response(204, "No messages.")


# -- scheduling


def _schedule(node: Node, body: Fields, now: int) -> Response:
    messages = []
    for item in body.maps("messages"):
        try:
            messages.append(parse_message(item.binary("message")))
        except DecodeError as error:
            raise invalid(item.called("message"), f"is no message: {error.description}") from None
    return Response(200, OK, {"sequence-numbers": Array(int, _ingress(node).accept(messages, now))})


def _cancel_scheduled(node: Node, body: Fields, now: int) -> Response:
    ingress = _ingress(node)
    ingress.release_due(now)
    ingress.cancel_scheduled(body.integers("sequence-numbers"))
    return Response(200, OK)


# -- sessions


def _renew_session_lock(node: Node, body: Fields, now: int) -> Response:
    return Response(200, OK, {"expiration": Timestamp(_sessions(node).renew_session(body.text("session-id"), now))})


def _get_session_state(node: Node, body: Fields, now: int) -> Response:
    return Response(200, OK, {"session-state": _sessions(node).session_state(body.text("session-id"), now)})


def _set_session_state(node: Node, body: Fields, now: int) -> Response:
    _sessions(node).set_session_state(body.text("session-id"), body.nullable_binary("session-state"), now)
    return Response(200, OK)


def _get_message_sessions(node: Node, body: Fields, now: int) -> Response:
    updated, skip, top = body.moment("last-updated-time"), body.integer("skip"), body.integer("top")
    store = _sessions(node)
    store.sweep(now)
    names = store.session_names(None if updated >= _EVERY_SESSION else updated)[skip : skip + top]
    if not names:
        return Response(204, "No sessions.", condition="com.microsoft:session-not-found")
    return Response(200, OK, {"skip": Int(skip + len(names)), "sessions-ids": Array(str, names)})


_OPERATIONS: Final[dict[str, Callable[[Node, Fields, int], Response]]] = {
    "renew-lock": _renew_lock,
    "peek-message": _peek,
    "receive-by-sequence-number": _receive_by_sequence_number,
    "update-disposition": _update_disposition,
    "batch-delete-messages": _batch_delete,
    "schedule-message": _schedule,
    "cancel-scheduled-message": _cancel_scheduled,
    "renew-session-lock": _renew_session_lock,
    "get-session-state": _get_session_state,
    "set-session-state": _set_session_state,
    "get-message-sessions": _get_message_sessions,
    "add-rule": lambda node, body, now: add_rule(_subscription(node), body, now),
    "remove-rule": lambda node, body, now: remove_rule(_subscription(node), body),
    "enumerate-rules": lambda node, body, now: enumerate_rules(_subscription(node), body),
}
