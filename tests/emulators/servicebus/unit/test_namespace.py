"""Entities and signatures: what is refused is refused by name."""

from __future__ import annotations

import base64
import hashlib
import hmac
from datetime import timedelta
from typing import Any
from urllib.parse import quote_plus

import pytest

from emulators.servicebus.amqp.values import AmqpError
from emulators.servicebus.description import (
    FOREVER,
    EntityExists,
    EntityMissing,
    InvalidEntity,
    QueueDescription,
    SubscriptionDescription,
    TopicDescription,
)
from emulators.servicebus.entities.namespace import Namespace
from emulators.servicebus.entities.queue import Queue
from emulators.servicebus.journal import Forgetful
from emulators.servicebus.message import parse_message
from emulators.servicebus.sas import AccessPolicies, InvalidToken, resource_path


@pytest.fixture
def namespace() -> Namespace:
    return Namespace(lambda: 1_000.0, Forgetful())


@pytest.mark.parametrize("setting", [
    {"forward_to": "nowhere"}, {"forward_dead_lettered_messages_to": "nowhere"}, {"enable_partitioning": True},
    {"auto_delete_on_idle": timedelta(minutes=4, seconds=59)}, {"status": "Sleeping"},
    {"lock_duration": timedelta(minutes=6)}, {"lock_duration": timedelta(0)}, {"max_delivery_count": 0},
    {"default_message_time_to_live": timedelta(0)}, {"max_size_in_megabytes": 0}, {"user_metadata": "x" * 1025},
    {"duplicate_detection_history_time_window": timedelta(seconds=19)},
    {"duplicate_detection_history_time_window": timedelta(days=8)},
    {"max_message_size_in_kilobytes": 0}, {"max_message_size_in_kilobytes": 102_401},
])  # fmt: skip
def test_a_setting_the_broker_cannot_keep_is_refused_by_name(namespace: Namespace, setting: dict[str, Any]) -> None:
    with pytest.raises(InvalidEntity, match=next(iter(setting))):
        namespace.create("q", QueueDescription(**setting))
    with pytest.raises(EntityMissing):
        namespace.get("q")


@pytest.mark.parametrize(("path", "description"), [
    ("t", TopicDescription(status="ReceiveDisabled")), ("t/Subscriptions/s", SubscriptionDescription(status="SendDisabled")),
])  # fmt: skip
def test_a_topic_is_not_received_from_and_a_subscription_not_sent_to(
    namespace: Namespace, path: str, description: TopicDescription | SubscriptionDescription
) -> None:
    """entity-suspend: the states of each."""
    if "/" in path:
        namespace.create("t", TopicDescription())
    with pytest.raises(InvalidEntity, match="status"):
        namespace.create(path, description)


@pytest.mark.parametrize("name", [
    "", "-a", "a-", "a b", "a?", "é", "a" * 261, "t/Subscriptions/", "t/Subscriptions/" + "s" * 51,
    "t/Subscriptions/a/b", "t/Subscriptions/.s",
])  # fmt: skip
def test_a_name_that_azure_refuses_is_refused(namespace: Namespace, name: str) -> None:
    """Row 57. Quotas; naming rules and restrictions for Azure resources."""
    namespace.create("t", TopicDescription())
    with pytest.raises(InvalidEntity):
        namespace.create(name, SubscriptionDescription() if "Subscriptions" in name else QueueDescription())


@pytest.mark.parametrize("name", ["a", "a/b.c-d_e/f", "0" * 260])
def test_a_name_that_azure_takes_is_taken(namespace: Namespace, name: str) -> None:
    assert namespace.create(name, QueueDescription()).path == name


def test_what_forwards_is_never_idle(namespace: Namespace) -> None:
    """service-bus-auto-forwarding: AutoDeleteOnIdle is set to its maximum."""
    namespace.create("end", QueueDescription())
    description = QueueDescription(forward_to="end", auto_delete_on_idle=timedelta(minutes=5))
    assert namespace.create("source", description).description.auto_delete_on_idle == FOREVER


def test_what_is_fixed_at_creation_stays(namespace: Namespace) -> None:
    """Row 58."""
    namespace.create("q", QueueDescription())
    for name in ("requires_session", "requires_duplicate_detection"):
        with pytest.raises(InvalidEntity, match=name):
            namespace.update("q", QueueDescription(**{name: True}))  # type: ignore[arg-type]  # by name on purpose
    assert namespace.update("Q", QueueDescription(max_delivery_count=3)).description == QueueDescription(
        max_delivery_count=3
    )


