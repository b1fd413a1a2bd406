"""The management API, asked by Azure's own administration client: what it creates it reads back, and errors have their types."""

from __future__ import annotations

import asyncio
import http.client
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from azure.core.exceptions import (
    AzureError,
    ClientAuthenticationError,
    HttpResponseError,
)
from azure.servicebus.management import AuthorizationRule, CorrelationRuleFilter, ServiceBusAdministrationClient

from emulators.servicebus.administration.api import AdminApi
from emulators.servicebus.administration.atom import read_description
from emulators.servicebus.administration.http_server import AdminServer
from emulators.servicebus.description import (
    InvalidEntity,
    QueueDescription,
    RuntimeCounts,
    SubscriptionDescription,
    TopicDescription,
)
from emulators.servicebus.server import ServiceBusEmulator
from tests.emulators.servicebus.wire.administration import KEYS, Entities, api, connect, connect_async, described


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


def test_answers_are_dated_by_the_emulators_clock() -> None:
    moment = datetime(2031, 5, 6, 7, 8, 9, tzinfo=UTC)
    with (
        ServiceBusEmulator(clock=moment.timestamp) as emulator,
        closing(http.client.HTTPConnection("127.0.0.1", emulator.http_port, timeout=10)) as connection,
    ):
        connection.request("GET", "/health")
        assert connection.getresponse().getheader("Date") == "Tue, 06 May 2031 07:08:09 GMT"


def test_a_token_for_the_management_api_expires_by_the_emulators_clock() -> None:
    with (
        ServiceBusEmulator(keys=KEYS, clock=lambda: time.time() + 2 * 3600) as emulator,
        connect(emulator) as client,
        pytest.raises(ClientAuthenticationError, match="expired"),
    ):
        client.create_queue("orders")


def test_entity_names_keep_their_slashes_and_compare_without_case(client: ServiceBusAdministrationClient) -> None:
    client.create_queue("Region/Orders")

    assert client.get_queue("region/orders").name == "region/orders"
    assert [queue.name for queue in client.list_queues()] == ["Region/Orders"]


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


def test_every_setting_comes_back_as_it_was_set(client: ServiceBusAdministrationClient) -> None:
    outlet: dict[str, Any] = {
        "lock_duration": timedelta(seconds=45),
        "max_delivery_count": 7,
        "dead_lettering_on_message_expiration": True,
        "requires_session": True,
    }
    inlet: dict[str, Any] = {
        "requires_duplicate_detection": True,
        "duplicate_detection_history_time_window": timedelta(minutes=2),
        "max_size_in_megabytes": 2048,
        "max_message_size_in_kilobytes": 512,
    }
    common: dict[str, Any] = {
        "default_message_time_to_live": timedelta(hours=3),
        "auto_delete_on_idle": timedelta(hours=1),
        "enable_batched_operations": False,
        "status": "Disabled",
        "user_metadata": "<about & this>",
    }
    of_topic = inlet | common | {"support_ordering": True}
    of_subscription = outlet | common | {"dead_lettering_on_filter_evaluation_exceptions": False}
    client.create_queue("orders", **outlet, **inlet, **common)
    client.create_topic("events", **of_topic)
    client.create_subscription("events", "sub1", **of_subscription)

    for found, settings in (
        (client.get_queue("orders"), outlet | inlet | common),
        (client.get_topic("events"), of_topic),
        (client.get_subscription("events", "sub1"), of_subscription),
    ):
        assert {name: getattr(found, name) for name in settings} == settings


def test_forwarding_is_told_with_its_address_and_ends_when_it_is_left_out(
    client: ServiceBusAdministrationClient,
) -> None:
    client.create_queue("target")
    queue = client.create_queue("source", forward_to="target", forward_dead_lettered_messages_to="Target")
    here = f"sb://{client.fully_qualified_namespace}"
    assert queue.forward_to == f"{here}/target"
    assert queue.forward_dead_lettered_messages_to == f"{here}/Target"

    queue.forward_to = None
    queue.user_metadata = "kept"
    client.update_queue(queue)
    assert client.get_queue("source").forward_to is None
    assert client.get_queue("source").forward_dead_lettered_messages_to is not None


