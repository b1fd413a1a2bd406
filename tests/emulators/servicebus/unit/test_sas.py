"""Why a token is refused, told apart, and which right each request to an entity needs."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from typing import cast

import pytest

from emulators.servicebus.amqp.link import Link
from emulators.servicebus.amqp.values import AmqpError
from emulators.servicebus.description import QueueDescription, TopicDescription
from emulators.servicebus.entities.namespace import Namespace
from emulators.servicebus.entities.node import Node
from emulators.servicebus.journal import Forgetful
from emulators.servicebus.links.broker import ClientBroker
from emulators.servicebus.links.claims import CbsEndpoint
from emulators.servicebus.links.management import ManagementEndpoint
from emulators.servicebus.links.requests import Request
from emulators.servicebus.sas import AccessPolicies, InvalidToken

POLICIES = AccessPolicies({"root": "key"})
NOW = 1_000_000.0


def signed(expiry: str, name: str = "root", resource: str = "sb%3A%2F%2Fns%2Fq") -> str:
    digest = hmac.new(b"key", f"{resource}\n{expiry}".encode(), hashlib.sha256).digest()
    signature = base64.b64encode(digest).decode().replace("+", "%2B").replace("/", "%2F").replace("=", "%3D")
    return f"SharedAccessSignature sr={resource}&sig={signature}&se={expiry}&skn={name}"


def web_token() -> str:
    """What a managed identity gets, but for the signature."""
    parts = ({"typ": "JWT", "alg": "RS256"}, {"aud": "https://servicebus.azure.net/", "exp": 2_000_000_000})
    encoded = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts]
    return ".".join([*encoded, "c2lnbmF0dXJl"])


@pytest.mark.parametrize(("token", "reason"), [
    (signed("999999"), r"the token is expired\. Expiration time: '1970-01-12 13:46:39Z'"),
    (signed("1000000"), "the token is expired"),
    (signed("2000000", name="nobody"), "there is no policy 'nobody'"),
    (signed("2000000").replace("se=2", "se=3"), "the token has an invalid signature"),
    (signed("2000000").replace("sig=", "six="), "the token has no 'sig'"),
    (signed("soon"), "the token's expiry is no time in seconds"),
    (signed("9" * 400), "the token's expiry is no time in seconds"),
    (signed("-1"), "the token's expiry is no time in seconds"),
    (web_token(), "JSON web tokens .* use a connection string"),
    ("Bearer " + web_token(), "JSON web tokens .* use a connection string"),
    ("", "only shared access signatures are supported"),
    ("Basic cm9vdDprZXk=", "only shared access signatures are supported"),
])  # fmt: skip
def test_a_refused_token_is_told_why(token: str, reason: str) -> None:
    with pytest.raises(InvalidToken, match=reason):
        POLICIES.verify(token, NOW)


@pytest.mark.parametrize(("token", "audience", "answer"), [
    (signed("2000000"), "sb://ns/q", (202, "Accepted")),
    (signed("2000000"), "amqps://ns:5671/Q/$management", (202, "Accepted")),
    (signed("2000000"), None, (202, "Accepted")),
    (signed("2000000"), "sb://ns/q2",
     (401, "InvalidAudience: The authorization header contains a token with a wrong audience.")),
    (signed("999999"), "sb://ns/q",
     (401, "ExpiredToken: The token is expired. Expiration time: '1970-01-12 13:46:39Z'.")),
    (signed("2000000").replace("se=2", "se=3"), "sb://ns/q",
     (401, "InvalidSignature: The token has an invalid signature.")),
])  # fmt: skip
def test_putting_a_token_is_answered_in_the_services_words(
    token: str, audience: str | None, answer: tuple[int, str]
) -> None:
    """As users of its clients report them."""
    namespace = Namespace(lambda: NOW, Forgetful())
    namespace.create("q", QueueDescription())
    broker = ClientBroker(namespace, POLICIES, lambda: NOW)
    properties = {"operation": "put-token"} | ({} if audience is None else {"name": audience})
    response = CbsEndpoint(broker).handle(cast(Link, None), Request(1, None, properties, token))
    assert (response.status, response.description) == answer
    assert broker.permitted("q", "Send") is (response.status == 202)


@pytest.mark.parametrize(("audience", "status"), [
    ("sb://ns/", 202), ("sb://ns/t/Subscriptions/nobody", 202), ("sb://ns/t/$management", 202),
    ("sb://ns/nothing", 404), ("sb://ns/nothing/$DeadLetterQueue", 404), ("sb://ns/nothing/$management", 404),
    ("sb://ns/nothing/Subscriptions/nobody", 404),
])  # fmt: skip
def test_whoever_may_ask_is_told_of_a_missing_queue_or_topic_by_its_token(audience: str, status: int) -> None:
    """Of a missing subscription by its link (MicrosoftDocs/azure-docs issue 73870)."""
    namespace = Namespace(lambda: NOW, Forgetful())
    namespace.create("t", TopicDescription())
    token = signed("2000000", resource="sb%3A%2F%2Fns%2F")
    request = Request(1, None, {"operation": "put-token", "name": audience}, token)
    endpoint = CbsEndpoint(ClientBroker(namespace, POLICIES, lambda: NOW))
    try:
        response = endpoint.handle(cast(Link, None), request)
    except AmqpError as failure:
        response = endpoint.refusal(failure)
        assert response.description == f"The messaging entity '{audience}' could not be found."
    assert response.status == status


def test_a_token_may_live_as_long_as_anybody_asks() -> None:
    assert POLICIES.verify(signed("99999999999"), NOW).expires_at == 99_999_999_999


@pytest.mark.parametrize(("right", "operations"), [
    ("Send", ["schedule-message", "cancel-scheduled-message"]),
    ("Listen", [
        "peek-message", "renew-lock", "receive-by-sequence-number", "update-disposition", "renew-session-lock",
        "set-session-state", "get-session-state", "get-message-sessions",
    ]),
])  # fmt: skip
def test_a_request_without_the_right_to_it_is_refused_before_anything_is_looked_up(
    right: str, operations: list[str]
) -> None:
    """service-bus-sas, "Rights required for Service Bus operations"."""
    asked: list[str] = []

    def nowhere() -> Node:
        raise AssertionError("looked up")

    def never(right: str) -> bool:
        asked.append(right)
        return False

    endpoint = ManagementEndpoint(nowhere, lambda: 0, never)
    for operation in operations:
        request = Request(None, None, {"operation": f"com.microsoft:{operation}"}, {})
        with pytest.raises(AmqpError) as refused:
            endpoint.handle(cast(Link, None), request)
        assert refused.value.condition == "amqp:unauthorized-access"
    assert asked == [right] * len(operations)
