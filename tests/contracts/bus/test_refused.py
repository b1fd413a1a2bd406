"""The router and what its topics refuse, on an emulated namespace through the unmodified SDK: accounted for, and nothing else set aside."""

from __future__ import annotations

from contextlib import closing

from azure.servicebus import ServiceBusClient, ServiceBusSubQueue

from common.bus.ports import QueueNeed
from common.servicebus.namespace import ServiceBus
from common.servicebus.provision import provision
from emulators.servicebus.faults.catalogue import SendsRefused
from emulators.servicebus.server import ServiceBusEmulator
from ingester.task.pack import PackingSender
from router.publishing.publisher import REFUSED_IN_A_ROW
from tests.contracts.bus.test_router import ORDERS, PERSONS, change, left, put, read, routed, routing, settings
from tests.contracts.bus.test_router_faults import numbered, waited_for


def dead(emulator: ServiceBusEmulator) -> dict[str | None, tuple[str | None, str | None]]:
    """Reason and description by message id."""
    with (
        ServiceBusClient.from_connection_string(emulator.connection_string) as client,
        client.get_queue_receiver("ingest-queue", sub_queue=ServiceBusSubQueue.DEAD_LETTER) as receiver,
    ):
        found = receiver.receive_messages(100, max_wait_time=2)
        return {each.message_id: (each.dead_letter_reason, each.dead_letter_error_description) for each in found}


def test_the_refused_message_is_dead_lettered_with_the_services_words_and_its_neighbours_arrive_in_order(
    emulator: ServiceBusEmulator,
) -> None:
    put(emulator, [change(topic, number, topic) for number in range(100) for topic in (PERSONS, ORDERS)])
    bad = f"{PERSONS}-61"
    with (
        emulator.inject(SendsRefused(PERSONS, "amqp:not-allowed", None, bad)),
        routing(settings(emulator), routed(200)) as tally,
    ):
        pass
    assert tally.dead_lettered == {"Refused": 1}
    [(reason, description)] = [told for name, told in dead(emulator).items() if name == bad]
    assert reason == "Refused"
    assert "The send was refused (amqp:not-allowed)." in str(description)
    assert [each.message_id for each in read(emulator, PERSONS, 99)] == [
        name for name in numbered(PERSONS, 100) if name != bad
    ]
    assert [each.message_id for each in read(emulator, ORDERS, 100)] == numbered(ORDERS, 100)


def test_in_a_pack_it_takes_no_neighbour_along(emulator: ServiceBusEmulator) -> None:
    bus = ServiceBus.from_connection_string(emulator.connection_string)
    endpoint = f"http://127.0.0.1:{emulator.http_port}"
    provision(bus.address, [QueueNeed("ingest-queue", sessions=True)], how="create", management_endpoint=endpoint)
    with closing(PackingSender(bus.sender("ingest-queue"), most=20)) as sender:
        sender.send([change(PERSONS, number, PERSONS) for number in range(60)])
    assert left(emulator) == (3, 0)
    bad = f"{PERSONS}-30"
    with (
        emulator.inject(SendsRefused(PERSONS, "com.microsoft:argument-error", None, bad)),
        routing(settings(emulator, most_packed=20), lambda tally: left(emulator) == (0, 1)),
    ):
        pass
    assert dead(emulator)[bad][0] == "Refused"
    assert [each.message_id for each in read(emulator, PERSONS, 59)] == [
        name for name in numbered(PERSONS, 60) if name != bad
    ]


def test_a_topic_that_refuses_everything_is_away_and_is_gone_on_with_once_it_takes_messages(
    emulator: ServiceBusEmulator,
) -> None:
    put(emulator, [change(PERSONS, number, PERSONS) for number in range(60)])
    with routing(settings(emulator), routed(60)) as tally, emulator.inject(SendsRefused(PERSONS, "amqp:not-allowed")):
        waited_for(lambda: tally.retries[PERSONS] >= 2)
        assert left(emulator) == (60 - REFUSED_IN_A_ROW, REFUSED_IN_A_ROW)
    assert list(dead(emulator)) == numbered(PERSONS, REFUSED_IN_A_ROW)
    rest = numbered(PERSONS, 60 - REFUSED_IN_A_ROW, REFUSED_IN_A_ROW)
    assert [each.message_id for each in read(emulator, PERSONS, len(rest))] == rest