def test_forwarding_reaches_the_broker_as_a_path(server: AdminServer, entities: Entities) -> None:
    entities.create("events", TopicDescription())
    with connect(server) as client:
        client.create_subscription("events", "sub1", forward_to="Region/Orders")
    settings = entities.get("events/Subscriptions/sub1").description
    assert isinstance(settings, SubscriptionDescription)
    assert settings.forward_to == "Region/Orders"


def test_forwarding_to_another_namespace_is_refused(server: AdminServer) -> None:
    with connect(server) as client, pytest.raises(HttpResponseError, match="another namespace"):
        client.create_queue("source", forward_to="sb://elsewhere.servicebus.windows.net/target")


@pytest.mark.parametrize("supplement", ["SharedAccessSignature x", None])
def test_forwarding_asks_for_a_signature_for_its_destination(entities: Entities, supplement: str | None) -> None:
    asked: list[tuple[str | None, str]] = []

    def authorize(header: str | None, path: str) -> None:
        asked.append((header, path))

    body = described("QueueDescription", "<ForwardTo>sb://h/target</ForwardTo>")
    headers = {"Host": "h:1", "Authorization": "own"}
    if supplement is not None:
        headers["ServiceBusSupplementaryAuthorization"] = supplement

    answer = AdminApi(entities, authorize, namespace="emulator").answer("PUT", "/source", headers, body)

    assert answer.status == 201
    assert asked == [("own", "/source"), (supplement or "own", "target")]


def test_what_an_entity_never_has_is_told_as_the_service_does(client: ServiceBusAdministrationClient) -> None:
    queue = client.create_queue("plain")
    topic = client.create_topic("events")

    assert (queue.availability_status, topic.availability_status) == ("Available", "Available")
    assert (queue.enable_express, queue.enable_partitioning, topic.enable_express) == (False, False, False)
    assert topic.filtering_messages_before_publishing is False
    client.update_queue(queue)
    client.update_topic(topic)


def test_authorization_rules_of_an_entity_are_refused_by_name(client: ServiceBusAdministrationClient) -> None:
    rule = AuthorizationRule(
        type="SharedAccessAuthorizationRule",
        claim_type="SharedAccessKey",
        claim_value="None",
        rights=["Listen"],
        key_name="reader",
        primary_key="x",
        secondary_key="y",
    )
    with pytest.raises(HttpResponseError, match="AuthorizationRules"):
        client.create_queue("guarded", authorization_rules=[rule])


def test_settings_nobody_knows_are_refused_by_name() -> None:
    with pytest.raises(InvalidEntity, match="LockDurations"):
        read_description(described("QueueDescription", "<LockDurations>PT1M</LockDurations>"), "2024-05")


def test_every_api_version_tells_what_it_knows(server: AdminServer) -> None:
    for version, tells_size, tells_filters in (
        ("2017-04", False, False),
        ("2021-05", True, False),
        ("2024-05", True, True),
    ):
        with connect(server, api_version=version) as client:
            name = f"events-{version}"
            assert (client.create_topic(name).max_message_size_in_kilobytes is not None) is tells_size
            assert (client.get_topic_runtime_properties(name).sql_filter_count is not None) is tells_filters


def test_a_setting_that_a_version_does_not_know_is_refused_by_name(server: AdminServer) -> None:
    """CreateQueue: MaxMessageSizeInKilobytes from 2021-05 on; azure-servicebus, test_mgmt_queue_basic_v2017_04."""
    with (
        connect(server, api_version="2017-04") as client,
        pytest.raises(HttpResponseError, match="MaxMessageSizeInKilobytes is known from api-version 2021-05 on"),
    ):
        client.create_queue("large", max_message_size_in_kilobytes=1024)


def test_an_unknown_api_version_is_refused_by_name(entities: Entities) -> None:
    answer = api(entities).answer("GET", "/any?api-version=2099-01", {}, b"")
    assert (answer.status, b"2099-01" in answer.body) == (400, True)


