"""Items 49 to 55, 60 and 61: throttling, broken links, settling by other means, idle links, transactions, long-lived management links."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

import pytest
from azure.servicebus import ServiceBusMessage, ServiceBusReceiver
from azure.servicebus._pyamqp.endpoints import Source
from azure.servicebus._pyamqp.receiver import ReceiverLink
from azure.servicebus.exceptions import (
    MessageLockLostError,
    OperationTimeoutError,
    ServiceBusConnectionError,
    ServiceBusServerBusyError,
)

from common.servicebus import settle as servicebus_settle
from emulators.servicebus.faults import catalogue as faults
from emulators.servicebus.server import ServiceBusEmulator
from tests.emulators.servicebus.contract.conftest import Alone
from tests.emulators.servicebus.contract.labels import item
from tests.emulators.servicebus.contract.namespace import Namespace
from tests.emulators.servicebus.contract.receiving import complete, completed, take, take_one

LONG = timedelta(minutes=5)


def patient(namespace: Namespace) -> Any:
    """A client that tries again and again, without waiting long."""
    return namespace.connect(retry_total=20, retry_backoff_factor=0.01, retry_backoff_max=0.1)


def by_management(receiver: ServiceBusReceiver, *messages: Any) -> None:
    """Complete by lock tokens in one request: the SDK's own way when a link is gone."""
    receiver._settle_message_via_mgmt_link("completed", [message.lock_token for message in messages])


# -- 49


@item(49, "documented")
@pytest.mark.emulator_only("it throttles on order")
def test_a_throttled_request_is_answered_with_server_busy(namespace: Namespace, emulator: ServiceBusEmulator) -> None:
    """Error code 50009, with how long to wait; the request was not looked at.

    Source: Microsoft, "Throttling operations on Azure Service Bus".
    """
    queue = namespace.queue()
    sender, receiver = namespace.sender(queue), namespace.receiver(queue)
    text = r"being throttled\. Error code ?: 50009\. Please wait 2 seconds and try again"
    with emulator.inject(faults.ServerBusy(60, entity=queue)):
        with pytest.raises(ServiceBusServerBusyError, match=text):
            sender.send_messages(ServiceBusMessage("refused"))
        with pytest.raises(ServiceBusServerBusyError, match=text):
            receiver.peek_messages()
    assert namespace.counts(queue).active == 0


@item(49, "documented")
@pytest.mark.emulator_only("it throttles on order")
def test_the_sdk_backs_off_until_it_is_served(namespace: Namespace, emulator: ServiceBusEmulator) -> None:
    """Throttled requests are retried and eventually go through; nothing is lost and nothing doubled.

    Source: Microsoft, "Throttling operations on Azure Service Bus", FAQs.
    """
    queue = namespace.queue()
    bodies = [str(number) for number in range(6)]
    with patient(namespace) as client, client.get_queue_sender(queue) as sender:
        with emulator.inject(faults.ServerBusy(60, 2, queue)):
            for body in bodies:
                sender.send_messages(ServiceBusMessage(body))
        with client.get_queue_receiver(queue) as receiver:
            assert complete(receiver, 6) == bodies


# -- 50


@item(50, "documented")
@pytest.mark.emulator_only("its links can be detached")
def test_a_message_is_settled_though_its_link_is_gone(namespace: Namespace, emulator: ServiceBusEmulator) -> None:
    """Over the management link; its lock is still good.

    Source: SDK test_queue_message_settle_through_mgmt_link_due_to_broken_receiver_link.
    """
    queue = namespace.queue(lock_duration=LONG)
    namespace.send(queue, "a", "b")
    with patient(namespace) as client, client.get_queue_receiver(queue) as receiver:
        first = take_one(receiver)
        with emulator.inject(faults.LinksDetached(queue)):
            receiver.complete_message(first)
        assert complete(receiver) == ["b"]
    assert namespace.counts(queue).active == 0


