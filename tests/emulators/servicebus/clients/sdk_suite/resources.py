"""Preparers of Service Bus resources, in place of the module of this name among the SDK's tests, which makes them in Azure.

Entities are made in the emulator with the settings that a test asks for. Namespaces are one and the same; policies are those that it has.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from typing import Any

from azure.servicebus.management import ServiceBusAdministrationClient

from tests.emulators.servicebus.clients.sdk_suite import namespace
from tests.emulators.servicebus.clients.sdk_suite.preparers import Preparer, Resource, ResourceGroupPreparer


class AccessRights(StrEnum):
    """What a policy may do, as the service calls it; the tests use both spellings."""

    MANAGE = manage = "Manage"
    SEND = send = "Send"
    LISTEN = listen = "Listen"


SERVICEBUS_ENDPOINT_SUFFIX = namespace.SUFFIX
ALL_RIGHTS = (AccessRights.MANAGE, AccessRights.SEND, AccessRights.LISTEN)
_POLICY_OF = {
    frozenset(ALL_RIGHTS): namespace.ROOT,
    frozenset((AccessRights.LISTEN,)): "listener",
    frozenset((AccessRights.SEND,)): "sender",
}
_QUEUE_SETTINGS = frozenset((
    "requires_duplicate_detection", "dead_lettering_on_message_expiration", "requires_session", "lock_duration",
    "enable_partitioning",
))  # fmt: skip
_SUBSCRIPTION_SETTINGS = frozenset(("requires_session", "lock_duration"))
_SAYS_NOTHING_HERE = frozenset(("name_prefix", "use_cache", "parameter_name", "random_name_enabled"))


def _administration() -> ServiceBusAdministrationClient:
    return ServiceBusAdministrationClient.from_connection_string(namespace.connection_string())


class _Named(Preparer):
    """A resource handed over under `parameter_name`. Refuses options that it does not know."""

    parameter = ""
    settings: frozenset[str] = frozenset()

    def __init__(self, name_prefix: str = "servicebustest", parameter_name: str | None = None, **options: Any) -> None:
        unknown = options.keys() - self.settings - _SAYS_NOTHING_HERE
        if unknown:
            raise NotImplementedError(f"{type(self).__name__} knows no {sorted(unknown)}")
        self._prefix = name_prefix
        self._parameter = parameter_name or self.parameter
        self._options = {name: value for name, value in options.items() if name in self.settings}

    def supplies(self) -> frozenset[str]:
        return frozenset((self._parameter, f"{self._parameter}_connection_string"))


class ServiceBusResourceGroupPreparer(ResourceGroupPreparer):
    """There are none."""


class ServiceBusNamespacePreparer(_Named):
    """The one namespace, with its root policy."""

    parameter = "servicebus_namespace"

    def supplies(self) -> frozenset[str]:
        return super().supplies() | {f"{self._parameter}_key_name", f"{self._parameter}_primary_key"}

    @contextmanager
    def made(self, given: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        yield {
            self._parameter: Resource(namespace.HOST),
            f"{self._parameter}_connection_string": namespace.connection_string(),
            f"{self._parameter}_key_name": namespace.ROOT,
            f"{self._parameter}_primary_key": namespace.KEY,
        }


class ServiceBusQueuePreparer(_Named):
    """A queue; locks last a minute unless the test says otherwise."""

    parameter = "servicebus_queue"
    settings = _QUEUE_SETTINGS

    @contextmanager
    def made(self, given: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        name = namespace.fresh_name(self._prefix)
        with _administration() as administration:
            administration.create_queue(name, **{"lock_duration": "PT60S", **self._options})
            try:
                yield {self._parameter: Resource(name)}
            finally:
                administration.delete_queue(name)


class ServiceBusTopicPreparer(_Named):
    """A topic."""

    parameter = "servicebus_topic"

    @contextmanager
    def made(self, given: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        name = namespace.fresh_name(self._prefix)
        with _administration() as administration:
            administration.create_topic(name)
            try:
                yield {self._parameter: Resource(name)}
            finally:
                administration.delete_topic(name)


class ServiceBusSubscriptionPreparer(_Named):
    """A subscription of the test's topic; it goes with that. Locks last half a minute unless the test says otherwise."""

    parameter = "servicebus_subscription"
    settings = _SUBSCRIPTION_SETTINGS

    @contextmanager
    def made(self, given: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        name = namespace.fresh_name(self._prefix)
        with _administration() as administration:
            settings = {"lock_duration": "PT30S", **self._options}
            administration.create_subscription(given["servicebus_topic"].name, name, **settings)
        yield {self._parameter: Resource(name)}


class ServiceBusNamespaceAuthorizationRulePreparer(_Named):
    """One of the policies that the namespace has."""

    parameter = "servicebus_authorization_rule"

    def __init__(self, *, access_rights: Collection[AccessRights] = ALL_RIGHTS, **options: Any) -> None:
        super().__init__(**options)
        self._policy = _POLICY_OF[frozenset(access_rights)]

    @contextmanager
    def made(self, given: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        told = namespace.connection_string(self._policy)
        yield {self._parameter: Resource(self._policy), f"{self._parameter}_connection_string": told}


class ServiceBusQueueAuthorizationRulePreparer(ServiceBusNamespaceAuthorizationRulePreparer):
    """The same in a connection string that is for the test's queue alone."""

    parameter = "servicebus_queue_authorization_rule"

    @contextmanager
    def made(self, given: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        told = namespace.connection_string(self._policy, given["servicebus_queue"].name)
        yield {self._parameter: Resource(self._policy), f"{self._parameter}_connection_string": told}


CachedServiceBusResourceGroupPreparer = ServiceBusResourceGroupPreparer
CachedServiceBusNamespacePreparer = ServiceBusNamespacePreparer
CachedServiceBusQueuePreparer = ServiceBusQueuePreparer
CachedServiceBusTopicPreparer = ServiceBusTopicPreparer
CachedServiceBusSubscriptionPreparer = ServiceBusSubscriptionPreparer
