"""Item 47: keys, signatures, rights, and tokens that are renewed or not."""

from __future__ import annotations

import base64
import hashlib
import hmac
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote_plus

import pytest
from azure.core.credentials import AccessToken
from azure.core.exceptions import ClientAuthenticationError
from azure.servicebus import ServiceBusClient, ServiceBusMessage, parse_connection_string
from azure.servicebus._pyamqp import cbs
from azure.servicebus.exceptions import (
    ServiceBusAuthenticationError,
    ServiceBusAuthorizationError,
    ServiceBusConnectionError,
)
from azure.servicebus.management import AuthorizationRule

from emulators.servicebus.server import ServiceBusEmulator
from tests.emulators.servicebus.contract.conftest import Alone
from tests.emulators.servicebus.contract.labels import item
from tests.emulators.servicebus.contract.namespace import Namespace
from tests.emulators.servicebus.contract.receiving import complete

REFUSED = (ServiceBusAuthenticationError, ServiceBusAuthorizationError)
HOUR = 3600


def send(client: ServiceBusClient, queue: str) -> None:
    with client, client.get_queue_sender(queue) as sender:
        sender.send_messages(ServiceBusMessage("a"))


def receive(client: ServiceBusClient, queue: str) -> None:
    with client, client.get_queue_receiver(queue):
        pass


def key_of(namespace: Namespace) -> tuple[str, str]:
    parsed = parse_connection_string(namespace.connection_string)
    assert parsed.shared_access_key_name is not None
    assert parsed.shared_access_key is not None
    return parsed.shared_access_key_name, parsed.shared_access_key


def signed(namespace: Namespace, path: str, expiry: float, key: str | None = None) -> str:
    """A signature made by hand, as documented, for a path of the namespace."""
    name, good_key = key_of(namespace)
    host = parse_connection_string(namespace.connection_string).fully_qualified_namespace
    resource = quote_plus(f"sb://{host}/{path}")
    digest = hmac.new((key or good_key).encode(), f"{resource}\n{int(expiry)}".encode(), hashlib.sha256).digest()
    return f"SharedAccessSignature sr={resource}&sig={quote_plus(base64.b64encode(digest))}&se={int(expiry)}&skn={name}"


def with_signature(namespace: Namespace, signature: str) -> ServiceBusClient:
    """A client that has this and no key."""
    parts = namespace.connection_string.rstrip(";").split(";")
    kept = [part for part in parts if not part.startswith(("SharedAccessKeyName", "SharedAccessKey"))]
    return namespace.connect(";".join([*kept, f"SharedAccessSignature={signature}"]))


def in_an_hour(namespace: Namespace) -> float:
    """By the clock of the service, which the emulator's tests move."""
    return namespace.now().timestamp() + HOUR


@item(47, "documented")
@pytest.mark.parametrize("part", ["SharedAccessKey=", "SharedAccessKeyName="])
def test_a_wrong_key_or_policy_is_an_authentication_error(namespace: Namespace, part: str) -> None:
    """Nothing is sent.

    Source: SDK test_sb_client_bad_credentials; Microsoft, "Service Bus access control with Shared Access Signatures".
    """
    queue = namespace.queue()
    with pytest.raises(ServiceBusAuthenticationError):
        send(namespace.connect(namespace.connection_string.replace(part, f"{part}wrong")), queue)
    assert namespace.counts(queue).active == 0


@item(47, "documented")
def test_a_wrong_key_does_not_administer(namespace: Namespace) -> None:
    """401 over HTTP.

    Source: Microsoft, "Service Bus access control with Shared Access Signatures".
    """
    wrong = namespace.connection_string.replace("SharedAccessKey=", "SharedAccessKey=wrong")
    with namespace.administration(wrong) as admin, pytest.raises(ClientAuthenticationError):
        admin.get_queue(namespace.new_name())


