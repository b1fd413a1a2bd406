"""Items 11, 12, 15 and 17: who may come, what is not there, what ends, what survives."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest
from azure.eventhub import EventData, EventHubProducerClient
from azure.eventhub.exceptions import AuthenticationError, EventHubError

from emulators.eventhubs.server import EventHubsEmulator
from emulators.servicebus.amqp.connection import LINK_IDLE
from tests.emulators.eventhubs.contract.hubs import Hubs
from tests.emulators.eventhubs.contract.labels import item
from tests.emulators.servicebus.conftest import Clock


@item(11, "documented")
def test_a_hub_that_is_not_there(hubs: Hubs) -> None:
    """Sending, asking and reading are refused (amqp:not-found).

    Source: Microsoft, "EventHubsException", failure reason ResourceNotFound; azure-eventhub, test_send_with_invalid_hostname, negative tests.
    """
    producer = hubs.producer("nowhere")
    with pytest.raises(EventHubError, match=r"not be found|404"):
        producer.send_event(EventData("x"))
    with pytest.raises(EventHubError, match=r"not be found|404"):
        producer.get_eventhub_properties()
    assert "not be found" in hubs.reading("nowhere", partition_id="0").refused()


@item(11, "documented")
def test_a_consumer_group_or_partition_that_is_not_there(hubs: Hubs) -> None:
    """A link to it is refused.

    Source: azure-eventhub, negative tests, test_non_existing_entity_receiver and test_receive_from_invalid_partitions.
    """
    hub = hubs.new(2)
    assert "not be found" in hubs.reading(hub, group="nobody", partition_id="0").refused()
    producer = hubs.producer(hub)
    with pytest.raises(EventHubError, match="partition is invalid"):
        producer._create_producer("7").send(EventData("x"))  # the clients themselves look first whether it is there


@item(11, "documented")
def test_a_hub_that_is_deleted(hubs: Hubs) -> None:
    """Its links end, and it is not there.

    Source: Microsoft, "EventHubsException", failure reason ResourceNotFound.
    """
    hub = hubs.new(1)
    producer = hubs.producer(hub)
    producer.send_event(EventData("x"))
    hubs.emulator.delete_hub(hub)
    with pytest.raises(EventHubError):
        producer.send_event(EventData("x"))


@item(12, "documented")
def test_a_policy_does_what_its_claims_say(hubs: Hubs) -> None:
    """Send does not let anybody listen, nor Listen send.

    Source: Microsoft, "Authorizing access to Event Hubs resources using Shared Access Signatures".
    """
    hub = hubs.new(1)
    hubs.producer(hub, "Sender").send_event(EventData("a"))
    with pytest.raises(EventHubError, match="Send"):
        hubs.producer(hub, "Listener").send_event(EventData("b"))
    assert hubs.bodies(hub, 1) == ["a"]


@item(12, "unverified")
def test_who_may_send_may_ask(hubs: Hubs) -> None:
    """Properties of a hub are told to each policy of it.

    Source: azure-eventhub has the call in its producer client; which claim it takes nobody has written down.
    """
    hub = hubs.new(2)
    for policy in ("Sender", "Listener"):
        assert len(hubs.producer(hub, policy).get_partition_ids()) == 2


@item(12, "documented")
def test_a_wrong_key_is_refused(hubs: Hubs) -> None:
    """Before any link.

    Source: azure-eventhub, negative tests, test_send_with_invalid_key.
    """
    hub = hubs.new(1)
    address = hubs.emulator.connection_string.replace("root key", "another key")
    producer = EventHubProducerClient.from_connection_string(address, eventhub_name=hub, retry_total=0)
    with producer, pytest.raises(AuthenticationError, match="401"):
        producer.send_event(EventData("x"))


@item(15, "documented")
@pytest.mark.emulator_only("its clock is moved")
def test_an_idle_link_is_detached(hubs: Hubs, idle: Clock) -> None:
    """After ten minutes without a send; the next send needs another link.

    Source: Microsoft, "AMQP errors in Azure Service Bus", link is closed; azure-eventhub, TROUBLESHOOTING.md, on idle links.
    """
    hub = hubs.new(1)
    producer = hubs.producer(hub)
    producer.send_event(EventData("a"))
    link = producer._producers["all-partitions"]
    assert link is not None
    end, refused = time.monotonic() + 30, False
    while not refused:
        assert time.monotonic() < end, "it is not detached"
        idle.advance(timedelta(seconds=LINK_IDLE + 1))
        time.sleep(0.2)  # the emulator looks at what is idle 20 times a second
        try:
            link.send(EventData("b"), timeout=5)
        except EventHubError:
            refused = True
    hubs.producer(hub).send_event(EventData("c"))


@item(17, "documented")
@pytest.mark.emulator_only("it is killed")
def test_what_was_acknowledged_survives(tmp_path: Path) -> None:
    """An event that was acknowledged is stored.

    Source: Microsoft, "Features and terminology in Azure Event Hubs", publishing an event: at least once.
    """
    acknowledged = 0
    for life in range(3):
        command = [sys.executable, "-m", "emulators.eventhubs", "--port", "0", "--json", "--hub", "h:2"]
        with subprocess.Popen([*command, "--data", str(tmp_path)], stdout=subprocess.PIPE, text=True) as program:
            assert program.stdout is not None
            address = json.loads(program.stdout.readline())["connection_string"]
            with EventHubProducerClient.from_connection_string(address, eventhub_name="h", retry_total=0) as producer:
                numbers = [producer.get_partition_properties(each)["last_enqueued_sequence_number"] for each in "01"]
                assert sum(numbers) + 2 >= acknowledged, f"in life {life}"
                for number in range(20):
                    producer.send_event(EventData(f"{life} {number}"), partition_key=str(number))
                    acknowledged += 1
                program.kill()
    emulator = EventHubsEmulator(data=tmp_path)
    with emulator:
        assert emulator.events("h") == acknowledged
    with suppress(OSError):
        emulator.stop()
