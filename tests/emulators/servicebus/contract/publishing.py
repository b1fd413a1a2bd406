"""A topic with one subscription and the rules of a test: what these let through, and what they make of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from azure.servicebus import ServiceBusMessage, ServiceBusReceivedMessage
from azure.servicebus.management import CorrelationRuleFilter, SqlRuleAction, SqlRuleFilter

from tests.emulators.servicebus.contract.namespace import Namespace
from tests.emulators.servicebus.contract.receiving import take_one

DEFAULT_RULE = "$Default"
_END = "the end"

Filter = CorrelationRuleFilter | SqlRuleFilter | str
"""A text is a SQL filter."""
Rule = Filter | tuple[Filter, str]
"""With an action's text."""


def subscribed(namespace: Namespace, rules: Mapping[str, Rule], **settings: Any) -> str:
    """A new topic with a subscription that has these rules and no other; its name."""
    topic = namespace.topic()
    namespace.subscription(topic, **settings)
    namespace.admin.delete_rule(topic, "subscription", DEFAULT_RULE)
    for name, rule in rules.items():
        filter_, action = rule if isinstance(rule, tuple) else (rule, None)
        namespace.admin.create_rule(
            topic,
            "subscription",
            name,
            filter=SqlRuleFilter(filter_) if isinstance(filter_, str) else filter_,
            action=None if action is None else SqlRuleAction(action),
        )
    return topic


def delivered(namespace: Namespace, topic: str, *messages: ServiceBusMessage) -> list[ServiceBusReceivedMessage]:
    """Publish messages; what the subscription gets of them, in order, without waiting for what does not come.

    A last message, which a rule of its own lets through, tells that there are no more.
    """
    namespace.admin.create_rule(topic, "subscription", "end", filter=CorrelationRuleFilter(message_id=_END))
    namespace.topic_sender(topic).send_messages([*messages, ServiceBusMessage(_END, message_id=_END)])
    receiver = namespace.subscriber(topic, receive_mode="receiveanddelete")
    found: list[ServiceBusReceivedMessage] = []
    while str(message := take_one(receiver)) != _END:
        found.append(message)
    return found


def bodies(messages: list[ServiceBusReceivedMessage]) -> list[str]:
    return [str(message) for message in messages]


def message(body: str = "m", /, **properties: Any) -> ServiceBusMessage:
    """With application properties."""
    named: dict[str | bytes, Any] = dict(properties.items())
    return ServiceBusMessage(body, application_properties=named)


def user_properties(message: ServiceBusReceivedMessage) -> dict[str, Any]:
    """Application properties with texts, where the SDK gives octets."""

    def text(value: Any) -> Any:
        return value.decode() if isinstance(value, bytes) else value

    return {text(name): text(value) for name, value in (message.application_properties or {}).items()}
