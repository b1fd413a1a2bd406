"""Items 16 and 17: time to live, of a message and by default."""

from __future__ import annotations

from datetime import timedelta

import pytest
from azure.servicebus import ServiceBusMessage

from tests.emulators.servicebus.contract.labels import item
from tests.emulators.servicebus.contract.namespace import LOCK, SECOND, Namespace
from tests.emulators.servicebus.contract.receiving import take

SHORT = 3 * SECOND
"""A time to live, shorter than a lock and long enough to receive a message in."""


@item(16, "documented")
def test_an_expired_message_is_not_delivered(namespace: Namespace) -> None:
    """It is dropped, wherever it stood; its neighbours stay.

    Source: Microsoft, "Azure Service Bus - Message expiration (Time to Live)".
    """
    queue = namespace.queue()
    namespace.send(queue, "before")
    namespace.send(queue, "short", time_to_live=SHORT)
    namespace.send(queue, "behind", time_to_live=timedelta(hours=1))
    namespace.let_pass(SHORT + SECOND)
    assert namespace.drain(queue, 2) == ["before", "behind"]
    counts = namespace.counts(queue)
    assert (counts.active, counts.dead) == (0, 0)


@item(16, "documented")
def test_a_message_in_its_time_is_delivered(namespace: Namespace) -> None:
    """Under its own lock; the moment it expires is when it was enqueued and its time to live.

    Source: Microsoft, "Azure Service Bus - Message expiration (Time to Live)"; azure-servicebus, test_queue_message_batch.
    """
    queue = namespace.queue()
    namespace.send(queue, "x", time_to_live=60 * SECOND)
    namespace.let_pass(SHORT)
    (message,) = take(namespace.receiver(queue))
    assert message.time_to_live == 60 * SECOND
    assert message.enqueued_time_utc is not None
    assert message.expires_at_utc == message.enqueued_time_utc + 60 * SECOND


@item(16, "documented")
def test_an_expired_message_is_dead_lettered_where_the_queue_says_so(namespace: Namespace) -> None:
    """With the reason and the description that the service has for it.

    Source: Microsoft, "Azure Service Bus - Message expiration (Time to Live)", "Overview of Service Bus dead-letter queues".
    """
    queue = namespace.queue(dead_lettering_on_message_expiration=True)
    namespace.send(queue, "x", message_id="m", time_to_live=SHORT)
    namespace.let_pass(SHORT + SECOND)
    assert namespace.nothing(namespace.receiver(queue))
    (dead,) = take(namespace.dead_letters(queue))
    assert (str(dead), dead.message_id) == ("x", "m")
    assert dead.dead_letter_reason == "TTLExpiredException"
    assert dead.dead_letter_error_description == "The message expired and was dead lettered."


@item(16, "documented")
def test_a_locked_message_can_be_completed_after_its_time(namespace: Namespace) -> None:
    """Expiration does not touch it, nor is it dead-lettered afterwards.

    Source: Microsoft, "Azure Service Bus - Message expiration (Time to Live)".
    """
    queue = namespace.queue(dead_lettering_on_message_expiration=True)
    namespace.send(queue, "x", time_to_live=SHORT)
    receiver = namespace.receiver(queue)
    (message,) = take(receiver)
    namespace.let_pass(SHORT + SECOND)
    receiver.complete_message(message)
    assert namespace.nothing(receiver)
    counts = namespace.counts(queue)
    assert (counts.active, counts.dead) == (0, 0)


@item(16, "documented")
def test_the_lock_of_an_expired_message_can_be_renewed(namespace: Namespace) -> None:
    """Locked messages are handled normally.

    Source: Microsoft, "Azure Service Bus - Message expiration (Time to Live)".
    """
    queue = namespace.queue(dead_lettering_on_message_expiration=True)
    namespace.send(queue, "x", time_to_live=SHORT)
    receiver = namespace.receiver(queue)
    (message,) = take(receiver)
    for _ in range(2):
        namespace.let_pass(SHORT)
        receiver.renew_message_lock(message)
    receiver.complete_message(message)
    assert namespace.counts(queue).dead == 0