@item(50, "documented")
@pytest.mark.emulator_only("its connections can be cut")
def test_a_lock_outlives_the_connection(namespace: Namespace, emulator: ServiceBusEmulator) -> None:
    """The message is settled over a new one, by its lock token.

    Source: SDK test_queue_message_settle_through_mgmt_link_due_to_broken_receiver_link.
    """
    queue = namespace.queue(lock_duration=LONG)
    namespace.send(queue, "a")
    with patient(namespace) as client, client.get_queue_receiver(queue) as receiver:
        message = take_one(receiver)
        with emulator.inject(faults.ConnectionsCut()):
            receiver.complete_message(message)
    assert namespace.counts(queue).active == 0


@item(50, "documented")
@pytest.mark.emulator_only("its connections can be cut")
def test_what_was_not_settled_comes_back_when_its_lock_has_ended(
    namespace: Namespace, emulator: ServiceBusEmulator
) -> None:
    """With one delivery more.

    Source: Microsoft, "Message transfers, locks, and settlement".
    """
    queue = namespace.queue()
    namespace.send(queue, "a")
    take_one(namespace.receiver(queue))
    with emulator.inject(faults.ConnectionsCut()):
        pass
    namespace.let_pass(timedelta(seconds=6))
    (again,) = completed(namespace.receiver(queue))
    assert (str(again), again.delivery_count) == ("a", 1)


# -- 51


@item(51, "documented")
def test_a_message_is_completed_on_another_receiver(namespace: Namespace) -> None:
    """A lock token is good on the whole entity.

    Source: SDK test_queue_complete_message_on_different_receiver.
    """
    queue = namespace.queue()
    namespace.send(queue, "a")
    first, second = namespace.receiver(queue), namespace.receiver(queue)
    message = take_one(first)
    by_management(second, message)
    assert namespace.counts(queue).active == 0


@item(51, "documented")
def test_a_message_is_completed_after_its_receiver_was_closed(namespace: Namespace) -> None:
    """If its lock is still good: a message that was received keeps it when the link closes.

    Source: SDK test_queue_complete_message_on_different_receiver.
    """
    queue = namespace.queue(lock_duration=LONG)
    namespace.send(queue, "a")
    first = namespace.receiver(queue)
    message = take_one(first)
    first.close()
    by_management(namespace.receiver(queue), message)
    assert namespace.counts(queue).active == 0


@item(51, "documented")
def test_a_token_that_was_used_is_lost_for_its_own_receiver(namespace: Namespace) -> None:
    """The service tells it, whoever settled the message.

    Source: Microsoft, "Service Bus messaging exceptions", MessageLockLostException.
    """
    queue = namespace.queue()
    namespace.send(queue, "a")
    first, second = namespace.receiver(queue), namespace.receiver(queue)
    message = take_one(first)
    by_management(second, message)
    with pytest.raises(MessageLockLostError):
        first.complete_message(message)


# -- 52


@item(52, "documented")
def test_one_disposition_settles_a_range(namespace: Namespace) -> None:
    """From the first delivery to the last, and none beyond.

    Source: Microsoft, "AMQP 1.0 in Azure Service Bus and Event Hubs protocol guide", Multi-message receive.
    """
    queue = namespace.queue()
    namespace.send(queue, *"abcde")
    receiver = namespace.receiver(queue)
    messages = take(receiver, 5)
    assert servicebus_settle.complete(receiver, messages[1:4], timeout=10) == []
    assert namespace.counts(queue).active == 2
    for message in (messages[0], messages[4]):
        receiver.abandon_message(message)
    assert complete(receiver, 2) == ["a", "e"]


@item(52, "unverified")
def test_a_lost_lock_in_a_range_is_told_of_that_delivery_alone(namespace: Namespace) -> None:
    """The others are completed.

    Source: Azure/azure-amqp, AmqpSession.OnReceiveDisposition goes from the first delivery to the last; the service's answer nobody says.
    """
    queue = namespace.queue()
    namespace.send(queue, *"abc")
    receiver = namespace.receiver(queue)
    messages = take(receiver, 3)
    by_management(namespace.receiver(queue), messages[1])
    assert servicebus_settle.complete(receiver, messages, timeout=10) == [messages[1]]
    assert namespace.counts(queue).active == 0