@item(47, "documented")
def test_a_signature_is_good_for_everything_below_what_it_is_for(namespace: Namespace) -> None:
    """The namespace, or the entity itself, in any case.

    Source: Microsoft, "Shared Access Signatures": valid for all resources under the resource URI.
    """
    queue = namespace.queue()
    for path in ("", queue):
        send(with_signature(namespace, signed(namespace, path, in_an_hour(namespace))), queue)
    assert namespace.counts(queue).active == 2


@item(47, "documented")
def test_a_signature_is_no_good_for_another_entity(namespace: Namespace) -> None:
    """Neither beside it nor with a longer name.

    Source: Microsoft, "Shared Access Signatures": valid for all resources under the resource URI.
    """
    queue = namespace.queue()
    for path in (queue[:-1], f"{queue}2", "other"):
        with pytest.raises(REFUSED):
            send(with_signature(namespace, signed(namespace, path, in_an_hour(namespace))), queue)


@item(47, "documented")
def test_a_signature_that_is_spoilt_or_expired_is_an_authentication_error(namespace: Namespace) -> None:
    """Made with another key, changed, or of the past.

    Source: Microsoft, "Shared Access Signatures": if the signature doesn't match, access is denied; `se`.
    """
    queue = namespace.queue()
    later = in_an_hour(namespace)
    for bad in (
        signed(namespace, queue, later, key="another"),
        signed(namespace, queue, later).replace("sig=", "sig=x"),
        signed(namespace, queue, later).replace(f"se={int(later)}", f"se={int(later) + 1}"),
        signed(namespace, queue, later - 2 * HOUR),
    ):
        with pytest.raises(ServiceBusAuthenticationError):
            send(with_signature(namespace, bad), queue)


@item(47, "unverified")
def test_who_may_nothing_is_not_told_what_is_there(namespace: Namespace) -> None:
    """401 comes before 404: a wrong key at a missing entity is a wrong key.

    Source: nobody for sure; Azure/azure-sdk-for-net issue 44734 tells of it.
    """
    missing = namespace.new_name()
    elsewhere = signed(namespace, namespace.queue(), in_an_hour(namespace))
    with pytest.raises(REFUSED) as refused:
        send(with_signature(namespace, elsewhere), missing)
    assert getattr(refused.value.inner_exception, "status_code", None) == 401
    with pytest.raises(ServiceBusAuthenticationError) as told:
        send(namespace.connect(), missing)
    assert getattr(told.value.inner_exception, "status_code", None) == 404


@item(47, "documented")
@pytest.mark.emulator_only("policies of a namespace are made with Azure Resource Manager")
def test_rights_are_those_of_the_policy(namespace: Namespace, emulator: ServiceBusEmulator) -> None:
    """Listen to receive, Send to send; neither administers.

    Source: SDK test_sb_client_readonly_credentials, test_sb_client_writeonly_credentials; Microsoft, "Service Bus access control
    with Shared Access Signatures", Rights required for Service Bus operations.
    """
    queue = namespace.queue()
    listener, sender = (emulator.connection_string_for(name) for name in ("Listener", "Sender"))
    receive(namespace.connect(listener), queue)
    with pytest.raises(ServiceBusAuthorizationError):
        send(namespace.connect(listener), queue)
    send(namespace.connect(sender), queue)
    with pytest.raises(ServiceBusAuthorizationError):
        receive(namespace.connect(sender), queue)
    for policy in (listener, sender):
        with namespace.administration(policy) as admin, pytest.raises(ClientAuthenticationError):
            admin.get_queue(queue)


@item(47, "documented")
@pytest.mark.emulator_only("policies of a namespace are made with Azure Resource Manager")
def test_a_sender_may_schedule_and_not_peek(namespace: Namespace, emulator: ServiceBusEmulator) -> None:
    """On the management link each operation needs its own right.

    Source: Microsoft, "Service Bus access control with Shared Access Signatures", Rights required for Service Bus operations.
    """
    queue = namespace.queue()
    namespace.send(queue, "a")
    with (
        namespace.connect(emulator.connection_string_for("Sender")) as client,
        client.get_queue_sender(queue) as sender,
    ):
        (number,) = sender.schedule_messages(ServiceBusMessage("b"), namespace.now() + timedelta(days=1))
        sender.cancel_scheduled_messages(number)
    with (
        namespace.connect(emulator.connection_string_for("Listener")) as client,
        client.get_queue_receiver(queue) as receiver,
    ):
        assert [str(message) for message in receiver.peek_messages(2)] == ["a"]


