"""The Service Bus adapter with an identity in place of a key: over TLS, by the SDK's own way, up to what the emulator can know.

The emulator refuses tokens of Microsoft Entra ID (docs/decisions/0006-servicebus-access.md), so two stand-ins take DefaultAzureCredential's
place: one gives such a token and is refused as an identity without a role is, the other gives shared access signatures, which pass.
"""

from __future__ import annotations

import base64
import dataclasses
import functools
import hashlib
import hmac
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote_plus

import pytest
from azure.core.credentials import AccessToken
from azure.core.exceptions import ClientAuthenticationError
from azure.servicebus import ServiceBusClient, TransportType

import common.servicebus.connection.client
import common.servicebus.management
from common.bus.ports import Need, QueueNeed, TopicNeed
from common.errors import PermanentError, TransientError
from common.message import Message
from common.servicebus.namespace import ServiceBus
from common.servicebus.provision import provision
from common.servicebus.settings import ServiceBusSettings
from emulators.certificates import TlsSettings
from emulators.servicebus.server import ServiceBusEmulator

pytestmark = pytest.mark.filterwarnings("ignore:unclosed <s:ResourceWarning")  # the SDK forgets failed sockets

NAMESPACE = "shop.servicebus.windows.net"
SCOPE = "https://servicebus.azure.net//.default"
WEB_TOKEN = ".".join(
    base64.urlsafe_b64encode(part).decode().rstrip("=")
    for part in (b'{"typ":"JWT","alg":"RS256"}', b'{"aud":"https://servicebus.azure.net"}', b"signature")
)


class StandIn:
    """What DefaultAzureCredential would give: `give` makes it."""

    give: Any
    asked: set[str]

    def __init__(self, **options: Any) -> None:
        """Takes any bounds."""

    def get_token(self, *scopes: str, **options: Any) -> AccessToken:
        StandIn.asked |= set(scopes)
        return AccessToken(StandIn.give(), int(time.time()) + 3600)

    def close(self) -> None:
        """Nothing is open."""


@pytest.fixture
def emulator(tls: TlsSettings) -> Iterator[ServiceBusEmulator]:
    with ServiceBusEmulator(tls=tls) as running:
        by_key = ServiceBus.from_connection_string(running.connection_string)
        provision(
            by_key.address,
            [QueueNeed("plain", sessions=False), QueueNeed("lanes", sessions=True)],
            how="create",
            management_endpoint=f"http://127.0.0.1:{running.http_port}",
        )
        yield running


@pytest.fixture
def settings(emulator: ServiceBusEmulator, ca: str, monkeypatch: pytest.MonkeyPatch) -> ServiceBusSettings:
    """As in a file; that the namespace is elsewhere and has a certificate of its own is told to the libraries behind our back."""
    elsewhere = functools.partial(
        ServiceBusClient,
        custom_endpoint_address=f"sb://localhost:{emulator.tls_port}",
        transport_type=TransportType.Amqp,
        connection_verify=ca,
    )
    monkeypatch.setattr(common.servicebus.connection.client, "ServiceBusClient", elsewhere)
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", ca)
    monkeypatch.setitem(sys.modules, "azure.identity", SimpleNamespace(DefaultAzureCredential=StandIn))
    StandIn.give, StandIn.asked = lambda: WEB_TOKEN, set()
    return ServiceBusSettings(namespace=NAMESPACE, management_endpoint=f"https://localhost:{emulator.https_port}")


def signature(emulator: ServiceBusEmulator) -> str:
    key = emulator.connection_string.partition("SharedAccessKey=")[2].partition(";")[0]
    resource, expiry = quote_plus(f"sb://{NAMESPACE}/"), int(time.time()) + 3600
    digest = hmac.new(key.encode(), f"{resource}\n{expiry}".encode(), hashlib.sha256).digest()
    signed = quote_plus(base64.b64encode(digest))
    return f"SharedAccessSignature sr={resource}&sig={signed}&se={expiry}&skn=RootManageSharedAccessKey"


@pytest.mark.parametrize(("queue", "session"), [("plain", None), ("lanes", "a")])
def test_messages_go_and_come(
    emulator: ServiceBusEmulator, settings: ServiceBusSettings, queue: str, session: str | None
) -> None:
    StandIn.give = lambda: signature(emulator)
    with closing(ServiceBus.of(settings)) as bus:
        with closing(bus.sender(queue)) as sender:
            sender.send([Message(b"%d" % number, f"m{number}", session) for number in range(3)])
        receiver = bus.receivers(queue, sessions=session is not None, prefetch=10).open(max_wait=5)
        assert receiver is not None
        with closing(receiver):
            bodies: list[bytes] = []
            while len(bodies) < 3:
                deliveries = receiver.receive(max_count=3, max_wait=5)
                bodies += [delivery.message.body for delivery in deliveries]
                assert receiver.settle_many(deliveries) == []
    assert bodies == [b"0", b"1", b"2"]
    assert StandIn.asked == {SCOPE}


