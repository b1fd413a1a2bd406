"""Who may do what, and where nothing is: tokens, rights, missing, disabled and deleted entities."""

from __future__ import annotations

import base64
import hashlib
import hmac
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote_plus

import pytest
from azure.core.credentials import AccessToken, AzureSasCredential
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus._pyamqp import cbs
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
    return AzureSasCredential(signed(path, key, int(time.time() + offset + lifetime)))


def signed(path: str, key: str, expiry: int, policy: str = "RootManageSharedAccessKey") -> str:
    resource = quote_plus(path)
    digest = hmac.new(key.encode(), f"{resource}\n{expiry}".encode(), hashlib.sha256).digest()
    sig = quote_plus(base64.b64encode(digest))
    return f"SharedAccessSignature sr={resource}&sig={sig}&se={expiry}&skn={policy}"


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


def with_credential(bus: Bus, credential: Any) -> ServiceBusClient:
    return ServiceBusClient(f"127.0.0.1:{bus.emulator.port}", credential, retry_total=0, keep_alive=0, use_tls=False)


@pytest.mark.parametrize("spoil", [
    lambda token: token.replace("sig=", "sig=x"),
    lambda token: token.replace("skn=Root", "skn=Boot"),
    lambda token: token.replace("sr=", "rs="),
    lambda token: token.replace("SharedAccessSignature ", ""),
])  # fmt: skip
def test_a_signature_that_is_wrong_in_any_part_is_an_authentication_error(
    bus: Bus, spoil: Callable[[str], str]
) -> None:
    """Row 47. service-bus-amqp-protocol-guide: put-token is answered like HTTP, here with 401."""
    bus.create("guarded")
    token = signed("sb://127.0.0.1/", "root key", int(time.time() + bus.clock.offset + 3600))
    with with_credential(bus, AzureSasCredential(spoil(token))) as some, pytest.raises(ServiceBusAuthenticationError):
        opening(some.get_queue_sender("guarded"))()


def test_a_signature_of_the_past_is_an_authentication_error(bus: Bus) -> None:
    """Row 47. service-bus-sas: `se`."""
    bus.create("guarded")
    credential = signature("sb://127.0.0.1/", lifetime=3600, offset=bus.clock.offset)
    before = bus.clock.offset
    bus.clock.advance(timedelta(seconds=3601))
    try:
        with with_credential(bus, credential) as some, pytest.raises(ServiceBusAuthenticationError):
            opening(some.get_queue_sender("guarded"))()
    finally:
        bus.clock.offset = before


class Issued:
    """A credential of the caller's own: the SDK calls whatever it gives a "jwt". Each token is good for an hour of the bus's time."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self.issued = 0
        self.text: str | None = None

    def get_token(self, *scopes: str, **options: Any) -> AccessToken:
        self.issued += 1
        expiry = int(time.time() + self._bus.clock.offset + 3600)
        return AccessToken(self.text or signed("sb://127.0.0.1/", "root key", expiry), expiry)


def test_a_signature_is_known_by_its_content(bus: Bus) -> None:
    """Row 47. What the client calls its token is not what it is."""
    bus.create("guarded")
    with with_credential(bus, Issued(bus)) as some:
        opening(some.get_queue_sender("guarded"))()


def test_a_web_token_is_refused(bus: Bus) -> None:
    """Row 47, and the emulator's own limit (docs/decisions/servicebus-access.md)."""
    bus.create("guarded")
    credential = Issued(bus)
    credential.text = "eyJhbGciOiJSUzI1NiJ9.eyJhdWQiOiJodHRwczovL3NlcnZpY2VidXMuYXp1cmUubmV0LyJ9.c2ln"
    with with_credential(bus, credential) as some, pytest.raises(ServiceBusAuthenticationError):
        opening(some.get_queue_sender("guarded"))()


def test_a_link_outlives_a_token_that_is_renewed_in_time(bus: Bus, monkeypatch: pytest.MonkeyPatch) -> None:
    """Row 47. service-bus-amqp-protocol-guide: a token may be put again at any time; the SDK does at 90 % of its life."""
    bus.create("renewed")
    credential = Issued(bus)
    before = bus.clock.offset
    monkeypatch.setattr(cbs, "utc_now", lambda: datetime.fromtimestamp(bus.clock(), UTC))
    with with_credential(bus, credential) as some, some.get_queue_sender("renewed") as sender:
        handler = sender._handler
        for text in ("after 0 minutes", "after 55", "after 110", "after 165"):
            sender.send_messages(ServiceBusMessage(text))
            bus.clock.advance(timedelta(minutes=55))
        assert sender._handler is handler
        assert credential.issued == 4
    bus.clock.offset = before
    assert bus.drain("renewed") == ["after 0 minutes", "after 55", "after 110", "after 165"]


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
