"""The management API, asked by Azure's own administration client: what it creates it reads back, and errors have their types."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from azure.core.exceptions import (
    AzureError,
    ClientAuthenticationError,
    HttpResponseError,
    ResourceExistsError,
    ResourceNotFoundError,
)
from azure.core.pipeline.transport import RequestsTransport
from azure.servicebus.management import ServiceBusAdministrationClient, SqlRuleFilter

from emulators.servicebus.admin import AdminServer
from emulators.servicebus.atom import read_description
from emulators.servicebus.description import (
    Description,
    EntityExists,
    EntityInfo,
    EntityMissing,
    InvalidEntity,
    QueueDescription,
    RuntimeCounts,
    TopicDescription,
)
from emulators.servicebus.server import ServiceBusEmulator

KEYS = {"RootManageSharedAccessKey": "SAS_KEY_VALUE", "Listener": "listen-only"}


class Entities:
    """An EntityAdmin that holds descriptions in a dict: the API is on trial here, not a broker."""

    def __init__(self) -> None:
        self._held: dict[str, EntityInfo] = {}
        self._guard = threading.Lock()
        self.counts = RuntimeCounts()

    def create(self, path: str, description: Description) -> EntityInfo:
        now = datetime.now(UTC)
        with self._guard:
            topic, _, subscription = path.partition("/Subscriptions/")
            if subscription and topic.lower() not in self._held:
                raise EntityMissing(topic)
            if path.lower() in self._held:
                raise EntityExists(path)
            self._held[path.lower()] = EntityInfo(path, description, self.counts, now, now, now)
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

    def queues(self) -> Sequence[EntityInfo]:
        return [info for info in self._held.values() if isinstance(info.description, QueueDescription)]

    def topics(self) -> Sequence[EntityInfo]:
        return [info for info in self._held.values() if isinstance(info.description, TopicDescription)]

    def subscriptions(self, topic: str) -> Sequence[EntityInfo]:
        self.get(topic)
        return [info for name, info in self._held.items() if name.startswith(f"{topic.lower()}/subscriptions/")]


class PlainHttp(RequestsTransport):  # type: ignore[misc]  # azure-core loads transports lazily: their type is unknown
    """The SDK's administration client always says https; the emulator's management port speaks http."""

    def send(self, request: Any, **kwargs: Any) -> Any:
        request.url = request.url.replace("https://", "http://", 1)
        return super().send(request, **kwargs)


@pytest.fixture
def entities() -> Entities:
    return Entities()


@pytest.fixture
def server(entities: Entities) -> Iterator[AdminServer]:
    running = AdminServer(entities, keys=KEYS, manage={"RootManageSharedAccessKey"})
    running.start()
    yield running
    running.stop()


@pytest.fixture(params=["dict", "broker"])
def client(request: pytest.FixtureRequest) -> Iterator[ServiceBusAdministrationClient]:
    """For what must hold whoever keeps the entities: a dict, or the broker that moves messages as well."""
    if request.param == "dict":
        with connect(request.getfixturevalue("server")) as opened:
            yield opened
    else:
        with ServiceBusEmulator(keys=KEYS) as emulator, connect(emulator) as opened:
            yield opened


def connect(
    server: AdminServer | ServiceBusEmulator, policy: str = "RootManageSharedAccessKey", key: str | None = None
) -> ServiceBusAdministrationClient:
    port = server.http_port if isinstance(server, ServiceBusEmulator) else server.port
    return ServiceBusAdministrationClient.from_connection_string(
        f"Endpoint=sb://127.0.0.1:{port};SharedAccessKeyName={policy};"
        f"SharedAccessKey={KEYS.get(policy, 'x') if key is None else key};UseDevelopmentEmulator=true",
        transport=PlainHttp(),
        retry_total=0,
    )


def test_queue_comes_back_with_the_settings_it_was_created_with(client: ServiceBusAdministrationClient) -> None:
    client.create_queue(
        "ingest-queue",
        requires_session=True,
        requires_duplicate_detection=True,
        duplicate_detection_history_time_window=timedelta(hours=1, seconds=1.5),
        lock_duration=timedelta(seconds=30),
        max_delivery_count=5,
        user_metadata="<by & for tests>",
    )

    queue = client.get_queue("ingest-queue")

    assert queue.requires_session is True
    assert queue.requires_duplicate_detection is True
    assert queue.duplicate_detection_history_time_window == timedelta(hours=1, seconds=1.5)
    assert queue.lock_duration == timedelta(seconds=30)
    assert queue.max_delivery_count == 5
    assert queue.user_metadata == "<by & for tests>"


def test_defaults_are_the_services_and_never_expiring_stays_so(client: ServiceBusAdministrationClient) -> None:
    queue = client.create_queue("plain")

    assert queue.lock_duration == timedelta(minutes=1)
    assert queue.max_delivery_count == 10
    assert queue.requires_session is False
    assert isinstance(queue.default_message_time_to_live, timedelta)
    assert queue.default_message_time_to_live.days == 10_675_199
    client.update_queue(queue)
    assert client.get_queue("plain").default_message_time_to_live == queue.default_message_time_to_live


def test_entity_names_keep_their_slashes_and_compare_without_case(client: ServiceBusAdministrationClient) -> None:
    client.create_queue("Region/Orders")

    assert client.get_queue("region/orders").name == "region/orders"
    assert [queue.name for queue in client.list_queues()] == ["Region/Orders"]


def test_missing_entities_are_not_found(client: ServiceBusAdministrationClient) -> None:
    client.create_topic("topic")
    with pytest.raises(ResourceNotFoundError):
        client.get_queue("nowhere")
    with pytest.raises(ResourceNotFoundError):
        client.get_subscription("topic", "nowhere")
    with pytest.raises(ResourceNotFoundError):
        client.create_subscription("nowhere", "sub1")
    with pytest.raises(ResourceNotFoundError):
        client.delete_topic("nowhere")


def test_creating_twice_says_it_exists(client: ServiceBusAdministrationClient) -> None:
    client.create_topic("events")
    client.create_subscription("events", "sub1")
    with pytest.raises(ResourceExistsError):
        client.create_topic("Events")
    with pytest.raises(ResourceExistsError):
        client.create_subscription("events", "SUB1")


def test_subscription_and_its_topic_are_created_updated_listed_and_deleted(
    client: ServiceBusAdministrationClient,
) -> None:
    client.create_topic("events", requires_duplicate_detection=True)
    client.create_subscription("events", "sub1", requires_session=True)
    subscription = client.get_subscription("events", "sub1")
    assert subscription.requires_session is True

    subscription.max_delivery_count = 3
    client.update_subscription("events", subscription)
    assert client.get_subscription("events", "sub1").max_delivery_count == 3
    assert [found.name for found in client.list_subscriptions("events")] == ["sub1"]

    client.delete_subscription("events", "sub1")
    assert list(client.list_subscriptions("events")) == []
    client.delete_topic("events")
    assert list(client.list_topics()) == []


def test_lists_are_paged_beyond_one_hundred(server: AdminServer, entities: Entities) -> None:
    for number in range(205):
        entities.create(f"q{number:03d}", QueueDescription())

    with connect(server) as client:
        assert [queue.name for queue in client.list_queues()] == [f"q{number:03d}" for number in range(205)]


def test_runtime_counts_are_told(server: AdminServer, entities: Entities) -> None:
    entities.counts = RuntimeCounts(active=7, dead_letter=2, scheduled=1, size_in_bytes=4096)
    with connect(server) as client:
        client.create_queue("busy")
        counts = client.get_queue_runtime_properties("busy")

    assert (counts.active_message_count, counts.dead_letter_message_count) == (7, 2)
    assert (counts.scheduled_message_count, counts.total_message_count, counts.size_in_bytes) == (1, 10, 4096)


@pytest.mark.parametrize("name", ["-begins", "ends.", "has space", "q" * 261, "percent%"])
def test_names_the_service_refuses_are_refused(client: ServiceBusAdministrationClient, name: str) -> None:
    with pytest.raises(HttpResponseError) as refused:
        client.create_queue(name)
    assert refused.value.status_code == 400


def test_subscription_name_has_at_most_fifty_characters(client: ServiceBusAdministrationClient) -> None:
    client.create_topic("events")
    client.create_subscription("events", "s" * 50)
    with pytest.raises(HttpResponseError, match="at most 50"):
        client.create_subscription("events", "s" * 51)


def test_what_is_fixed_at_creation_cannot_be_updated(client: ServiceBusAdministrationClient) -> None:
    queue = client.create_queue("plain")
    queue.requires_session = True
    with pytest.raises(HttpResponseError, match="requires_session is fixed"):
        client.update_queue(queue)


def test_a_wrong_key_is_refused(server: AdminServer) -> None:
    with connect(server, key="wrong") as client, pytest.raises(ClientAuthenticationError):
        client.get_queue("any")


def test_a_policy_without_manage_is_refused_even_to_look(server: AdminServer) -> None:
    with connect(server, policy="Listener") as client, pytest.raises(ClientAuthenticationError, match="Manage"):
        client.get_queue("any")


def test_rules_other_than_default_are_refused_by_name(client: ServiceBusAdministrationClient) -> None:
    client.create_topic("events")
    client.create_subscription("events", "sub1")

    assert [rule.name for rule in client.list_rules("events", "sub1")] == ["$Default"]
    assert client.get_rule("events", "sub1", "$Default").name == "$Default"
    with pytest.raises(HttpResponseError, match="only-inserts"):
        client.create_rule("events", "sub1", "only-inserts", filter=SqlRuleFilter("operation = 'Insert'"))
    with pytest.raises(HttpResponseError, match=r"\$Default"):
        client.delete_rule("events", "sub1", "$Default")


def test_settings_that_are_not_imitated_are_refused_by_name(client: ServiceBusAdministrationClient) -> None:
    with pytest.raises(HttpResponseError, match="EnablePartitioning"):
        client.create_queue("wide", enable_partitioning=True)


def test_namespace_says_what_it_is(client: ServiceBusAdministrationClient) -> None:
    properties = client.get_namespace_properties()
    assert (properties.name, properties.messaging_sku) == ("emulator", "Standard")


def test_health_needs_no_signature_and_everything_else_does(server: AdminServer) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=5)
    try:
        connection.request("GET", "/health")
        answer = connection.getresponse()
        assert (answer.status, b'"healthy"' in answer.read()) == (200, True)
        connection.request("GET", "/any")
        answer = connection.getresponse()
        assert (answer.status, b"Authorization" in answer.read()) == (401, True)
    finally:
        connection.close()


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<entry",
        b"<!DOCTYPE x><entry/>",
        b"<entry xmlns='http://www.w3.org/2005/Atom'><content/></entry>",
        b"<entry xmlns='http://www.w3.org/2005/Atom'><content><Other/></content></entry>",
    ],
)
def test_malformed_bodies_are_bad_requests(body: bytes) -> None:
    with pytest.raises(InvalidEntity):
        read_description(body)


def test_stop_hangs_up_on_clients_that_stay_connected(entities: Entities) -> None:
    running = AdminServer(entities, keys=KEYS)
    running.start()
    with connect(running) as client:
        client.create_queue("q")
        running.stop()
        with pytest.raises(AzureError):
            client.get_queue("q")
