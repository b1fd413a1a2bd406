"""Items 45, 46, 48 and 56: entities that are missing, disabled, full or partitioned."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from azure.servicebus import ServiceBusMessage, ServiceBusSubQueue
from azure.servicebus.exceptions import (
    MessagingEntityDisabledError,
    MessagingEntityNotFoundError,
    ServiceBusAuthenticationError,
    ServiceBusError,
    ServiceBusQuotaExceededError,
)

from tests.emulators.servicebus.contract.labels import item
from tests.emulators.servicebus.contract.namespace import Namespace
from tests.emulators.servicebus.contract.receiving import complete, completed, take_one


def set_status(namespace: Namespace, queue: str, status: str) -> None:
    description = namespace.admin.get_queue(queue)
    description.status = status
    namespace.admin.update_queue(description)


# -- 45


@item(45, "documented")
@pytest.mark.parametrize(
    "open_it",
    [
        lambda namespace, name: namespace.sender(name),
        lambda namespace, name: namespace.receiver(name),
        lambda namespace, name: namespace.receiver(name, sub_queue=ServiceBusSubQueue.DEAD_LETTER),
        lambda namespace, name: namespace.receiver(name, session_id="s"),
        lambda namespace, name: namespace.topic_sender(name),
        lambda namespace, name: namespace.subscriber(name, "any"),
    ],
)
def test_a_missing_entity_is_not_found(namespace: Namespace, open_it: Callable[[Namespace, str], Any]) -> None:
    """Whoever wants to send or to receive is told when it puts its token, so that the SDK calls it an authentication error.

    Source: SDK test_sb_client_bad_entity; Azure/azure-service-bus issues 304 and 451.
    """
    with pytest.raises(ServiceBusAuthenticationError) as told:
        open_it(namespace, namespace.new_name())
    assert getattr(told.value.inner_exception, "status_code", None) == 404


@item(45, "documented")
def test_a_missing_subscription_is_not_found(namespace: Namespace) -> None:
    """Though its topic is there: it is the link that is refused.

    Source: Microsoft, "Service Bus messaging exceptions", MessagingEntityNotFoundException; MicrosoftDocs/azure-docs issue 73870.
    """
    with pytest.raises(MessagingEntityNotFoundError):
        namespace.subscriber(namespace.topic(), "nobody")


@item(45, "documented")
def test_a_missing_subscription_is_not_tried_again(namespace: Namespace) -> None:
    """Retrying doesn't help, and the SDK knows: no backing off.

    Source: Microsoft, "Service Bus messaging exceptions"; SDK _ServiceBusErrorPolicy.
    """
    topic = namespace.topic()
    with namespace.connect(retry_total=3, retry_backoff_factor=30) as patient:
        began = time.monotonic()
        with pytest.raises(MessagingEntityNotFoundError):
            patient.get_subscription_receiver(topic, "nobody").__enter__()
        assert time.monotonic() - began < 20


@item(45, "documented")
def test_links_end_when_their_entity_is_deleted(namespace: Namespace) -> None:
    """For the receiver and for the sender.

    Source: Microsoft, "Service Bus messaging exceptions", MessagingEntityNotFoundException: "or it has been deleted".
    """
    queue = namespace.queue()
    receiver, sender = namespace.receiver(queue), namespace.sender(queue)
    namespace.admin.delete_queue(queue)
    with pytest.raises(MessagingEntityNotFoundError):
        receiver.receive_messages(1, max_wait_time=5)
    with pytest.raises(ServiceBusError):
        sender.send_messages(ServiceBusMessage("late"))


@item(45, "documented")
def test_a_deleted_entity_made_again_is_another(namespace: Namespace) -> None:
    """Its messages are gone.

    Source: Microsoft, "Delete Queue" (REST): the queue is deleted with all its messages.
    """
    queue = namespace.queue()
    namespace.send(queue, "old")
    namespace.admin.delete_queue(queue)
    namespace.admin.create_queue(queue)
    namespace.send(queue, "new")
    assert complete(namespace.receiver(queue)) == ["new"]
    assert namespace.counts(queue).active == 0


@item(45, "documented")
def test_a_topic_takes_its_subscriptions_along(namespace: Namespace) -> None:
    """None is left to receive from.

    Source: Microsoft, "Delete Topic" (REST): along with all its subscriptions.
    """
    topic = namespace.topic()
    namespace.subscription(topic)
    namespace.admin.delete_topic(topic)
    with pytest.raises(ServiceBusAuthenticationError) as told:
        namespace.subscriber(topic)
    assert getattr(told.value.inner_exception, "status_code", None) == 404


# -- 46


@item(46, "documented")
@pytest.mark.parametrize(
    ("status", "sends", "receives"),
    [
        ("Active", True, True),
        ("Disabled", False, False),
        ("SendDisabled", False, True),
        ("ReceiveDisabled", True, False),
    ],
)
def test_the_status_of_a_queue_says_what_may_be_done(
    namespace: Namespace, status: str, sends: bool, receives: bool
) -> None:
    """What may not yields an error; the messages stay.

    Source: Microsoft, "Suspend and reactivate messaging entities (disable)", Queue status.
    """
    queue = namespace.queue()
    namespace.send(queue, "kept")
    set_status(namespace, queue, status)
    for allowed, act in (
        (sends, lambda: namespace.send(queue, "more")),
        (receives, lambda: namespace.receiver(queue).peek_messages()),
    ):
        if allowed:
            act()
        else:
            with pytest.raises(MessagingEntityDisabledError):
                act()
    set_status(namespace, queue, "Active")
    assert complete(namespace.receiver(queue), 1 + sends)[0] == "kept"


@item(46, "documented")
def test_suspending_is_told_on_links_of_before(namespace: Namespace) -> None:
    """Protocol operations yield errors.

    Source: Microsoft, "Suspend and reactivate messaging entities (disable)".
    """
    queue = namespace.queue()
    sender, receiver = namespace.sender(queue), namespace.receiver(queue)
    set_status(namespace, queue, "Disabled")
    with pytest.raises(MessagingEntityDisabledError):
        sender.send_messages(ServiceBusMessage("no"))
    with pytest.raises(MessagingEntityDisabledError):
        receiver.receive_messages(1, max_wait_time=5)
    set_status(namespace, queue, "Active")
    sender.send_messages(ServiceBusMessage("yes"))
    assert complete(receiver) == ["yes"]


@item(46, "documented")
@pytest.mark.parametrize("status", ["Disabled", "SendDisabled"])
def test_a_disabled_topic_takes_nothing_and_its_subscriptions_give_what_they_have(
    namespace: Namespace, status: str
) -> None:
    """Disabled and SendDisabled are the same.

    Source: Microsoft, "Suspend and reactivate messaging entities (disable)", the table of topics and subscriptions.
    """
    topic = namespace.topic()
    namespace.subscription(topic)
    namespace.topic_sender(topic).send_messages(ServiceBusMessage("before"))
    description = namespace.admin.get_topic(topic)
    description.status = status
    namespace.admin.update_topic(description)
    with pytest.raises(MessagingEntityDisabledError):
        namespace.topic_sender(topic)
    assert complete(namespace.subscriber(topic)) == ["before"]


@item(46, "documented")
@pytest.mark.parametrize("status", ["Disabled", "ReceiveDisabled"])
def test_a_disabled_subscription_still_collects(namespace: Namespace, status: str) -> None:
    """Messages may be sent to the topic; they are received when it is active again.

    Source: Microsoft, "Suspend and reactivate messaging entities (disable)", the table of topics and subscriptions.
    """
    topic = namespace.topic()
    namespace.subscription(topic, status=status)
    namespace.topic_sender(topic).send_messages(ServiceBusMessage("m"))
    with pytest.raises(MessagingEntityDisabledError):
        namespace.subscriber(topic)
    description = namespace.admin.get_subscription(topic, "subscription")
    description.status = "Active"
    namespace.admin.update_subscription(topic, description)
    assert complete(namespace.subscriber(topic)) == ["m"]


@item(46, "unverified")
def test_a_suspended_source_forwards_nothing(namespace: Namespace) -> None:
    """Until it is active again.

    Source: nobody says it of forwarding; messages cannot be removed from what is suspended.
    """
    end = namespace.queue()
    source = namespace.queue(forward_to=end, status="ReceiveDisabled")
    namespace.send(source, "held")
    assert (namespace.counts(source).active, namespace.counts(end).active) == (1, 0)
    set_status(namespace, source, "Active")
    assert complete(namespace.receiver(end)) == ["held"]


# -- 48

CHUNK = "x" * 200_000


def smallest(namespace: Namespace) -> tuple[int, int]:
    """The size in megabytes of the smallest entity there is, and how many chunks fit: on the emulator it is small."""
    megabytes = 1024 if namespace.real else 1
    return megabytes, (megabytes << 20) // (len(CHUNK) + 500)


@item(48, "documented")
def test_a_full_queue_takes_nothing_until_it_is_drained(namespace: Namespace) -> None:
    """And then again.

    Source: Microsoft, "Service Bus quotas", Queue or topic size; "Service Bus messaging exceptions", QuotaExceededException.
    """
    megabytes, fitting = smallest(namespace)
    queue = namespace.queue(max_size_in_megabytes=megabytes)
    sender = namespace.sender(queue)
    for _ in range(fitting):
        sender.send_messages(ServiceBusMessage(CHUNK))
    with pytest.raises(ServiceBusQuotaExceededError, match="maximum entity size"):
        sender.send_messages(ServiceBusMessage(CHUNK))
    assert namespace.counts(queue).active == fitting
    complete(namespace.receiver(queue))
    sender.send_messages(ServiceBusMessage(CHUNK))


@item(48, "documented")
def test_dead_letters_take_room(namespace: Namespace) -> None:
    """Until they are received.

    Source: Microsoft, "Service Bus messaging exceptions", QuotaExceededException, Common causes: Dead-letter queue.
    """
    megabytes, fitting = smallest(namespace)
    queue = namespace.queue(max_size_in_megabytes=megabytes)
    sender, receiver = namespace.sender(queue), namespace.receiver(queue)
    sender.send_messages(ServiceBusMessage(CHUNK))
    receiver.dead_letter_message(take_one(receiver))
    for _ in range(fitting - 1):
        sender.send_messages(ServiceBusMessage(CHUNK))
    with pytest.raises(ServiceBusQuotaExceededError):
        sender.send_messages(ServiceBusMessage(CHUNK))
    completed(namespace.receiver(queue, sub_queue=ServiceBusSubQueue.DEAD_LETTER))
    sender.send_messages(ServiceBusMessage(CHUNK))


@item(48, "documented")
def test_a_topic_is_full_of_what_its_subscriptions_have(namespace: Namespace) -> None:
    """The quota is the topic's.

    Source: Microsoft, "Service Bus quotas", Queue or topic size; "Service Bus messaging exceptions": "exceeded for Topic".
    """
    megabytes, fitting = smallest(namespace)
    topic = namespace.topic(max_size_in_megabytes=megabytes)
    namespace.subscription(topic)
    sender = namespace.topic_sender(topic)
    for _ in range(fitting):
        sender.send_messages(ServiceBusMessage(CHUNK))
    with pytest.raises(ServiceBusQuotaExceededError):
        sender.send_messages(ServiceBusMessage(CHUNK))
    complete(namespace.subscriber(topic))
    sender.send_messages(ServiceBusMessage(CHUNK))


# -- 56


@item(56, "documented")
def test_numbers_of_a_partitioned_queue_begin_with_the_partition(namespace: Namespace) -> None:
    """The topmost 16 bits; messages with one partition key are in one partition, in order.

    Source: Microsoft, "Message sequencing and timestamps"; "Partitioned queues and topics", Using a partition key.
    """
    queue = namespace.queue(enable_partitioning=True)
    sender = namespace.sender(queue)
    for body in "abc":
        sender.send_messages(ServiceBusMessage(body, partition_key="key"))
    numbers = [message.sequence_number or 0 for message in completed(namespace.receiver(queue), 3)]
    assert len({number >> 48 for number in numbers}) == 1
    assert [number & ((1 << 48) - 1) for number in numbers] == sorted(number & ((1 << 48) - 1) for number in numbers)


@item(56, "documented")
def test_a_partitioned_queue_says_so_and_stays_so(namespace: Namespace) -> None:
    """It is set at creation only.

    Source: Microsoft, "Partitioned queues and topics", Enable partitioning.
    """
    queue = namespace.queue(enable_partitioning=True)
    assert namespace.admin.get_queue(queue).enable_partitioning is True


@item(56, "documented")
def test_a_batch_of_several_partition_keys_is_refused_by_a_partitioned_queue(namespace: Namespace) -> None:
    """A batch goes to one partition.

    Source: SDK test_session_partition_batch (azure-servicebus tests); Microsoft, "Partitioned queues and topics".
    """
    queue = namespace.queue(enable_partitioning=True)
    batch = [ServiceBusMessage("a", partition_key="1"), ServiceBusMessage("b", partition_key="2")]
    with pytest.raises(ServiceBusError):
        namespace.sender(queue).send_messages(batch)


@item(56, "documented")
@pytest.mark.parametrize("kind", ["queue", "session queue"])
def test_session_and_partition_key_must_be_the_same(namespace: Namespace, kind: str) -> None:
    """The SDK says so before anything is sent.

    Source: Microsoft, "Partitioned queues and topics": both properties must be identical; SDK
    test_session_by_session_client_conn_str_receive_handler_peeklock.
    """
    queue = namespace.queue(requires_session=kind == "session queue")
    made = ServiceBusMessage("a", session_id="s", partition_key="s")
    with pytest.raises(ValueError, match="session"):
        made.partition_key = "other"
    namespace.sender(queue).send_messages(made)
    options = {"session_id": "s"} if kind == "session queue" else {}
    (received,) = completed(namespace.receiver(queue, **options))
    assert (received.session_id, received.partition_key) == ("s", "s")


@item(56, "documented")
def test_a_partition_key_is_kept_by_a_queue_without_partitions(namespace: Namespace) -> None:
    """There it says nothing.

    Source: Microsoft, "Messages, payloads, and serialization", PartitionKey.
    """
    queue = namespace.queue()
    sender = namespace.sender(queue)
    sender.send_messages([ServiceBusMessage("a", partition_key="1"), ServiceBusMessage("b", partition_key="2")])
    assert [m.partition_key for m in completed(namespace.receiver(queue), 2)] == ["1", "2"]
