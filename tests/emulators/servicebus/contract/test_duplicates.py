"""Items 25 and 26: duplicate detection, its window and its scope."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from azure.servicebus import ServiceBusMessage

from tests.emulators.servicebus.contract.labels import item
from tests.emulators.servicebus.contract.namespace import SECOND, Namespace
from tests.emulators.servicebus.contract.receiving import take

WINDOW = 20 * SECOND
"""The shortest that Service Bus allows."""


def detecting(namespace: Namespace, **settings: Any) -> str:
    """A queue that knows what it had."""
    return namespace.queue(
        requires_duplicate_detection=True, duplicate_detection_history_time_window=WINDOW, **settings
    )


@item(25, "documented")
def test_a_message_with_a_known_id_is_accepted_and_dropped(namespace: Namespace) -> None:
    """Nothing but the id is looked at, and the sender is not told.

    Source: Microsoft, "Duplicate detection"; azure-servicebus, test_queue_message_duplicate_detection.
    """
    queue = detecting(namespace)
    namespace.send(queue, "first", message_id="same", subject="a")
    namespace.send(queue, "second", message_id="same", subject="b", correlation_id="other")
    namespace.send(queue, "other", message_id="new", subject="a")
    assert namespace.drain(queue, 2) == ["first", "other"]
    assert namespace.counts(queue).active == 0


@item(25, "documented")
def test_a_uuid_is_an_id_like_others(namespace: Namespace) -> None:
    """Known when it comes again.

    Source: azure-servicebus, test_queue_message_duplicate_detection.
    """
    queue = detecting(namespace)
    identifier: Any = uuid.uuid4()
    for body in ("first", "second"):
        namespace.send(queue, body, message_id=identifier)
    assert namespace.drain(queue, 1) == ["first"]
    assert namespace.counts(queue).active == 0


@item(25, "documented")
def test_a_duplicate_in_a_batch_is_dropped_alone(namespace: Namespace) -> None:
    """The others of the batch are not.

    Source: Microsoft, "Duplicate detection".
    """
    queue = detecting(namespace)
    namespace.send(queue, "first", message_id="same")
    ids = {"second": "same", "new": "new", "third": "new"}
    batch = [ServiceBusMessage(body, message_id=identifier) for body, identifier in ids.items()]
    namespace.sender(queue).send_messages(batch)
    assert namespace.drain(queue, 2) == ["first", "new"]
    assert namespace.counts(queue).active == 0


@item(25, "documented")
def test_without_detection_nothing_is_dropped(namespace: Namespace) -> None:
    """The id means nothing to the broker.

    Source: Microsoft, "Duplicate detection".
    """
    queue = namespace.queue()
    for body in ("first", "second"):
        namespace.send(queue, body, message_id="same")
    assert namespace.drain(queue, 2) == ["first", "second"]


@item(25, "measured")
def test_a_message_is_known_after_it_was_received(namespace: Namespace) -> None:
    """The history is of what was sent, not of what is there.

    Source: Azure/azure-service-bus issue 243, answered by Microsoft.
    """
    queue = detecting(namespace)
    namespace.send(queue, "first", message_id="same")
    assert namespace.drain(queue, 1) == ["first"]
    namespace.send(queue, "second", message_id="same")
    assert namespace.counts(queue).active == 0


@item(25, "documented")
@pytest.mark.parametrize("first", ["scheduled", "sent"])
def test_scheduled_messages_are_held_against_sent_ones(namespace: Namespace, first: str) -> None:
    """And sent ones against scheduled ones: the first stays.

    Source: Microsoft, "Duplicate detection".
    """
    queue = detecting(namespace)
    sender = namespace.sender(queue)
    due = namespace.now() + 60 * SECOND

    def schedule() -> None:
        sender.schedule_messages(ServiceBusMessage("scheduled", message_id="same"), due)

    def send() -> None:
        sender.send_messages(ServiceBusMessage("sent", message_id="same"))

    for step in (schedule, send) if first == "scheduled" else (send, schedule):
        step()
    counts = namespace.counts(queue)
    expected = (0, 1) if first == "scheduled" else (1, 0)
    assert (counts.active, counts.scheduled) == expected


@item(25, "measured")
def test_scheduling_a_duplicate_returns_a_number_of_its_own(namespace: Namespace) -> None:
    """Though the message is dropped.

    Source: Azure/azure-service-bus issue 265.
    """
    queue = detecting(namespace)
    sender = namespace.sender(queue)
    due = namespace.now() + 60 * SECOND
    first, second = (
        sender.schedule_messages(ServiceBusMessage(body, message_id="same"), due)[0] for body in ("a", "b")
    )
    assert 0 < first < second
    assert [str(message) for message in namespace.receiver(queue).peek_messages(5)] == ["a"]


@item(25, "unverified")
def test_a_duplicate_takes_no_sequence_number(namespace: Namespace) -> None:
    """Numbers are for what is stored, and have no gaps.

    Source: Microsoft, "Message sequencing and timestamps", says so of messages that are accepted and stored; of duplicates nobody does.
    """
    queue = detecting(namespace)
    for body, identifier in (("a", "1"), ("b", "1"), ("c", "2")):
        namespace.send(queue, body, message_id=identifier)
    first, second = take(namespace.receiver(queue), 2)
    assert (second.sequence_number or 0) - (first.sequence_number or 0) == 1


@item(26, "documented")
def test_after_the_window_an_id_is_new_again(namespace: Namespace) -> None:
    """And known from then on.

    Source: Microsoft, "Duplicate detection".
    """
    queue = detecting(namespace)
    namespace.send(queue, "first", message_id="same")
    namespace.let_pass(WINDOW + 5 * SECOND)
    namespace.send(queue, "second", message_id="same")
    namespace.send(queue, "third", message_id="same")
    assert namespace.drain(queue, 2) == ["first", "second"]
    assert namespace.counts(queue).active == 0


@item(26, "measured")
def test_a_duplicate_does_not_extend_the_window(namespace: Namespace) -> None:
    """It runs from the first message.

    Source: Azure/azure-service-bus issue 243.
    """
    queue = detecting(namespace)
    namespace.send(queue, "first", message_id="same")
    namespace.let_pass(WINDOW - 5 * SECOND)
    namespace.send(queue, "second", message_id="same")
    assert namespace.counts(queue).active == 1
    namespace.let_pass(10 * SECOND)
    namespace.send(queue, "third", message_id="same")
    assert namespace.drain(queue, 2) == ["first", "third"]


@item(26, "documented")
def test_each_entity_has_a_history_of_its_own(namespace: Namespace) -> None:
    """What one queue had is new to another.

    Source: Microsoft, "Duplicate detection".
    """
    queues = [detecting(namespace), detecting(namespace)]
    for queue in queues:
        namespace.send(queue, "x", message_id="same")
    assert [namespace.drain(queue, 1) for queue in queues] == [["x"], ["x"]]


@item(26, "documented")
def test_without_partitions_the_partition_key_makes_no_difference(namespace: Namespace) -> None:
    """Only the message id does.

    Source: Microsoft, "Duplicate detection".
    """
    queue = detecting(namespace)
    for key in ("a", "b"):
        namespace.send(queue, key, message_id="same", partition_key=key)
    assert namespace.drain(queue, 1) == ["a"]
    assert namespace.counts(queue).active == 0


@item(26, "documented")
def test_without_partitions_the_session_makes_no_difference(namespace: Namespace) -> None:
    """The same id in another session is a duplicate.

    Source: Microsoft, "Duplicate detection".
    """
    queue = detecting(namespace, requires_session=True)
    for session in ("a", "b"):
        namespace.send(queue, session, message_id="same", session_id=session)
    (message,) = take(namespace.receiver(queue, session_id="a"))
    assert str(message) == "a"
    assert namespace.counts(queue).active == 1