@item(16, "documented")
@pytest.mark.parametrize("how", ["abandon", "lock expires"])
def test_expiration_takes_effect_when_the_lock_ends(namespace: Namespace, how: str) -> None:
    """At once, whether the message is given back or its lock expires.

    Source: Microsoft, "Azure Service Bus - Message expiration (Time to Live)".
    """
    queue = namespace.queue(dead_lettering_on_message_expiration=True)
    namespace.send(queue, "x", time_to_live=SHORT)
    receiver = namespace.receiver(queue)
    (message,) = take(receiver)
    namespace.let_pass(SHORT + SECOND if how == "abandon" else LOCK + SECOND)
    if how == "abandon":
        receiver.abandon_message(message)
    assert namespace.nothing(receiver)
    assert take(namespace.dead_letters(queue))[0].dead_letter_reason == "TTLExpiredException"


@item(17, "documented")
def test_the_default_is_for_messages_that_have_no_time_to_live(namespace: Namespace) -> None:
    """They expire by it.

    Source: Microsoft, "Azure Service Bus - Message expiration (Time to Live)".
    """
    queue = namespace.queue(default_message_time_to_live=SHORT)
    namespace.send(queue, "x")
    namespace.let_pass(SHORT + SECOND)
    assert namespace.nothing(namespace.receiver(queue))


@item(17, "documented")
def test_the_default_is_the_most_a_message_can_have(namespace: Namespace) -> None:
    """A longer time to live is silently adjusted, a shorter one is kept.

    Source: Microsoft, "Azure Service Bus - Message expiration (Time to Live)", "Messages, payloads, and serialization".
    """
    queue = namespace.queue(default_message_time_to_live=60 * SECOND)
    namespace.send(queue, "longer", time_to_live=timedelta(hours=1))
    namespace.send(queue, "shorter", time_to_live=30 * SECOND)
    messages = take(namespace.receiver(queue), 2)
    assert [message.time_to_live for message in messages] == [60 * SECOND, 30 * SECOND]
    namespace.let_pass(LOCK + 30 * SECOND)
    assert namespace.drain(queue, 1) == ["longer"]
    assert namespace.counts(queue).active == 0


@item(17, "unverified")
def test_a_message_shows_the_default_as_its_own(namespace: Namespace) -> None:
    """Where it has none.

    Source: Microsoft, "Messages, payloads, and serialization", says the default is assumed, not that the message shows it.
    """
    queue = namespace.queue(default_message_time_to_live=60 * SECOND)
    namespace.send(queue, "x")
    assert take(namespace.receiver(queue))[0].time_to_live == 60 * SECOND


@item(17, "documented")
def test_a_topic_caps_what_its_subscriptions_allow(namespace: Namespace) -> None:
    """The smaller of the two holds, and each subscription has its own.

    Source: Microsoft, "Azure Service Bus - Message expiration (Time to Live)".
    """
    topic = namespace.topic(default_message_time_to_live=60 * SECOND)
    namespace.subscription(topic, "longer", default_message_time_to_live=timedelta(hours=1))
    namespace.subscription(topic, "shorter", default_message_time_to_live=SHORT)
    namespace.topic_sender(topic).send_messages(ServiceBusMessage("x"))
    namespace.let_pass(SHORT + SECOND)
    assert namespace.nothing(namespace.subscriber(topic, "shorter"))
    longer = namespace.subscriber(topic, "longer")
    longer.abandon_message(take(longer)[0])
    namespace.let_pass(60 * SECOND)
    assert namespace.nothing(longer)


@item(17, "documented")
def test_without_a_default_a_message_does_not_expire(namespace: Namespace) -> None:
    """The default of the default is as long as can be.

    Source: Microsoft, "Azure Service Bus - Message expiration (Time to Live)"; azure-servicebus,
    test_queue_by_queue_client_conn_str_receive_handler_peeklock.
    """
    queue = namespace.queue()
    namespace.send(queue, "x")
    if not namespace.real:
        namespace.let_pass(timedelta(days=400))
    (message,) = take(namespace.receiver(queue))
    assert message.time_to_live is None
