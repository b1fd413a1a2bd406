"""Items 1 to 5, 13, 14 and 16: what is sent, where it goes, what is refused."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
from azure.eventhub import EventData
from azure.eventhub.exceptions import ConnectError, EventDataSendError, EventHubError

from emulators.eventhubs.server import EventHubsEmulator
from emulators.servicebus.faults import catalogue as faults
from tests.emulators.eventhubs.contract.hubs import Hubs, batch_of
from tests.emulators.eventhubs.contract.labels import item

LARGEST = 1 << 20


@item(1, "documented")
def test_an_event_arrives_as_it_was_sent(hubs: Hubs) -> None:
    """Its properties are the publisher's; number, offset, time and partition key are the service's annotations.

    Source: Microsoft, "Using AMQP.Net Lite with Azure Event Hubs", message properties.
    """
    hub = hubs.new(1)
    event = EventData(json.dumps({"a": "ä"}))
    event.message_id, event.content_type, event.correlation_id = "id", "application/json", "c"
    event.properties = {"text": "t", "number": 7, "flag": True, "real": 0.5}
    before = datetime.now(UTC)
    producer = hubs.producer(hub)
    batch = producer.create_batch(partition_key="k")
    batch.add(event)
    producer.send_batch(batch)
    [found] = hubs.read(hub, 1)
    assert found.body_as_json() == {"a": "ä"}
    assert (found.message_id, found.content_type, found.correlation_id) == ("id", "application/json", "c")
    assert found.properties == {b"text": b"t", b"number": 7, b"flag": True, b"real": 0.5}
    assert (found.sequence_number, found.partition_key) == (0, b"k")
    assert found.offset is not None
    assert found.enqueued_time is not None
    assert before - timedelta(seconds=1) <= found.enqueued_time <= datetime.now(UTC) + timedelta(seconds=1)


@item(1, "documented")
def test_an_event_larger_than_a_frame(hubs: Hubs) -> None:
    """It travels in several transfers.

    Source: Microsoft, "AMQP 1.0 in Azure Service Bus and Event Hubs protocol guide", on transfers of several frames.
    """
    hub = hubs.new(1)
    hubs.send(hub, "x" * 500_000)
    assert hubs.bodies(hub, 1) == ["x" * 500_000]


@item(2, "documented")
def test_events_of_a_partition_are_numbered_and_in_order(hubs: Hubs) -> None:
    """Each event has the next number of its partition, and a consumer gets them in that order.

    Source: Microsoft, "Features and terminology in Azure Event Hubs", partitions and offsets.
    """
    hub = hubs.new(1)
    for batch in (["a", "b"], ["c"], ["d", "e", "f"]):
        hubs.send(hub, *batch)
    found = hubs.read(hub, 6)
    assert [event.body_as_str() for event in found] == list("abcdef")
    assert [event.sequence_number for event in found] == list(range(6))
    offsets = [int(event.offset or "") for event in found]
    assert offsets == sorted(set(offsets))


@item(2, "documented")
def test_a_batch_goes_to_one_partition(hubs: Hubs) -> None:
    """All events of a batch land on the same partition.

    Source: azure-eventhub, EventHubProducerClient.send_batch.
    """
    hub = hubs.new(4)
    hubs.send(hub, *"abcdef")
    found = hubs.read(hub, 6)
    assert [event.sequence_number for event in found] == list(range(6))


@item(3, "documented")
def test_the_same_key_is_the_same_partition(hubs: Hubs) -> None:
    """Events with the same partition key are in one partition, in order.

    Source: Microsoft, "Features and terminology in Azure Event Hubs", partition keys.
    """
    hub = hubs.new(4)
    producer = hubs.producer(hub)
    for number in range(40):
        producer.send_batch(batch_of(producer, str(number), key=f"key {number % 8}"))
    partitions: dict[bytes | str | None, list[int]] = {}
    for event in hubs.read(hub, 40):
        partitions.setdefault(event.partition_key, []).append(int(event.body_as_str()))
    assert len(partitions) == 8
    assert all(numbers == sorted(numbers) for numbers in partitions.values())


@item(3, "documented")
def test_without_a_key_partitions_take_turns(hubs: Hubs) -> None:
    """Without key and partition the service distributes events in a round-robin fashion.

    Source: Microsoft, "Availability and consistency in Event Hubs"; azure-eventhub, EventHubProducerClient.create_batch.
    """
    hub = hubs.new(4)
    producer = hubs.producer(hub)
    for number in range(8):
        producer.send_batch(batch_of(producer, str(number)))
    counts = [producer.get_partition_properties(str(each))["last_enqueued_sequence_number"] for each in range(4)]
    assert counts == [1, 1, 1, 1]


@item(4, "documented")
def test_events_may_be_sent_to_one_partition(hubs: Hubs) -> None:
    """By its id.

    Source: azure-eventhub, EventHubProducerClient.create_batch; Microsoft, "Using AMQP.Net Lite with Azure Event Hubs", addressing.
    """
    hub = hubs.new(4)
    hubs.send(hub, "a", "b", partition="2")
    producer = hubs.producer(hub)
    assert producer.get_partition_properties("2")["last_enqueued_sequence_number"] == 1
    assert producer.get_partition_properties("1")["is_empty"]


@item(5, "documented")
def test_a_batch_knows_its_limit(hubs: Hubs) -> None:
    """The link states 1 MB, and `add` refuses more.

    Source: Microsoft, "Azure Event Hubs quotas and limits", maximum size of a publication.
    """
    batch = hubs.producer(hubs.new()).create_batch()
    assert batch.max_size_in_bytes == LARGEST
    with pytest.raises(ValueError, match="limit"):
        batch.add(EventData("x" * LARGEST))


@item(5, "documented")
def test_the_service_refuses_what_is_too_large(hubs: Hubs) -> None:
    """An event past the limit is rejected (amqp:link:message-size-exceeded), and what comes next is accepted.

    Source: Microsoft, "Azure Event Hubs quotas and limits"; azure-eventhub, test_send_over_websocket_async and test_send_list_wrong_data.
    """
    hub = hubs.new(1)
    producer = hubs.producer(hub)
    with pytest.raises(EventHubError, match="exceeds the limit"):
        producer.send_event(EventData("x" * (LARGEST + 1)))
    producer.send_event(EventData("small"))
    assert hubs.bodies(hub, 1) == ["small"]


@item(13, "documented")
def test_a_disabled_hub_takes_nothing(hubs: Hubs) -> None:
    """A link is refused (com.microsoft:entity-disabled) until the hub is active again; links there are detached.

    Source: Microsoft, Azure Resource Manager, Microsoft.EventHub namespaces/eventhubs, status; azure-eventhub, NO_RETRY_ERRORS.
    """
    hub = hubs.new(1)
    producer = hubs.producer(hub)
    producer.send_event(EventData("before"))
    hubs.emulator.set_status(hub, "Disabled")
    with pytest.raises(EventHubError):
        producer.send_event(EventData("refused"))
    with pytest.raises(ConnectError, match=r"entity-disabled|Disabled"):
        hubs.producer(hub).send_event(EventData("refused"))
    hubs.emulator.set_status(hub, "Active")
    hubs.producer(hub).send_event(EventData("after"))
    assert hubs.bodies(hub, 2) == ["before", "after"]


@item(14, "documented")
def test_a_busy_namespace_refuses(hubs: Hubs, hub_emulator: EventHubsEmulator) -> None:
    """What exceeds the throughput units is answered with server-busy, and is not there.

    Source: Microsoft, "Azure Event Hubs quotas and limits", throughput units; azure-eventhub, CUSTOM_CONDITION_BACKOFF.
    """
    hub = hubs.new(1)
    producer = hubs.producer(hub)
    producer.send_event(EventData("before"))
    link = producer._producers["all-partitions"]  # the client itself would send it once more
    assert link is not None
    busy = pytest.raises(EventDataSendError, match="being throttled")
    with hub_emulator.inject(faults.ServerBusy(3600, entity=hub)), busy:
        link.send(EventData("refused"))
    producer.send_event(EventData("after"))
    assert hubs.bodies(hub, 2) == ["before", "after"]


@item(16, "documented")
def test_a_copy_is_an_event_of_its_own(hubs: Hubs) -> None:
    """Event Hubs delivers at least once and compares no ids: duplicates are the consumer's.

    Source: Microsoft, "Azure Event Hubs FAQ" and "Resilient Event Hubs and Functions design", duplicates.
    """
    hub = hubs.new(1)
    producer = hubs.producer(hub)
    for _ in range(2):
        event = EventData("same")
        event.message_id = "id"
        producer.send_event(event, partition_key="k")
    assert [event.message_id for event in hubs.read(hub, 2)] == ["id", "id"]