def test_an_update_of_a_version_that_cannot_be_is_a_failed_precondition(entities: Entities) -> None:
    entities.create("plain", QueueDescription())
    body = described("QueueDescription", "<MaxDeliveryCount>3</MaxDeliveryCount>")
    assert api(entities).answer("PUT", "/plain", {"If-Match": '"1"'}, body).status == 412
    assert api(entities).answer("PUT", "/plain", {"if-match": "*"}, body).status == 200
    assert api(entities).answer("PUT", "/plain", {}, body).status == 409
    assert api(entities).answer("PUT", "/nowhere", {"If-Match": "*"}, body).status == 404


def test_filters_of_a_topic_are_counted_over_its_subscriptions(client: ServiceBusAdministrationClient) -> None:
    client.create_topic("events")
    client.create_subscription("events", "a")
    client.create_subscription("events", "b")
    client.create_rule("events", "b", "of-one", filter=CorrelationRuleFilter(correlation_id="1"))

    counts = client.get_topic_runtime_properties("events")

    assert (counts.sql_filter_count, counts.correlation_filter_count) == (2, 1)


def test_transfer_counts_and_times_are_told(server: AdminServer, entities: Entities) -> None:
    entities.counts = RuntimeCounts(active=1, transfer=2, transfer_dead_letter=3)
    with connect(server) as client:
        client.create_topic("events")
        client.create_subscription("events", "sub1")
        told = client.get_subscription_runtime_properties("events", "sub1")

    assert (told.active_message_count, told.transfer_message_count, told.transfer_dead_letter_message_count) == (
        1,
        2,
        3,
    )
    assert told.total_message_count == 6
    info = entities.get("events/Subscriptions/sub1")
    assert (told.created_at_utc, told.updated_at_utc, told.accessed_at_utc) == (
        info.created_at,
        info.updated_at,
        info.accessed_at,
    )


def test_subscriptions_are_paged_beyond_one_hundred(server: AdminServer, entities: Entities) -> None:
    entities.create("events", TopicDescription())
    for number in range(101):
        entities.create(f"events/Subscriptions/s{number:03d}", SubscriptionDescription())

    with connect(server) as client:
        assert [found.name for found in client.list_subscriptions("events")] == [
            f"s{number:03d}" for number in range(101)
        ]


@pytest.mark.parametrize("query", ["$skip=-1", "$top=0", "$skip=x"])
def test_impossible_pages_are_bad_requests(entities: Entities, query: str) -> None:
    assert api(entities).answer("GET", f"/$Resources/queues?{query}", {}, b"").status == 400


def test_a_page_has_as_many_as_asked_for_and_says_where_the_next_is(entities: Entities) -> None:
    for name in ("a", "b", "c"):
        entities.create(name, QueueDescription())
    page = api(entities).answer("GET", "/$Resources/queues?$skip=1&$top=1", {"Host": "h"}, b"").body
    assert (b"http://h/b" in page, b"http://h/a" in page, b"$skip=2&amp;$top=1" in page) == (True, False, True)


def test_the_asynchronous_client_is_served_as_well(server: AdminServer) -> None:
    async def administer() -> list[str]:
        async with connect_async(server) as client:
            await client.create_topic("events")
            await client.create_subscription("events", "sub1", requires_session=True)
            await client.create_rule("events", "sub1", "of-one", filter=CorrelationRuleFilter(correlation_id="1"))
            assert (await client.get_subscription("events", "sub1")).requires_session is True
            return [rule.name async for rule in client.list_rules("events", "sub1")]

    assert asyncio.run(administer()) == ["$Default", "of-one"]


def test_a_wrong_key_is_refused(server: AdminServer) -> None:
    with connect(server, key="wrong") as client, pytest.raises(ClientAuthenticationError):
        client.get_queue("any")


def test_a_policy_without_manage_is_refused_even_to_look(server: AdminServer) -> None:
    with connect(server, policy="Listener") as client, pytest.raises(ClientAuthenticationError, match="Manage"):
        client.get_queue("any")


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
        read_description(body, "2024-05")


def test_stop_hangs_up_on_clients_that_stay_connected(entities: Entities) -> None:
    running = AdminServer(entities, keys=KEYS)
    running.start()
    with connect(running) as client:
        client.create_queue("q")
        running.stop()
        with pytest.raises(AzureError):
            client.get_queue("q")
