"""What delivery states that clients send mean for a message."""

from __future__ import annotations

import pytest

from emulators.servicebus.amqp import performatives as p
from emulators.servicebus.amqp.values import Described
from emulators.servicebus.links.endpoints import settle

from .test_store import Receiver, competing, message


@pytest.mark.parametrize(("state", "count"), [
    (Described(p.MODIFIED, [True, False]), 1),
    (Described(p.MODIFIED, [False, False]), 1),  # azservicebus for Go
    (Described(p.MODIFIED, [None, False]), 1),  # @azure/service-bus
    (Described(p.MODIFIED, []), 1),
    (Described(p.RELEASED, []), 0),
])  # fmt: skip
def test_abandoning_counts_a_delivery_whatever_the_client_says_of_failure(state: Described, count: int) -> None:
    store, _ = competing()
    receiver = Receiver()
    store.feed(receiver, 0)
    store.enqueue(message(), 0)
    store.pump(0)
    [(token, _)] = receiver.got
    assert settle(store, token, state, 1) is None
    assert [found.delivery_count for _, found in receiver.got[1:]] == [count]
