"""What the tests of the management API share: entities kept in a dict, and Azure's administration client over plain HTTP."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from azure.core.pipeline.transport import AsyncioRequestsTransport, RequestsTransport
from azure.servicebus.aio.management import ServiceBusAdministrationClient as AsyncAdministrationClient
from azure.servicebus.management import ServiceBusAdministrationClient

from emulators.servicebus.administration.api import AdminApi
from emulators.servicebus.administration.http_server import AdminServer
from emulators.servicebus.description import (
    Description,
    EntityExists,
    EntityInfo,
    EntityMissing,
    QueueDescription,
    RuntimeCounts,
    SubscriptionDescription,
    TopicDescription,
)
from emulators.servicebus.entities.validation import require_valid
from emulators.servicebus.rules.description import DEFAULT_RULE, RuleDescription, RuleInfo
from emulators.servicebus.server import ServiceBusEmulator

KEYS = {"RootManageSharedAccessKey": "SAS_KEY_VALUE", "Listener": "listen-only"}


class Entities:
    """An EntityAdmin that holds descriptions in a dict: the API is on trial here, not a broker."""

    def __init__(self) -> None:
        self._held: dict[str, EntityInfo] = {}
        self._rules: dict[str, dict[str, RuleInfo]] = {}
        self._guard = threading.Lock()
        self.counts = RuntimeCounts()

    def create(
        self, path: str, description: Description, default_rule: tuple[str, RuleDescription] | None = None
    ) -> EntityInfo:
        require_valid(path, description)
        now = datetime.now(UTC)
        with self._guard:
            topic, _, subscription = path.partition("/Subscriptions/")
            if subscription and topic.lower() not in self._held:
                raise EntityMissing(topic)
            if path.lower() in self._held:
                raise EntityExists(path)
            self._held[path.lower()] = EntityInfo(path, description, self.counts, now, now, now)
            if isinstance(description, SubscriptionDescription):
                name, rule = default_rule or (DEFAULT_RULE, RuleDescription())
                self._rules[path.lower()] = {name.lower(): RuleInfo(name, rule, now)}
            return self._held[path.lower()]

    def update(self, path: str, description: Description) -> EntityInfo:
        self._held[path.lower()] = replace(self.get(path), description=description, updated_at=datetime.now(UTC))
        return self.get(path)

    def get(self, path: str) -> EntityInfo:
        try:
            return self._held[path.lower()]
        except KeyError:
            raise EntityMissing(path) from None

    def delete(self, path: str) -> None:
        self.get(path)
        for held in [name for name in self._held if f"{name}/".startswith(f"{path.lower()}/")]:
            del self._held[held]
            self._rules.pop(held, None)

    def queues(self) -> Sequence[EntityInfo]:
        return [info for info in self._held.values() if isinstance(info.description, QueueDescription)]

    def topics(self) -> Sequence[EntityInfo]:
        return [info for info in self._held.values() if isinstance(info.description, TopicDescription)]

    def subscriptions(self, topic: str) -> Sequence[EntityInfo]:
        self.get(topic)
        return [info for name, info in self._held.items() if name.startswith(f"{topic.lower()}/subscriptions/")]

    def rules(self, subscription: str) -> Sequence[RuleInfo]:
        self.get(subscription)
        return list(self._rules[subscription.lower()].values())

    def rule(self, subscription: str, name: str) -> RuleInfo:
        self.get(subscription)
        try:
            return self._rules[subscription.lower()][name.lower()]
        except KeyError:
            raise EntityMissing(name) from None

    def create_rule(self, subscription: str, name: str, description: RuleDescription) -> RuleInfo:
        self.get(subscription)
        if name.lower() in self._rules[subscription.lower()]:
            raise EntityExists(name)
        self._rules[subscription.lower()][name.lower()] = RuleInfo(name, description, datetime.now(UTC))
        return self.rule(subscription, name)

    def update_rule(self, subscription: str, name: str, description: RuleDescription) -> RuleInfo:
        changed = replace(self.rule(subscription, name), description=description)
        self._rules[subscription.lower()][name.lower()] = changed
        return changed

    def delete_rule(self, subscription: str, name: str) -> None:
        self.rule(subscription, name)
        del self._rules[subscription.lower()][name.lower()]


class PlainHttp(RequestsTransport):  # type: ignore[misc]  # azure-core loads transports lazily: their type is unknown
    """The SDK's administration client always says https; the emulator's management port speaks http."""

    def send(self, request: Any, **kwargs: Any) -> Any:
        request.url = request.url.replace("https://", "http://", 1)
        return super().send(request, **kwargs)


class AsyncPlainHttp(AsyncioRequestsTransport):  # type: ignore[misc]  # as above
    """The same for the asynchronous client."""

    async def send(self, request: Any, **kwargs: Any) -> Any:
        request.url = request.url.replace("https://", "http://", 1)
        return await super().send(request, **kwargs)


def connection_string(
    server: AdminServer | ServiceBusEmulator, policy: str = "RootManageSharedAccessKey", key: str | None = None
) -> str:
    port = server.http_port if isinstance(server, ServiceBusEmulator) else server.port
    return (
        f"Endpoint=sb://127.0.0.1:{port};SharedAccessKeyName={policy};"
        f"SharedAccessKey={KEYS.get(policy, 'x') if key is None else key};UseDevelopmentEmulator=true"
    )


def connect(
    server: AdminServer | ServiceBusEmulator,
    policy: str = "RootManageSharedAccessKey",
    key: str | None = None,
    **options: Any,
) -> ServiceBusAdministrationClient:
    return ServiceBusAdministrationClient.from_connection_string(
        connection_string(server, policy, key), transport=PlainHttp(), retry_total=0, **options
    )


def connect_async(server: AdminServer) -> AsyncAdministrationClient:
    return AsyncAdministrationClient.from_connection_string(
        connection_string(server), transport=AsyncPlainHttp(), retry_total=0
    )


def api(entities: Entities) -> AdminApi:
    """Without sockets and signatures, for requests no client would send."""
    return AdminApi(entities, lambda header, path: None, namespace="emulator")


def described(kind: str, settings: str) -> bytes:
    """A body as a PUT carries it."""
    connect = "http://schemas.microsoft.com/netservices/2010/10/servicebus/connect"
    return (
        f'<entry xmlns="http://www.w3.org/2005/Atom"><content type="application/xml">'
        f'<{kind} xmlns="{connect}" xmlns:i="http://www.w3.org/2001/XMLSchema-instance">{settings}</{kind}>'
        f"</content></entry>"
    ).encode()
