"""The broker as people may look at it, read on its event loop, one entity at a time so that nobody waits for long.

Nothing here changes anything, nor counts as use of an entity. What an entity counts anyway is asked for; of sessions, rules
and dead letters the first few are read, never all of them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Final

from emulators.servicebus.amqp.decode import decode
from emulators.servicebus.amqp.values import DecodeError
from emulators.servicebus.entities.namespace import Namespace
from emulators.servicebus.entities.node import Entity
from emulators.servicebus.entities.subscription import Subscription
from emulators.servicebus.entities.topic import Topic
from emulators.servicebus.loop_calls import LoopCalls
from emulators.servicebus.message import APPLICATION_PROPERTIES, Message, leading_sections
from emulators.servicebus.rules.description import RuleInfo
from emulators.servicebus.store.sessions import Session, SessionStore

from .page import Counts, DeadLetterView, EntityView, Overview, SessionView

_LARGEST: Final = 1 << 16
"""Octets of application properties that are read through for the reason of a dead letter."""


class LoopInspection:
    """`page.Inspection` for any thread. How many clients there are and what they spent is asked on the loop.

    Raises NotRunning while the emulator is not running, or when it stops meanwhile.
    """

    def __init__(
        self,
        namespace: Namespace,
        calls: LoopCalls,
        connections: Callable[[], int],
        credits: Callable[[], Mapping[str, int]],
    ) -> None:
        self._namespace = namespace
        self._calls = calls
        self._connections = connections
        self._credits = credits

    def overview(self) -> Overview:
        """See `page.Inspection`."""
        connections, credits, paths = self._calls.call(
            lambda: (self._connections(), self._credits(), [entity.path for entity in self._namespace.entities()])
        )
        return Overview(connections, credits, sorted(paths, key=str.lower))

    def entity(self, path: str, most: int) -> EntityView:
        """See `page.Inspection`."""
        return self._calls.call(lambda: self._view(path, most))

    def _view(self, path: str, most: int) -> EntityView:
        info = self._namespace.get(path)
        entity, rights = self._namespace.entity(path), self._namespace.attached(path)
        sessions, sessions_in_all = _sessions(entity, most)
        rules: dict[str, RuleInfo] = entity.rules if isinstance(entity, Subscription) else {}
        return EntityView(
            info,
            _counts(entity),
            senders=rights.count("Send"),
            receivers=rights.count("Listen"),
            sessions=[_session(session) for session in sessions],
            sessions_in_all=sessions_in_all,
            rules=list(itertools.islice(rules.values(), most)),
            rules_in_all=len(rules),
            dead_letters=[]
            if isinstance(entity, Topic)
            else [_letter(m) for m in entity.outlet.dead_letters.first(most)],
        )


def _counts(entity: Entity) -> Counts:
    scheduled = 0 if isinstance(entity, Subscription) else len(entity.schedule)
    if isinstance(entity, Topic):
        return Counts(0, 0, 0, scheduled, 0, 0)
    store, dead, undelivered = entity.outlet.stores()
    ready, locked, deferred = store.tally()
    return Counts(ready, locked, deferred, scheduled, len(dead), len(undelivered))


def _sessions(entity: Entity, most: int) -> tuple[list[Session], int]:
    store = None if isinstance(entity, Topic) else entity.outlet.store
    return store.first_sessions(most) if isinstance(store, SessionStore) else ([], 0)


def _session(session: Session) -> SessionView:
    until = None if session.owner is None else _moment(session.locked_until)
    return SessionView(session.id, until, session.count, None if session.state is None else len(session.state))


def _letter(message: Message) -> DeadLetterView:
    stated = _stated(message)
    moment = _moment(message.enqueued_at)
    reason, description = stated.get("DeadLetterReason"), stated.get("DeadLetterErrorDescription")
    return DeadLetterView(message.sequence, moment, message.size, message.delivery_count, reason, description)


def _stated(message: Message) -> dict[str, str]:
    """Application properties that are text; none when there are too many octets of them."""
    try:
        for code, start, end in leading_sections(message.tail):
            if code == APPLICATION_PROPERTIES and end - start <= _LARGEST:
                value, _ = decode(message.tail, start)
                pairs = value.items() if isinstance(value, dict) else ()
                return {str(name): text for name, text in pairs if isinstance(text, str)}
    except DecodeError:
        return {}
    return {}


def _moment(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)