def test_names_compare_without_regard_to_case_and_keep_their_spelling(namespace: Namespace) -> None:
    namespace.create("Orders", TopicDescription())
    namespace.create("orders/subscriptions/Audit", SubscriptionDescription())
    assert namespace.get("ORDERS/Subscriptions/AUDIT").path == "orders/subscriptions/Audit"
    with pytest.raises(EntityExists):
        namespace.create("orders", QueueDescription())
    assert namespace.find("orders/Subscriptions/audit/$DeadLetterQueue").dead_letters


def test_a_sweep_looks_at_nothing_but_what_is_due(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand entities, twenty times a second."""
    seconds = 1_000.0
    namespace = Namespace(lambda: seconds, Forgetful())
    for number in range(50):
        namespace.create(f"q{number}", QueueDescription(auto_delete_on_idle=timedelta(hours=1)))
    swept: list[str] = []
    monkeypatch.setattr(Queue, "sweep", lambda queue, now: swept.append(queue.path))
    namespace.sweep()
    message = parse_message(b"\x00\x53\x75\xa0\x01x")
    message.ttl = 1000
    queue = namespace.find("q7").entity
    assert isinstance(queue, Queue)
    queue.accept([message], namespace.now())
    namespace.sweep()
    assert swept == []
    seconds += 1
    namespace.sweep()
    assert swept == ["q7"]


def test_a_subscription_needs_its_topic(namespace: Namespace) -> None:
    with pytest.raises(EntityMissing):
        namespace.create("nowhere/Subscriptions/s", SubscriptionDescription())
    with pytest.raises(InvalidEntity):
        namespace.create("nowhere/Subscriptions/s", QueueDescription())


def test_a_topic_has_no_dead_letter_queue(namespace: Namespace) -> None:
    namespace.create("t", TopicDescription())
    with pytest.raises(AmqpError, match="not-found"):
        namespace.find("t/$DeadLetterQueue")


def token(resource: str, key: str = "key", expiry: str = "2000", name: str = "root") -> str:
    quoted = quote_plus(resource)
    digest = hmac.new(key.encode(), f"{quoted}\n{expiry}".encode(), hashlib.sha256).digest()
    sig = quote_plus(base64.b64encode(digest))
    return f"SharedAccessSignature sr={quoted}&sig={sig}&se={expiry}&skn={name}"


POLICIES = AccessPolicies({"root": "key", "few": "key"}, {"few": ["Listen"]})


def test_a_good_signature_grants_its_policys_rights_until_it_expires() -> None:
    grant = POLICIES.verify(token("sb://ns/Queue"), 1000)
    assert grant.rights == {"Listen", "Send", "Manage"}
    assert grant.covers("queue", 1999)
    assert grant.covers("queue/$management", 1999)
    assert not grant.covers("queue", 2000)
    assert not grant.covers("queue2", 1000)
    assert POLICIES.verify(token("sb://ns/", name="few"), 1000).rights == {"Listen"}


@pytest.mark.parametrize("bad", [
    token("sb://ns/q", key="other"), token("sb://ns/q", name="nobody"), token("sb://ns/q", expiry="1000"),
    token("sb://ns/q", expiry="soon"), token("sb://ns/q").replace("sr=", "sr=x"), "Bearer eyJ", "SharedAccessSignature",
    token("sb://ns/q").replace("&se=2000", ""), token("sb://ns/q").replace("se=2000", "se=9000"),
])  # fmt: skip
def test_a_bad_signature_grants_nothing(bad: str) -> None:
    with pytest.raises(InvalidToken):
        POLICIES.verify(bad, 1000)


def test_a_right_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match="Read"):
        AccessPolicies({"root": "key"}, {"root": ["Read"]})


@pytest.mark.parametrize(("address", "path"), [
    ("amqps://host:5671/Q/$DeadLetterQueue", "q/$deadletterqueue"), ("sb://host", ""), ("sb://host/", ""), ("Q", "q"),
    ("sb://[::1/q", "q"), ("$cbs", "$cbs"), ("https://host:1/q?api-version=2021-05", "q"),
])  # fmt: skip
def test_addresses_lead_to_paths(address: str, path: str) -> None:
    assert resource_path(address) == path
