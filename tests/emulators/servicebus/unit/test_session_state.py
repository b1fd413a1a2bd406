"""Session state takes room in its entity, also after it was put back from a journal."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from emulators.servicebus.amqp.values import AmqpError
from emulators.servicebus.description import QueueDescription
from emulators.servicebus.entities.namespace import Namespace
from emulators.servicebus.journal import Forgetful
from emulators.servicebus.message import Message
from emulators.servicebus.store.sessions import SessionStore


@dataclass(eq=False)
class Holder:
    wanted: str | None
    session_id: str | None = None
    credit: int = 0
    receive_and_delete: bool = False

    def granted(self, session_id: str, locked_until: int) -> None:
        self.session_id = session_id

    def denied(self, failure: AmqpError) -> None:
        raise failure

    def deliver(self, message: Message, token: bytes, locked_until: int | None) -> None: ...

    def detach(self, failure: AmqpError) -> None: ...


def store_of(namespace: Namespace) -> SessionStore:
    namespace.create("q", QueueDescription(requires_session=True))
    store = namespace.find("q").store
    assert isinstance(store, SessionStore)
    return store


def test_the_latest_state_counts_and_no_state_does_not() -> None:
    namespace = Namespace(lambda: 1_000.0, Forgetful())
    store = store_of(namespace)
    store.request(Holder("s"), namespace.now(), 0)
    sizes = []
    for state in (b"x" * 100, b"x" * 30, b"", b"x", None):
        store.set_session_state("s", state, namespace.now())
        sizes.append(namespace.get("q").counts.size_in_bytes)
    assert sizes == [100, 30, 0, 1, 0]


def test_state_that_was_put_back_counts() -> None:
    namespace = Namespace(lambda: 1_000.0, Forgetful())
    store = store_of(namespace)
    store.restore_session_state("s", b"x" * 100, 0)
    assert namespace.get("q").counts.size_in_bytes == 100


def test_a_session_nobody_holds_is_lost() -> None:
    namespace = Namespace(lambda: 1_000.0, Forgetful())
    store = store_of(namespace)
    with pytest.raises(AmqpError) as lost:
        store.require_held("s", namespace.now())
    assert lost.value.condition == "com.microsoft:session-lock-lost"
    store.request(Holder("s"), namespace.now(), 0)
    store.require_held("s", namespace.now())
