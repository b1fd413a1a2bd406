"""What the service says when it refuses, as users have reported it, and what a person is told."""

from __future__ import annotations

import pytest

from common.azure_amqp.refusals import UNKNOWN, Credential, missing, read

POLICY = Credential("the policy sender of ns", identity=False)
IDENTITY = Credential("the identity at ns", policy=False)
TRACKED = "TrackingId:3b3548f0_G6, SystemTracker:NoSystemTracker, Timestamp:2026-03-19T19:01:58"
CLAIM = (
    "Unauthorized access. '{}' claim(s) are required to perform this operation. Resource: 'sb://ns.servicebus.windows.net/orders'. "
    + TRACKED
)


@pytest.mark.parametrize(
    ("words", "who", "text", "hint"),
    [
        # https://github.com/Azure/azure-sdk-for-java/issues/30723
        (
            f"InvalidSignature: The token has an invalid signature. {TRACKED}",
            POLICY,
            "the policy sender of ns is refused: wrong key, or no such policy",
            "SharedAccessKeyName and SharedAccessKey of the connection string",
        ),
        # https://github.com/Azure/azure-sdk-for-ruby/issues/2357, of the management API
        (
            "40103: Invalid authorization token signature",
            UNKNOWN,
            "the key or identity is refused: wrong key",
            "check the policy's name and key",
        ),
        # https://github.com/Azure/azure-sdk-for-python/issues/23487
        (
            f"ExpiredToken: The token is expired. {TRACKED}",
            POLICY,
            "the policy sender of ns is refused: its token has expired",
            "set this machine's clock",
        ),
        # https://github.com/sandrinodimattia/RedDog/issues/4
        (
            f"InvalidAudience: The authorization header contains a token with a wrong audience. {TRACKED}",
            POLICY,
            "the policy sender of ns is for another entity or namespace",
            "serves for that entity alone",
        ),
        # https://github.com/pnp/Microsoft365-Analytics-Insights/issues/138
        (
            "LocalAuthDisabled: Authorization failed because SAS authentication has been disabled for the namespace.",
            POLICY,
            "the policy sender of ns is refused: the namespace takes no keys",
            'use namespace = "NAME.servicebus.windows.net" instead of connection_string',
        ),
        # https://github.com/microsoft/azure-spring-boot/issues/939
        (
            CLAIM.format("Send"),
            POLICY,
            "the policy sender of ns lacks the right Send on orders",
            "give the policy the right Send",
        ),
        (
            CLAIM.format("Send"),
            IDENTITY,
            "the identity at ns lacks the right Send on orders",
            "give the identity the role Azure Service Bus Data Sender on orders",
        ),
        (
            CLAIM.format("Listen"),
            IDENTITY,
            "lacks the right Listen on orders",
            "the role Azure Service Bus Data Receiver on orders",
        ),
        (
            CLAIM.format("Listen"),
            UNKNOWN,
            "the key or identity lacks the right Listen",
            "the right Listen, or use one that has it",
        ),
        # https://github.com/MicrosoftDocs/azure-docs/issues/76896
        (
            CLAIM.format("Listen,Manage,SubscriptionRuleRead"),
            IDENTITY,
            "lacks the right Manage",
            "Azure Service Bus Data Owner",
        ),
        (
            "40101: Manage,EntityRead claims required for this operation",
            UNKNOWN,
            "lacks the right Manage",
            "the right Manage",
        ),
    ],
)
def test_a_refusal_is_told_in_plain_words_with_its_remedy(words: str, who: Credential, text: str, hint: str) -> None:
    found = read(words, who)
    assert found is not None
    assert text in found.text
    assert hint in found.hint


def test_only_the_way_that_is_used_is_shown() -> None:
    by_key, by_identity = read(CLAIM.format("Send"), POLICY), read(CLAIM.format("Send"), IDENTITY)
    assert by_key is not None
    assert by_identity is not None
    assert "identity" not in by_key.hint
    assert "policy" not in by_identity.hint


@pytest.mark.parametrize(
    "words", ["", "claim is empty or token is invalid", "The service was unable to process the request"]
)
def test_what_is_not_known_is_not_guessed(words: str) -> None:
    assert read(words, POLICY) is None


@pytest.mark.parametrize(
    ("words", "text"),
    [
        # https://github.com/Azure/azure-service-bus/issues/304
        (
            "The messaging entity 'sb://ruchandemo.servicebus.windows.net/queen0' could not be found. " + TRACKED,
            "queue or topic queen0 does not exist in namespace ruchandemo.servicebus.windows.net",
        ),
        # https://github.com/telstrapurple/PurpleExplorer/issues/103
        (
            "The messaging entity 'sb://ns.servicebus.windows.net/a/b/$management' could not be found. To know more visit https://aka.ms/sbResourceMgrExceptions.",
            "queue or topic a/b does not exist in namespace ns.servicebus.windows.net",
        ),
        # https://github.com/dotnet-architecture/eShopOnContainers/pull/1698
        (
            "The messaging entity 'ns:topic:orders~15|amqps://ns/-325b0313;0:5:6' could not be found.",
            "the queue or topic does not exist",
        ),
        ("", "the queue or topic does not exist"),
    ],
)
def test_a_missing_entity_is_named_with_its_namespace(words: str, text: str) -> None:
    assert missing(words) == text
