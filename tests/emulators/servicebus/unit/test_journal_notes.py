"""What a namespace tells its journal: the notes, applied in order, are what the namespace holds; and they can be put back."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from emulators.servicebus.amqp.values import AmqpError, Value
from emulators.servicebus.description import (
    Description,
    EntityExists,
    EntityMissing,
    QueueDescription,
    SubscriptionDescription,
    TopicDescription,
)
from emulators.servicebus.entities.namespace import Namespace
from emulators.servicebus.entities.node import Entity
from emulators.servicebus.entities.queue import Queue
from emulators.servicebus.entities.restoration import (
    restore_message,
    restore_rule,
    restore_seen,
    restore_sequence,
    restore_session_state,
)
from emulators.servicebus.entities.subscription import Subscription
from emulators.servicebus.entities.topic import Topic
from emulators.servicebus.journal import DEAD_LETTERS, SCHEDULE, TRANSFER_DEAD_LETTERS, Forgetful
from emulators.servicebus.message import Message, parse_message
from emulators.servicebus.rules.description import DEFAULT_RULE, FalseFilter, RuleDescription, RuleInfo, TrueFilter
from emulators.servicebus.store.outcomes import Outcome
from emulators.servicebus.store.sessions import SessionStore

_SLOTS = [name for name in Message.__slots__ if name not in ("lock_token", "locked_until")]


class Recorder:
    """A journal that applies its notes to dicts."""

    def __init__(self) -> None:
        self.entities: dict[str, tuple[Description, datetime, datetime]] = {}
        self.rules: dict[tuple[str, str], RuleInfo] = {}
        self.shelves: dict[str, dict[int, Message]] = {}
        self.sequences: dict[str, int] = {}
        self.states: dict[tuple[str, str], tuple[bytes, int]] = {}
        self.seen: dict[tuple[str, Value], int] = {}

    def save_entity(self, path: str, description: Description, created_at: datetime, updated_at: datetime) -> None:
        self.entities[path] = (description, created_at, updated_at)

    def drop_entity(self, path: str) -> None:
        del self.entities[path]
        key = path.lower()
        for shelf in ("", DEAD_LETTERS, TRANSFER_DEAD_LETTERS, SCHEDULE):
            self.shelves.pop(key + shelf, None)
        self.sequences.pop(key, None)
        for table in (self.states, self.seen, self.rules):
            for name in [name for name in table if name[0] == key]:
                del table[name]

    def save_rule(self, subscription: str, rule: RuleInfo) -> None:
        self.rules[subscription, rule.name] = rule

    def drop_rule(self, subscription: str, name: str) -> None:
        del self.rules[subscription, name]

    def save_message(self, shelf: str, message: Message) -> None:
        self.shelves.setdefault(shelf, {})[message.sequence] = message.copy()

    def drop_message(self, shelf: str, sequence: int) -> None:
        del self.shelves[shelf][sequence]

    def save_sequence(self, shelf: str, sequence: int) -> None:
        self.sequences[shelf] = sequence

    def save_session_state(self, shelf: str, session_id: str, state: bytes | None, changed_at: int) -> None:
        self.states.pop((shelf, session_id), None)
        if state is not None:
            self.states[shelf, session_id] = (state, changed_at)

    def save_seen(self, path: str, message_id: Value, at: int) -> None:
        self.seen[path, message_id] = at

    def drop_seen(self, path: str, message_id: Value) -> None:
        del self.seen[path, message_id]

    def commit(self) -> None: ...


def facts(message: Message) -> dict[str, Any]:
    """All of a message but its lock."""
    return {name: getattr(message, name) for name in _SLOTS}


def kept(recorder: Recorder) -> dict[str, dict[int, dict[str, Any]]]:
    return {
        shelf: {sequence: facts(message) for sequence, message in messages.items()}
        for shelf, messages in recorder.shelves.items()
        if messages
    }


def held(namespace: Namespace) -> dict[str, dict[int, dict[str, Any]]]:
    shelves: dict[str, list[Message]] = {}
    for entity in namespace.entities():
        path = entity.path.lower()
        if isinstance(entity, Queue | Topic):
            shelves[path + SCHEDULE] = list(entity.schedule)
        if isinstance(entity, Queue | Subscription):
            shelves[path] = list(entity.outlet.store.messages())
            shelves[path + DEAD_LETTERS] = list(entity.outlet.dead_letters.messages())
            shelves[path + TRANSFER_DEAD_LETTERS] = list(entity.outlet.transfer_dead_letters.messages())
    return {shelf: {m.sequence: facts(m) for m in messages} for shelf, messages in shelves.items() if messages}


def replayed(recorder: Recorder, clock: Any) -> Namespace:
    """A namespace of what the notes amount to."""
    namespace = Namespace(clock, Forgetful())
    for path, entity in recorder.entities.items():
        namespace.restore_entity(path, *entity)
    for (subscription, _), rule in recorder.rules.items():
        restore_rule(namespace, subscription, rule)
    for shelf, messages in recorder.shelves.items():
        for message in messages.values():
            restore_message(namespace, shelf, message.copy())
    for shelf, sequence in recorder.sequences.items():
        restore_sequence(namespace, shelf, sequence)
    for (shelf, session), state in recorder.states.items():
        restore_session_state(namespace, shelf, session, *state)
    for (path, message_id), at in recorder.seen.items():
        restore_seen(namespace, path, message_id, at)
    return namespace


@dataclass(eq=False)
class Receiver:
    credit: int = 0
    receive_and_delete: bool = False
    wanted: str | None = None
    session_id: str | None = None
    got: list[bytes] = field(default_factory=list)

    def deliver(self, message: Message, token: bytes, locked_until: int | None) -> None:
        self.credit -= 1
        self.got.append(token)

    def detach(self, failure: AmqpError) -> None: ...

    def granted(self, session_id: str, locked_until: int) -> None:
        self.session_id = session_id

    def denied(self, failure: AmqpError) -> None: ...


def message(number: int, scheduled_at: int | None) -> Message:
    fresh = parse_message(b"\x00\x53\x75\xa0\x01x")
    fresh.session_id = f"s{number % 2}" if number != 3 else None
    fresh.message_id = f"id{number}"
    fresh.ttl = 20_000 if number % 5 == 0 else None
    fresh.scheduled_at = scheduled_at
    return fresh


SECOND = timedelta(seconds=1)
QUEUE = QueueDescription(
    lock_duration=10 * SECOND, max_delivery_count=2, dead_lettering_on_message_expiration=True,
    requires_duplicate_detection=True, duplicate_detection_history_time_window=30 * SECOND,
)  # fmt: skip
ENTITIES: dict[str, Description] = {
    "Dead": QueueDescription(max_size_in_megabytes=1),
    "Plain": QUEUE,
    "Ordered": QueueDescription(
        requires_session=True, lock_duration=10 * SECOND, forward_dead_lettered_messages_to="Dead"
    ),
    "News": TopicDescription(),
    "News/Subscriptions/One": SubscriptionDescription(lock_duration=10 * SECOND, max_delivery_count=1),
    "News/Subscriptions/Two": SubscriptionDescription(requires_session=True),
    "News/Subscriptions/Through": SubscriptionDescription(forward_to="Ordered"),
}
STEPS = st.one_of(
    st.tuples(st.sampled_from(["send", "schedule"]), st.sampled_from(["plain", "ordered", "news"]), st.integers(0, 9)),
    st.tuples(
        st.sampled_from(["receive", "delete", "dead", *Outcome, "deferred", "state", "close"]),
        st.sampled_from(["plain", "ordered", "news/subscriptions/one", "news/subscriptions/two"]),
        st.integers(0, 3),
    ),
    st.tuples(st.just("rule"), st.sampled_from(["One", "Two"]), st.integers(0, 3)),
    st.tuples(st.just("wait"), st.just(""), st.integers(1, 40)),
    st.tuples(st.just("recreate"), st.sampled_from(list(ENTITIES)), st.just(0)),
)


class World:
    """A namespace, one receiver for each of its stores, and a clock."""

    def __init__(self) -> None:
        self.seconds = 1_000.0
        self.journal = Recorder()
        self.namespace = Namespace(lambda: self.seconds, self.journal)
        self.receivers: dict[tuple[str, str], Receiver] = {}
        for path, description in ENTITIES.items():
            self.namespace.create(path, description)

    def do(self, step: object, path: str, number: int) -> None:
        now = self.namespace.now()
        if step == "wait":
            self.seconds += number
            self.namespace.sweep()
            assert all(entity.due > self.namespace.now() for entity in self.namespace.entities())
        elif step == "rule":
            self.rule("News/Subscriptions/" + path, number)
        elif step == "recreate":
            self.namespace.delete(path)
            self.receivers.clear()
            for name, description in ENTITIES.items():
                if name.startswith(path):
                    self.namespace.create(name, description)
        elif step in ("send", "schedule"):
            entity = self.namespace.find(path).entity
            assert isinstance(entity, Queue | Topic)
            with contextlib.suppress(AmqpError):  # a message without session where sessions are required
                entity.accept([message(number, now + 1000 * number if step == "schedule" else None)], now)
        else:
            self.serve(step, path, number, now)

    def rule(self, subscription: str, number: int) -> None:
        with contextlib.suppress(EntityExists, EntityMissing):
            if number == 0:
                self.namespace.delete_rule(subscription, DEFAULT_RULE)
            elif number == 1:
                self.namespace.create_rule(subscription, DEFAULT_RULE, RuleDescription())
            else:
                self.namespace.update_rule(
                    subscription, DEFAULT_RULE, RuleDescription((TrueFilter, FalseFilter)[number - 2]())
                )

    def serve(self, step: object, path: str, number: int, now: int) -> None:
        store = self.namespace.find(path + (DEAD_LETTERS if step == "dead" else "")).store
        assert store is not None
        receiver = self.receivers.get((path, str(step)))
        if step in ("receive", "delete", "dead"):
            receiver = self.receivers[path, ""] = self.receivers[path, str(step)] = Receiver(number, step == "delete")
            if isinstance(store, SessionStore):
                store.request(receiver, now, 0)
            store.feed(receiver, now)  # type: ignore[attr-defined]  # both kinds of store have it
            return
        receiver = self.receivers.get((path, ""))
        if receiver is None:
            return
        with contextlib.suppress(AmqpError):
            if isinstance(step, Outcome):
                if receiver.got:
                    store.settle(receiver.got.pop(0), step, now, ("reason", "description"))
                    store.pump(now)
            elif step == "deferred":
                receiver.got += [m.lock_token or b"" for m in store.take_deferred([number], now, None, number == 2)]
            elif isinstance(store, SessionStore):
                if step == "state":
                    store.set_session_state(receiver.session_id or "s0", b"x" * number or None, now)
                else:
                    store.leave(receiver, now)


@settings(max_examples=300, deadline=None)
@given(st.lists(STEPS, max_size=40))
def test_the_notes_amount_to_what_the_namespace_holds_and_can_be_put_back(steps: list[tuple[object, str, int]]) -> None:
    world = World()
    for step in steps:
        world.do(*step)
        assert kept(world.journal) == held(world.namespace)
    again = replayed(world.journal, lambda: world.seconds)
    assert held(again) == held(world.namespace)
    for before, after in zip(world.namespace.entities(), again.entities(), strict=True):
        assert (before.path, before.description) == (after.path, after.description)
        assert before.counts() == after.counts()
        assert session_names(before) == session_names(after)
        if isinstance(before, Subscription) and isinstance(after, Subscription):
            assert before.rules == after.rules
    for sequence_of in ("plain", "ordered", "news"):
        pair = [n.find(sequence_of).entity for n in (world.namespace, again)]
        assert len({e.accept([message(77, None)], world.namespace.now())[0] for e in pair}) == 1  # type: ignore[union-attr]
    duplicate = again.find("plain").entity
    assert isinstance(duplicate, Queue)
    for (path, message_id), _ in world.journal.seen.items():
        if path == "plain":
            copy = message(0, None)
            copy.message_id = message_id
            assert duplicate.accept([copy], world.namespace.now()) == [0]


def session_names(entity: Entity) -> list[str]:
    store = None if isinstance(entity, Topic) else entity.outlet.store
    return store.session_names(None) if isinstance(store, SessionStore) else []


def test_settings_and_times_are_told_and_put_back() -> None:
    world = World()
    world.seconds += 5
    world.namespace.update("plain", QueueDescription(requires_duplicate_detection=True, max_delivery_count=7))
    again = replayed(world.journal, lambda: world.seconds)
    before, after = world.namespace.get("plain"), again.get("PLAIN")
    assert (after.path, after.description) == ("Plain", before.description)
    assert (after.created_at, after.updated_at) == (before.created_at, before.updated_at)
    assert after.created_at < after.updated_at


def test_a_message_put_back_is_nobodys() -> None:
    world = World()
    world.do("send", "plain", 1)
    world.do("receive", "plain", 1)
    again = replayed(world.journal, lambda: world.seconds)
    store = again.find("plain").store
    assert store is not None
    receiver = Receiver(credit=1)
    store.feed(receiver, again.now())  # type: ignore[attr-defined]
    assert len(receiver.got) == 1
