"""Items 1 to 10: messages, batches, order and settlement in a queue."""

from __future__ import annotations

from azure.servicebus import ServiceBusMessage

from tests.contracts.servicebus.contract.labels import item
from tests.contracts.servicebus.contract.namespace import LOCK, Namespace


@item(5, "documented")
def test_sequence_numbers_strictly_increase(namespace: Namespace) -> None:
    """Message after message of one entity has a larger number.

    Source: Microsoft, "Message sequencing and timestamps".
    """
    queue = namespace.queue()
    sender = namespace.sender(queue)
    for body in "abc":
        sender.send_messages(ServiceBusMessage(body))
    received = namespace.receiver(queue).receive_messages(3, max_wait_time=5)
    numbers = [message.sequence_number or 0 for message in received]
    assert [str(message) for message in received] == ["a", "b", "c"]
    assert numbers == sorted(set(numbers))


@item(7, "documented")
def test_a_message_whose_lock_expires_is_delivered_again(namespace: Namespace) -> None:
    """Nobody else gets it before.

    Source: Microsoft, "Message transfers, locks, and settlement".
    """
    queue = namespace.queue()
    namespace.send(queue, "one")
    first, second = namespace.receiver(queue), namespace.receiver(queue)
    assert len(first.receive_messages(1, max_wait_time=5)) == 1
    assert second.receive_messages(1, max_wait_time=1) == []
    namespace.let_pass(LOCK)
    (again,) = second.receive_messages(1, max_wait_time=5)
    assert again.delivery_count == 1
    second.complete_message(again)
