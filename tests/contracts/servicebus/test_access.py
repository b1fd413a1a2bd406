"""Who may do what, and where nothing is: tokens, rights, missing, disabled and deleted entities."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from azure.core.credentials import AzureSasCredential
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.exceptions import (
    MessagingEntityDisabledError,
    MessagingEntityNotFoundError,
    ServiceBusAuthenticationError,
    ServiceBusAuthorizationError,
    ServiceBusError,
)

from emulators.servicebus.description import QueueDescription, SubscriptionDescription, TopicDescription

from .conftest import Bus

pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")  # the SDK forgets failed ones


def client(bus: Bus, connection_string: str) -> ServiceBusClient:
    return ServiceBusClient.from_connection_string(connection_string, retry_total=0, keep_alive=0)


def opening(handler: Any) -> Callable[[], None]:
    def open_and_close() -> None:
        with handler:
            pass

    return open_and_close


@pytest.mark.parametrize("make", ["get_queue_sender", "get_queue_receiver"])
def test_a_missing_entity_is_not_found(bus: Bus, make: str) -> None:
    """Row 45. SDK test_sb_client_bad_entity."""
    started = time.monotonic()
    with pytest.raises(MessagingEntityNotFoundError):
        opening(getattr(bus.client, make)("nowhere"))()
    assert time.monotonic() - started < 2


def test_a_missing_subscription_is_not_found(bus: Bus) -> None:
    """Row 45. SDK test_sb_client_bad_entity."""
    bus.create("lonely", TopicDescription())
    with pytest.raises(MessagingEntityNotFoundError):
        opening(bus.client.get_subscription_receiver("lonely", "nobody"))()


def test_deleting_an_entity_detaches_its_receivers(bus: Bus) -> None:
    """Row 45. service-bus-messaging-exceptions."""
    bus.create("doomed")
    with bus.client.get_queue_receiver("doomed") as receiver:
        bus.emulator.admin.delete("doomed")
        with pytest.raises(MessagingEntityNotFoundError):
            receiver.receive_messages(1, max_wait_time=2)


def test_deleting_a_topic_takes_its_subscriptions_along(bus: Bus) -> None:
    """Row 57. Management API."""
    bus.create("parent", TopicDescription())
    bus.emulator.admin.create("parent/Subscriptions/child", SubscriptionDescription())
    bus.emulator.admin.delete("PARENT")
    with pytest.raises(MessagingEntityNotFoundError):
        opening(bus.client.get_subscription_receiver("parent", "child"))()


@pytest.mark.parametrize(("status", "sender", "receiver"), [
    ("Disabled", False, False), ("SendDisabled", False, True), ("ReceiveDisabled", True, False),
])  # fmt: skip
def test_a_disabled_entity_refuses(bus: Bus, status: str, sender: bool, receiver: bool) -> None:
    """Row 46. entity-suspend."""
    bus.create("sleepy")
    bus.emulator.admin.update("sleepy", replace(QueueDescription(), status=status))
    for allowed, handler in (
        (sender, bus.client.get_queue_sender("sleepy")),
        (receiver, bus.client.get_queue_receiver("sleepy")),
    ):
        if allowed:
            opening(handler)()
        else:
            with pytest.raises(MessagingEntityDisabledError):
                opening(handler)()


@pytest.mark.parametrize(("old", "new"), [("SharedAccessKey=root", "SharedAccessKey=wrong"), ("Name=Root", "Name=No")])
def test_a_bad_key_or_policy_is_an_authentication_error(bus: Bus, old: str, new: str) -> None:
    """Row 47. SDK test_sb_client_bad_credentials."""
    bus.create("guarded")
    with (
        client(bus, bus.emulator.connection_string.replace(old, new)) as stranger,
        pytest.raises(ServiceBusAuthenticationError),
    ):
        opening(stranger.get_queue_sender("guarded"))()


def test_rights_are_those_of_the_key(bus: Bus) -> None:
    """Row 47. SDK readonly_credentials; service-bus-sas."""
    bus.create("guarded")
    with client(bus, bus.emulator.connection_string_for("Listener")) as listener:
        opening(listener.get_queue_receiver("guarded"))()
        with pytest.raises(ServiceBusAuthorizationError):
            opening(listener.get_queue_sender("guarded"))()
    with client(bus, bus.emulator.connection_string_for("Sender")) as sender:
        opening(sender.get_queue_sender("guarded"))()
        with pytest.raises(ServiceBusAuthorizationError):
            opening(sender.get_queue_receiver("guarded"))()


def signature(path: str, key: str = "root key", lifetime: float = 3600, offset: float = 0) -> AzureSasCredential:
    """A signature made by hand, as service-bus-sas describes it."""
    import base64
    import hashlib
    import hmac
    from urllib.parse import quote_plus

    expiry = int(time.time() + offset + lifetime)
    resource = quote_plus(path)
    digest = hmac.new(key.encode(), f"{resource}\n{expiry}".encode(), hashlib.sha256).digest()
    sig = quote_plus(base64.b64encode(digest))
    return AzureSasCredential(
        f"SharedAccessSignature sr={resource}&sig={sig}&se={expiry}&skn=RootManageSharedAccessKey"
    )


@pytest.mark.parametrize(("path", "error"), [
    ("sb://127.0.0.1/", None), ("sb://127.0.0.1/Guarded", None),
    ("sb://127.0.0.1/other", ServiceBusAuthorizationError), ("sb://127.0.0.1/guard", ServiceBusAuthorizationError),
])  # fmt: skip
def test_a_signature_is_good_for_what_it_covers(bus: Bus, path: str, error: type[Exception] | None) -> None:
    """Row 47. service-bus-sas: the scope is a prefix of whole segments."""
    bus.create("guarded")
    credential = signature(path, offset=bus.clock.offset)
    with ServiceBusClient(
        f"127.0.0.1:{bus.emulator.port}", credential, retry_total=0, keep_alive=0, use_tls=False
    ) as some:
        open_sender = opening(some.get_queue_sender("guarded"))
        if error is None:
            open_sender()
        else:
            with pytest.raises(error):
                open_sender()


def test_a_link_ends_when_its_token_expires(bus: Bus) -> None:
    """Row 47. service-bus-amqp-protocol-guide, claims-based security."""
    bus.create("guarded")
    credential = signature("sb://127.0.0.1/", lifetime=3600, offset=bus.clock.offset)
    with (
        ServiceBusClient(
            f"127.0.0.1:{bus.emulator.port}", credential, retry_total=0, keep_alive=0, use_tls=False
        ) as some,
        some.get_queue_sender("guarded") as sender,
    ):
        sender.send_messages(ServiceBusMessage("in time"))
        before = bus.clock.offset
        bus.clock.advance(timedelta(seconds=3601))
        bus.emulator.admin.get("guarded")
        time.sleep(0.15)  # three ticks of the broker: nothing else tells of the detach
        with pytest.raises(ServiceBusError):
            sender.send_messages(ServiceBusMessage("too late"))
        bus.clock.offset = before
    assert bus.drain("guarded") == ["in time"]