# -- 53


@item(53, "documented")
def test_one_request_settles_several_tokens(namespace: Namespace) -> None:
    """All of them.

    Source: Microsoft, "AMQP 1.0 in Azure Service Bus: request-response-based operations", Update disposition status: lock-tokens.
    """
    queue = namespace.queue()
    namespace.send(queue, *"abc")
    receiver = namespace.receiver(queue)
    by_management(receiver, *take(receiver, 3))
    assert namespace.counts(queue).active == 0


@item(53, "unverified")
def test_one_lost_token_fails_the_request_for_all(namespace: Namespace) -> None:
    """None is settled: all or nothing.

    Source: nobody says it.
    """
    queue = namespace.queue()
    namespace.send(queue, *"ab")
    receiver = namespace.receiver(queue)
    first, second = take(receiver, 2)
    by_management(receiver, first)
    with pytest.raises(MessageLockLostError):
        by_management(receiver, second, first)
    assert namespace.counts(queue).active == 1
    by_management(receiver, second)
    assert namespace.counts(queue).active == 0


# -- 54


def until_detached(receiver: ServiceBusReceiver) -> None:
    """Talk over the connection, though not over the link, until the client has heard the end of that."""
    handler: Any = receiver._handler
    end = time.monotonic() + 20
    while handler._link.state.name == "ATTACHED":
        assert time.monotonic() < end
        assert receiver.peek_messages() == []


@item(54, "documented")
@pytest.mark.emulator_only("the time of what is idle is moved")
def test_an_idle_link_is_detached_and_its_connection_goes_on(alone: Alone) -> None:
    """After ten minutes without a call; the next one is told, and the one after that has a new link.

    Source: Microsoft, "AMQP errors in Azure Service Bus", Link is closed.
    """
    queue = alone.namespace.queue()
    receiver = alone.namespace.receiver(queue)
    for _ in range(6):
        alone.idle.advance(timedelta(seconds=98))
        assert receiver.peek_messages() == []
    handler: Any = receiver._handler
    assert handler._link.state.name == "ATTACHED"
    alone.idle.advance(timedelta(seconds=30))
    until_detached(receiver)
    with pytest.raises(ServiceBusConnectionError, match=r"IdleTimerExpired: Idle timeout: 00:10:00"):
        receiver.receive_messages(1, max_wait_time=5)
    alone.namespace.send(queue, "a")
    assert complete(receiver) == ["a"]


@item(54, "documented")
@pytest.mark.emulator_only("the time of what is idle is moved")
def test_the_sdk_goes_on_after_a_long_pause(alone: Alone) -> None:
    """Links and connections are made anew by the next call, when the client tries again.

    Source: Microsoft, "AMQP errors in Azure Service Bus": send and receive calls recreate the connection and the link;
    SDK test_queue_receiver_sender_resume_after_link_timeout.
    """
    queue = alone.namespace.queue()
    with (
        patient(alone.namespace) as client,
        client.get_queue_sender(queue) as sender,
        client.get_queue_receiver(queue) as receiver,
    ):
        for body in ("before", "after"):
            sender.send_messages(ServiceBusMessage(body))
            assert complete(receiver) == [body]
            alone.idle.advance(timedelta(minutes=20))


# -- 55


class Coordinator(tuple[()]):
    """The target of a link that controls transactions (AMQP 1.0, 4.5.1), as the SDK writes what has a descriptor and fields."""

    _code = 0x30
    _definition = ()


@item(55, "documented")
def test_the_sdk_has_no_transactions(namespace: Namespace) -> None:
    """Neither client nor sender nor receiver begins one: what is sent and what is completed are apart.

    Source: azure-servicebus for Python, its public names; Microsoft, "Overview of Service Bus transaction processing" has them for .NET.
    """
    queue = namespace.queue()
    for handler in (namespace.client, namespace.sender(queue), namespace.receiver(queue)):
        assert not [name for name in dir(handler) if "transact" in name.lower()]


