"""`$management` of an entity: locks, peeking, deferred and scheduled messages, sessions.

Every operation the Python SDK sends is here; rules and transactions are refused by name (501).
Source: learn.microsoft.com "AMQP 1.0 in Azure Service Bus: request-response-based operations".
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any, Final
from uuid import UUID

from .amqp.link import Link
from .amqp.values import AmqpError, Array, Int, Timestamp, Value
from .entity import Ingress, Queue, Topic
from .message import Message, parse_message, render
from .namespace import Node
from .requests import Request, RequestEndpoint, Response, required, text
from .sessions import SessionStore
from .store import MessageStore, Outcome

OK: Final = "OK"
_VENDOR: Final = "com.microsoft:"
_RECEIVE_AND_DELETE: Final = 0
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
}
_SEND_OPERATIONS: Final = frozenset(("schedule-message", "cancel-scheduled-message"))


class ManagementEndpoint(RequestEndpoint):
    """Requests to one entity, found anew for each (it may be deleted). `permitted` tells whether the client has a right on it now."""

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
        return operation(self._find(), request.body, self._clock())


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


def _tokens(body: Value) -> list[bytes]:
    return [token.bytes_le for token in required(body, "lock-tokens") if isinstance(token, UUID)]


def _renew_lock(node: Node, body: Value, now: int) -> Response:
    store, tokens = _store(node), _tokens(body)
    for token in tokens:
        if not store.holds(token, now):
            raise store.lost(token)
    return Response(200, OK, {"expirations": Array(Timestamp, [Timestamp(store.renew(t, now)) for t in tokens])})


def _peek(node: Node, body: Value, now: int) -> Response:
    start, count = required(body, "from-sequence-number"), required(body, "message-count")
    session = body.get("session-id")
    node.entity.sweep(now)
    here: list[Message] = []
    if node.store is not None:
        here += node.store.messages()
    if isinstance(node.entity, Ingress) and not node.dead_letters:
        here += node.entity.schedule
    wanted = (m for m in here if m.sequence >= start and session in (None, m.session_id))
    found = heapq.nsmallest(count, wanted, key=lambda message: message.sequence)
    if not found:
        return Response(204, "No messages.")
    return Response(200, OK, {"messages": [{"message": render(message)} for message in found]})


def _receive_by_sequence_number(node: Node, body: Value, now: int) -> Response:
    delete = body.get("receiver-settle-mode") == _RECEIVE_AND_DELETE
    sequences = required(body, "sequence-numbers")
    found = _store(node).take_deferred(sequences, now, body.get("session-id"), delete)
    return Response(200, OK, {"messages": [_locked(message) for message in found]})


def _locked(message: Message) -> dict[str, Any]:
    if message.lock_token is None:
        return {"message": render(message), "lock-token": UUID(int=0)}
    return {"message": render(message, message.locked_until), "lock-token": UUID(bytes_le=message.lock_token)}


def _update_disposition(node: Node, body: Value, now: int) -> Response:
    status = text(required(body, "disposition-status"))
    if status not in _OUTCOMES:
        raise AmqpError("amqp:not-implemented", f"Disposition '{status}' is not supported.")
    if body.get("properties-to-modify"):
        raise AmqpError("amqp:not-implemented", "properties-to-modify is not supported.")
    store, tokens = _store(node), _tokens(body)
    for token in tokens:
        if not store.holds(token, now):
            raise store.lost(token)
    reason = (body.get("deadletter-reason"), body.get("deadletter-description"))
    for token in tokens:
        store.settle(token, _OUTCOMES[status], now, reason)
    store.pump(now)
    return Response(200, OK)


def _schedule(node: Node, body: Value, now: int) -> Response:
    messages = [parse_message(item["message"]) for item in required(body, "messages")]
    return Response(200, OK, {"sequence-numbers": Array(int, _ingress(node).accept(messages, now))})


def _cancel_scheduled(node: Node, body: Value, now: int) -> Response:
    ingress = _ingress(node)
    ingress.release_due(now)
    ingress.cancel_scheduled(required(body, "sequence-numbers"))
    return Response(200, OK)


def _renew_session_lock(node: Node, body: Value, now: int) -> Response:
    return Response(
        200, OK, {"expiration": Timestamp(_sessions(node).renew_session(required(body, "session-id"), now))}
    )


def _get_session_state(node: Node, body: Value, now: int) -> Response:
    return Response(200, OK, {"session-state": _sessions(node).session_state(required(body, "session-id"), now)})


def _set_session_state(node: Node, body: Value, now: int) -> Response:
    state = required(body, "session-state")
    _sessions(node).set_session_state(required(body, "session-id"), None if state is None else bytes(state), now)
    return Response(200, OK)


def _get_message_sessions(node: Node, body: Value, now: int) -> Response:
    updated, skip, top = (required(body, name) for name in ("last-updated-time", "skip", "top"))
    store = _sessions(node)
    store.sweep(now)
    names = store.session_names(None if updated >= _EVERY_SESSION else updated)[skip : skip + top]
    if not names:
        return Response(204, "No sessions.", condition="com.microsoft:session-not-found")
    return Response(200, OK, {"skip": Int(skip + len(names)), "sessions-ids": Array(str, names)})


_OPERATIONS: Final[dict[str, Callable[[Node, Value, int], Response]]] = {
    "renew-lock": _renew_lock,
    "peek-message": _peek,
    "receive-by-sequence-number": _receive_by_sequence_number,
    "update-disposition": _update_disposition,
    "schedule-message": _schedule,
    "cancel-scheduled-message": _cancel_scheduled,
    "renew-session-lock": _renew_session_lock,
    "get-session-state": _get_session_state,
    "set-session-state": _set_session_state,
    "get-message-sessions": _get_message_sessions,
}
