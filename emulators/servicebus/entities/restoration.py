"""What a journal kept, put back into a namespace before anybody connects. None of this is told to the journal.

A shelf is where the journal says something was: at an entity, or at one of its places. What cannot have been there is refused
(ValueError), and so is what belongs to an entity that is not there (EntityMissing).
"""

from __future__ import annotations

from emulators.servicebus.amqp.values import Value
from emulators.servicebus.journal import DEAD_LETTERS, SCHEDULE, TRANSFER_DEAD_LETTERS
from emulators.servicebus.message import Message
from emulators.servicebus.rules.description import RuleInfo
from emulators.servicebus.store.sessions import SessionStore

from .namespace import Namespace
from .node import split_place
from .subscription import Subscription
from .topic import Topic


def restore_rule(namespace: Namespace, subscription: str, rule: RuleInfo) -> None:
    """Put back a rule, in order of creation. Raises EntityMissing, InvalidEntity, ValueError for an entity without rules."""
    entity = namespace.entity(subscription)
    if not isinstance(entity, Subscription):
        raise ValueError(f"'{subscription}' has no rules")
    entity.restore_rule(rule)


def restore_sequence(namespace: Namespace, shelf: str, sequence: int) -> None:
    """Put back the last sequence number given out. Raises EntityMissing."""
    entity = namespace.entity(shelf)
    if isinstance(entity, Subscription):
        entity.outlet.store.restore_sequence(sequence)
    else:
        entity.restore_sequence(sequence)


def restore_message(namespace: Namespace, shelf: str, message: Message) -> None:
    """Put back a message, deferred, scheduled or ready by its state: locks have ended. Fastest in order of sequence.

    Raises EntityMissing, ValueError for a shelf the entity does not have.
    """
    path, place = split_place(shelf, (TRANSFER_DEAD_LETTERS, DEAD_LETTERS, SCHEDULE))
    entity = namespace.entity(path)
    if place == SCHEDULE and not isinstance(entity, Subscription):
        entity.schedule.restore(message)
    elif place != SCHEDULE and not isinstance(entity, Topic):
        entity.outlet.at(place).restore(message)
    else:
        raise ValueError(f"no messages are kept at '{shelf}'")


def restore_session_state(namespace: Namespace, shelf: str, session_id: str, state: bytes, changed_at: int) -> None:
    """Put back a session's state. Raises EntityMissing, ValueError for an entity without sessions."""
    entity = namespace.entity(shelf)
    store = None if isinstance(entity, Topic) else entity.outlet.store
    if not isinstance(store, SessionStore):
        raise ValueError(f"'{shelf}' has no sessions")
    store.restore_session_state(session_id, state, changed_at)


def restore_seen(namespace: Namespace, path: str, message_id: Value, at: int) -> None:
    """Put back an id of duplicate detection; in order of `at`. Raises EntityMissing, ValueError for a subscription."""
    entity = namespace.entity(path)
    if isinstance(entity, Subscription):
        raise ValueError(f"the subscription '{path}' detects no duplicates")
    entity.history.restore(message_id, at)