def attach_coordinator(receiver: Any) -> Any:
    """A link to a coordinator on the receiver's connection, and what becomes of it."""
    handler = receiver._handler
    link = handler._session.create_sender_link("replaced below", source_address="transactions")
    link.target = Coordinator()
    link.attach()
    end = time.monotonic() + 10
    while link.state.name in {"DETACHED", "ATTACH_SENT"} and not link._is_closed and time.monotonic() < end:
        handler._connection.listen(wait=False)
    return link


@item(55, "documented")
def test_a_transaction_may_be_begun(namespace: Namespace) -> None:
    """A client attaches a link to the coordinator.

    Source: Microsoft, "AMQP 1.0 in Azure Service Bus and Event Hubs protocol guide", Transactions.
    """
    receiver = namespace.receiver(namespace.queue())
    assert attach_coordinator(receiver).state.name == "ATTACHED"


@item(55, "unverified")
@pytest.mark.emulator_only("Service Bus has transactions")
def test_a_refused_coordinator_leaves_the_connection_alone(namespace: Namespace) -> None:
    """Other links go on.

    Source: the emulator's own refusal.
    """
    queue = namespace.queue()
    receiver = namespace.receiver(queue)
    assert attach_coordinator(receiver).state.name != "ATTACHED"
    namespace.send(queue, "a")
    assert complete(receiver) == ["a"]


# -- 61


@item(61, "unverified")
def test_a_selector_of_jms_is_refused(namespace: Namespace) -> None:
    """No message is withheld or delivered in silence; the connection goes on.

    Source: Microsoft, "Use Java Message Service 1.1 with Azure Service Bus standard and AMQP 1.0" says that selectors are not
    supported, not how a client learns it.
    """
    queue = namespace.queue()
    receiver = namespace.receiver(queue)
    handler: Any = receiver._handler
    link = handler._session.create_receiver_link(queue, on_transfer=print)
    selector = (b"apache.org:selector-filter:string", "colour = 'red'")
    link.source = Source(address=queue, filters={b"jms-selector": selector})  # type: ignore[call-arg]  # the SDK leaves them out, too
    link.attach()
    end = time.monotonic() + 10
    while link.state.name != "ERROR" and time.monotonic() < end:
        handler._connection.listen(wait=False)
    assert link.state.name == "ERROR"
    namespace.send(queue, "a")
    assert complete(receiver) == ["a"]


# -- 60


def few_answers(monkeypatch: pytest.MonkeyPatch, credit: int) -> None:
    """The SDK gives its management link credit for so many answers, instead of 10,000, and still no more later."""
    original: Any = ReceiverLink.__init__

    def with_credit(self: Any, *arguments: Any, **options: Any) -> None:
        original(self, *arguments, **options)
        if "$management" in str(self.source):
            self.link_credit = self.current_link_credit = credit

    monkeypatch.setattr(ReceiverLink, "__init__", with_credit)


@item(60, "documented")
def test_management_requests_beyond_the_clients_credit_are_not_answered(
    namespace: Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The SDK gives 10,000 and never renews them; here fifty. Opened anew, it is answered again.

    Source: AMQP 1.0, 2.6.7 (no transfer without credit); azure-servicebus for Python, ManagementLink.
    """
    few_answers(monkeypatch, 50)
    queue = namespace.queue()
    receiver = namespace.receiver(queue)
    for _ in range(50):
        assert receiver.peek_messages() == []
    with pytest.raises(OperationTimeoutError):
        receiver.peek_messages(timeout=0.5)
    assert namespace.receiver(queue).peek_messages() == []
    with pytest.raises(OperationTimeoutError):
        receiver.peek_messages(timeout=0.5)


@pytest.mark.soak
@item(60, "documented")
def test_ten_thousand_management_requests_are_answered_and_no_more(namespace: Namespace) -> None:
    """On one receiver, with the SDK as it is.

    Source: AMQP 1.0, 2.6.7 (no transfer without credit); azure-servicebus for Python, ManagementLink.
    """
    receiver = namespace.receiver(namespace.queue())
    for _ in range(10_000):
        assert receiver.peek_messages() == []
    with pytest.raises(OperationTimeoutError):
        receiver.peek_messages(timeout=2)
