"""What the emulator makes of a token that it reads by itself; who may do what is in the contract (item 47)."""

from __future__ import annotations

import base64
import hashlib
import hmac
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import quote_plus

import pytest
from azure.core.credentials import AccessToken, AzureSasCredential
from azure.servicebus import ServiceBusClient
from azure.servicebus.exceptions import ServiceBusAuthenticationError

from tests.emulators.servicebus.conftest import Bus


def opening(handler: Any) -> Callable[[], None]:
    def open_and_close() -> None:
        with handler:
            pass

    return open_and_close


def signed(path: str, key: str, expiry: int, policy: str = "RootManageSharedAccessKey") -> str:
    resource = quote_plus(path)
    digest = hmac.new(key.encode(), f"{resource}\n{expiry}".encode(), hashlib.sha256).digest()
    sig = quote_plus(base64.b64encode(digest))
    return f"SharedAccessSignature sr={resource}&sig={sig}&se={expiry}&skn={policy}"


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
    """service-bus-amqp-protocol-guide: put-token is answered like HTTP, here with 401."""
    bus.create("guarded")
    token = signed("sb://127.0.0.1/", "root key", int(time.time() + bus.clock.offset + 3600))
    with with_credential(bus, AzureSasCredential(spoil(token))) as some, pytest.raises(ServiceBusAuthenticationError):
        opening(some.get_queue_sender("guarded"))()


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
    """What the client calls its token is not what it is."""
    bus.create("guarded")
    with with_credential(bus, Issued(bus)) as some:
        opening(some.get_queue_sender("guarded"))()


def test_a_web_token_is_refused(bus: Bus) -> None:
    """The emulator's own limit (docs/decisions/0006-servicebus-access.md)."""
    bus.create("guarded")
    credential = Issued(bus)
    credential.text = "eyJhbGciOiJSUzI1NiJ9.eyJhdWQiOiJodHRwczovL3NlcnZpY2VidXMuYXp1cmUubmV0LyJ9.c2ln"
    with with_credential(bus, credential) as some, pytest.raises(ServiceBusAuthenticationError):
        opening(some.get_queue_sender("guarded"))()