def test_entities_are_made_over_https_with_the_token_as_bearer(
    emulator: ServiceBusEmulator, settings: ServiceBusSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[str] = []

    class Unwrapped(common.servicebus.management._Redirected):
        """The service takes the bearer's word; the emulator takes the signature in it."""

        def send(self, request: Any, **options: Any) -> Any:
            sent.append(request.headers["Authorization"])
            request.headers["Authorization"] = sent[-1].removeprefix("Bearer ")
            return super().send(request, **options)

    monkeypatch.setattr(common.servicebus.management, "_Redirected", Unwrapped)
    StandIn.give = lambda: signature(emulator)
    needs: list[Need] = [QueueNeed("made", sessions=True), TopicNeed("news", ("sub1",))]
    with closing(ServiceBus.of(settings)) as bus:
        provision(bus.address, needs, how="create", management_endpoint=settings.management_endpoint)
        provision(bus.address, needs, how="verify", management_endpoint=settings.management_endpoint)
    assert sent
    assert all(each.startswith("Bearer SharedAccessSignature ") for each in sent)
    assert StandIn.asked == {SCOPE}


def test_a_refused_token_names_the_roles_and_is_not_shown(
    emulator: ServiceBusEmulator, settings: ServiceBusSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the plain port: given another endpoint's address, the SDK takes every refusal for a wrong address."""
    monkeypatch.setattr(
        common.servicebus.connection.client, "ServiceBusClient", functools.partial(ServiceBusClient, use_tls=False)
    )
    here = dataclasses.replace(ServiceBus.of(settings).address, host=f"127.0.0.1:{emulator.port}")
    with closing(ServiceBus(here)) as bus:
        opening: list[Callable[[], object]] = [
            bus.sender("plain").open,
            lambda: bus.receivers("lanes", sessions=True, prefetch=1).open(max_wait=1),
        ]
        for attempt in opening:
            with pytest.raises(PermanentError, match=r"the identity at .* is refused \(.*JSON web tokens") as raised:
                attempt()
            assert "Azure Service Bus Data Sender" in str(raised.value)
            assert "Azure Service Bus Data Receiver" in str(raised.value)
            assert WEB_TOKEN not in str(raised.value)


def test_a_token_refused_for_provisioning_names_the_owners_role(settings: ServiceBusSettings) -> None:
    needs = [QueueNeed("made", sessions=True)]
    with (
        closing(ServiceBus.of(settings)) as bus,
        pytest.raises(PermanentError, match=r"creating made .*Azure Service Bus Data Owner") as raised,
    ):
        provision(bus.address, needs, how="create", management_endpoint=settings.management_endpoint)
    assert 'provision = "none"' in str(raised.value)
    assert WEB_TOKEN not in str(raised.value)


def test_no_identity_ends_a_start_with_the_remedy_wherever_it_is_met_first(settings: ServiceBusSettings) -> None:
    def none() -> str:
        raise ClientAuthenticationError("DefaultAzureCredential failed to retrieve a token.\nAttempted: ...")

    StandIn.give = none
    with closing(ServiceBus.of(settings)) as bus:
        starting: list[Callable[[], object]] = [
            bus.sender("plain").open,
            lambda: bus.receivers("plain", sessions=False, prefetch=1).open(max_wait=1),
            lambda: provision(bus.address, [QueueNeed("plain", sessions=False)], how="verify"),
        ]
        for attempt in starting:
            with pytest.raises(PermanentError, match=r"asking for a token .*AZURE_CLIENT_ID.*Data Owner"):
                attempt()


def test_an_identity_that_was_there_is_waited_for(emulator: ServiceBusEmulator, settings: ServiceBusSettings) -> None:
    StandIn.give = lambda: signature(emulator)
    with closing(ServiceBus.of(settings)) as bus, closing(bus.sender("plain")) as sender:
        sender.open()
        sender.close()

        def late() -> str:
            raise ClientAuthenticationError("no response from the IMDS endpoint")

        StandIn.give = late
        assert bus.address.identity is not None
        bus.address.identity.forget()  # as if it was nearly over
        with pytest.raises(TransientError, match="IMDS"):
            sender.send([Message(b"x", "m")])
        StandIn.give = lambda: signature(emulator)
        sender.send([Message(b"x", "m")])