@item(47, "documented")
def test_an_entity_has_policies_of_its_own(namespace: Namespace) -> None:
    """Good for it and for nothing else.

    Source: Microsoft, "Service Bus access control with Shared Access Signatures", Shared Access Authorization Policies;
    SDK test_sb_client_incorrect_queue_conn_str.
    """
    key = base64.b64encode(b"k" * 32).decode()
    rule = AuthorizationRule(
        type="SharedAccessAuthorizationRule",
        claim_type="SharedAccessKey",
        claim_value="None",
        rights=["Send"],
        key_name="mine",
        primary_key=key,
        secondary_key=key,
    )
    queue, other = namespace.queue(authorization_rules=[rule]), namespace.queue()
    name, known = key_of(namespace)
    mine = namespace.connection_string.replace(f"={name}", "=mine").replace(f"={known}", f"={key}")
    send(namespace.connect(mine), queue)
    with pytest.raises(REFUSED):
        receive(namespace.connect(mine), queue)
    with pytest.raises(REFUSED):
        send(namespace.connect(mine), other)


class Issued:
    """A credential that signs anew whenever it is asked; each token is good for an hour of the namespace's time."""

    def __init__(self, alone: Alone) -> None:
        self._alone = alone
        self.issued = 0

    def get_token(self, *scopes: str, **options: Any) -> AccessToken:
        self.issued += 1
        expiry = int(self._alone.clock() + HOUR)
        return AccessToken(signed(self._alone.namespace, "", expiry), expiry)


@item(47, "documented")
@pytest.mark.emulator_only("the clock of tokens is moved")
def test_a_link_outlives_a_token_that_is_renewed_in_time(alone: Alone, monkeypatch: pytest.MonkeyPatch) -> None:
    """The SDK puts another after nine tenths of its life; the link stays the same.

    Source: Microsoft, "AMQP 1.0 in Azure Service Bus and Event Hubs protocol guide", Claims-based authorization: a token may be
    put at any time.
    """
    queue = alone.namespace.queue()
    credential = Issued(alone)
    monkeypatch.setattr(cbs, "utc_now", lambda: datetime.fromtimestamp(alone.clock(), UTC))
    client: Any = ServiceBusClient(
        f"127.0.0.1:{alone.emulator.port}", credential, retry_total=0, keep_alive=0, use_tls=False
    )
    with client, client.get_queue_sender(queue) as sender:
        handler = sender._handler
        for number in range(3):
            sender.send_messages(ServiceBusMessage(str(number)))
            alone.clock.advance(timedelta(minutes=55))
        assert sender._handler is handler
    assert credential.issued == 3
    alone.clock.offset = 0.0
    assert alone.namespace.counts(queue).active == 3


@item(47, "documented")
@pytest.mark.emulator_only("the clock of tokens is moved")
def test_a_link_is_detached_when_its_token_has_expired(alone: Alone) -> None:
    """Code: RenewToken; a new link needs a new token.

    Source: Microsoft, "AMQP 1.0 in Azure Service Bus and Event Hubs protocol guide", Claims-based authorization; the text:
    Azure/azure-sdk-for-net issue 11619.
    """
    queue = alone.namespace.queue()
    receiver = alone.namespace.receiver(queue)
    alone.clock.advance(timedelta(minutes=61))
    with pytest.raises(ServiceBusConnectionError, match=r"force detached\. Code: RenewToken\. .*'Listen' claim"):
        receiver.receive_messages(1, max_wait_time=10)
    alone.clock.offset = 0.0
    alone.namespace.send(queue, "a")
    assert complete(receiver) == ["a"]
