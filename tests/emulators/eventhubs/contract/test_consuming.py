"""Items 6 to 10 and 18: what a hub says of itself, and how it is read."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest

from tests.emulators.eventhubs.contract.hubs import Hubs
from tests.emulators.eventhubs.contract.labels import item


@item(6, "documented")
def test_a_hub_names_its_partitions(hubs: Hubs) -> None:
    """Its name, when it was made, and the ids of its partitions, which begin at 0.

    Source: azure-eventhub, EventHubProducerClient.get_eventhub_properties; Microsoft, "Features and terminology in Azure Event Hubs".
    """
    hub = hubs.new(3)
    found = hubs.producer(hub).get_eventhub_properties()
    assert (found["eventhub_name"], found["partition_ids"]) == (hub, ["0", "1", "2"])
    assert abs(found["created_at"] - datetime.now(UTC)) < timedelta(minutes=5)


@item(6, "documented")
def test_a_partition_says_how_far_it_is(hubs: Hubs) -> None:
    """The first and last numbers, and the last offset and time.

    Source: azure-eventhub, EventHubProducerClient.get_partition_properties, test_get_partition_properties.
    """
    hub = hubs.new(1)
    hubs.send(hub, "a", "b", "c")
    last = hubs.read(hub, 3)[-1]
    found = hubs.producer(hub).get_partition_properties("0")
    assert (found["eventhub_name"], found["id"], found["is_empty"]) == (hub, "0", False)
    assert (found["beginning_sequence_number"], found["last_enqueued_sequence_number"]) == (0, 2)
    assert (found["last_enqueued_offset"], found["last_enqueued_time_utc"]) == (last.offset, last.enqueued_time)


@item(6, "unverified")
def test_an_empty_partition_has_no_numbers(hubs: Hubs) -> None:
    """It says that it is empty, and -1 where there is no number.

    Source: azure-eventhub has the property `is_empty`; what the numbers are then nobody has written down.
    """
    found = hubs.producer(hubs.new(1)).get_partition_properties("0")
    assert (found["is_empty"], found["last_enqueued_sequence_number"], found["last_enqueued_offset"]) == (
        True,
        -1,
        "-1",
    )


@item(7, "documented")
def test_a_consumer_begins_at_the_beginning_or_the_end(hubs: Hubs) -> None:
    """ "-1" is the start of the stream; "@latest" only what comes from now on.

    Source: azure-eventhub, EventHubConsumerClient.receive, starting_position.
    """
    hub = hubs.new(1)
    hubs.send(hub, "old")
    latest = hubs.reading(hub, position="@latest", partition_id="0")
    assert hubs.bodies(hub, 1, position="-1") == ["old"]
    end = time.monotonic() + 30
    while not latest.events and time.monotonic() < end:  # its link may not be there yet when the first ones are sent
        hubs.send(hub, "new")
        time.sleep(0.05)
    assert {event.body_as_str() for event in latest.first(1)} == {"new"}


@item(7, "documented")
@pytest.mark.parametrize("inclusive", [False, True])
def test_a_consumer_begins_behind_an_event(hubs: Hubs, inclusive: bool) -> None:
    """By offset, by sequence number or by time; with the event itself when it asks so.

    Source: azure-eventhub, EventHubConsumerClient.receive, starting_position_inclusive; event_position_selector.
    """
    hub = hubs.new(1)
    hubs.send(hub, *"abc")
    second = hubs.read(hub, 3)[1]
    expected = ["b", "c"] if inclusive else ["c"]
    for position in (second.offset, second.sequence_number):
        found = hubs.bodies(
            hub, len(expected), position=position, starting_position_inclusive=inclusive, partition_id="0"
        )
        assert found == expected


@item(7, "documented")
def test_a_consumer_begins_at_a_time(hubs: Hubs) -> None:
    """Events that were enqueued after it.

    Source: azure-eventhub, EventHubConsumerClient.receive, starting_position.
    """
    hub = hubs.new(1)
    hubs.send(hub, "old")
    time.sleep(0.02)
    between = datetime.now(UTC)
    time.sleep(0.02)
    hubs.send(hub, "new")
    assert hubs.bodies(hub, 1, position=between) == ["new"]


@item(7, "measured")
def test_a_position_behind_the_last_event_is_refused(hubs: Hubs) -> None:
    """The answer names the last one there is.

    Source: nicolgit/azure-firewall-mon issue 21.
    """
    hub = hubs.new(1)
    hubs.send(hub, "a")
    text = hubs.reading(hub, position=488, partition_id="0").refused()
    assert "The supplied sequence number '488' is invalid. The last sequence number in the system is '0'" in text


@item(8, "documented")
def test_reading_takes_nothing_out(hubs: Hubs) -> None:
    """Each consumer group, and each later consumer, reads all.

    Source: Microsoft, "Features and terminology in Azure Event Hubs", consumer groups.
    """
    hub = hubs.new(2, "other")
    hubs.send(hub, "a", "b")
    for group in ("$Default", "other", "$Default"):
        assert hubs.bodies(hub, 2, group=group) == ["a", "b"]


@item(9, "documented")
def test_the_higher_owner_level_stays(hubs: Hubs) -> None:
    """A consumer with a higher or equal level disconnects the one before (amqp:link:stolen); one with a lower level is refused.

    Source: Microsoft, "Event Hubs Receiver Epoch", rules b and c; "EventHubClient.CreateEpochReceiver".
    """
    hub = hubs.new(1)
    hubs.send(hub, "a")
    first = hubs.reading(hub, partition_id="0", owner_level=1)
    assert first.wait(lambda: bool(first.events))
    second = hubs.reading(hub, partition_id="0", owner_level=2)
    assert second.wait(lambda: bool(second.events))
    assert "stolen" in first.refused() or "higher epoch" in first.refused()
    third = hubs.reading(hub, partition_id="0", owner_level=1)
    assert "higher epoch" in third.refused()
    hubs.send(hub, "b")
    assert second.wait(lambda: len(second.events) == 2)


@item(9, "documented")
def test_a_consumer_without_a_level_gives_way(hubs: Hubs) -> None:
    """It is refused while there is one with a level.

    Source: Microsoft, "Event Hubs Receiver Epoch", mixed mode, rule a.
    """
    hub = hubs.new(1)
    hubs.send(hub, "a")
    owner = hubs.reading(hub, partition_id="0", owner_level=0)
    assert owner.wait(lambda: bool(owner.events))
    assert "non-epoch receiver is not allowed" in hubs.reading(hub, partition_id="0").refused()


@item(10, "documented")
def test_five_consumers_and_no_sixth(hubs: Hubs) -> None:
    """Non-epoch receivers of a partition and consumer group.

    Source: Microsoft, "Azure Event Hubs quotas and limits", number of non-epoch receivers per consumer group.
    """
    hub = hubs.new(1)
    hubs.send(hub, "a")
    readings = [hubs.reading(hub, partition_id="0") for _ in range(5)]
    assert all(reading.wait(lambda reading=reading: bool(reading.events)) for reading in readings)  # type: ignore[misc]
    assert "maximum number of allowed receivers" in hubs.reading(hub, partition_id="0").refused()


@item(18, "documented")
@pytest.mark.emulator_only("time is moved")
def test_old_events_are_gone(hubs: Hubs) -> None:
    """After the retention time.

    Source: Microsoft, "Features and terminology in Azure Event Hubs", event retention.
    """
    hub = hubs.new(1)
    hubs.send(hub, "a")
    raise AssertionError("nothing removes events")


@item(18, "documented")
def test_an_event_says_what_the_last_one_is(hubs: Hubs) -> None:
    """For a consumer that asks for the runtime metric of its partition.

    Source: azure-eventhub, EventHubConsumerClient.receive, track_last_enqueued_event_properties.
    """
    hub = hubs.new(1)
    hubs.send(hub, "a")
    [event] = hubs.read(hub, 1, partition_id="0", track_last_enqueued_event_properties=True)
    annotations = event.raw_amqp_message.delivery_annotations or {}
    assert annotations[b"last_enqueued_sequence_number"] == 0
