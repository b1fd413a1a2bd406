"""Places that a template names, through the unmodified SDK: topics with other names, and queues."""

from __future__ import annotations

from azure.servicebus import ServiceBusClient

from common.names import Origin
from emulators.servicebus.server import ServiceBusEmulator
from tests.contracts.bus.test_router import ORDERS, PERSONS, change, put, read, routed, routing, settings
from tests.contracts.bus.test_router_faults import numbered

ORIGIN = Origin("srv", "db")


def test_topics_are_made_and_used_under_the_names_that_a_template_gives(emulator: ServiceBusEmulator) -> None:
    chosen = settings(emulator)
    output = chosen.output.model_copy(update={"topic": "cdc.{schema}.{table}"})
    put(emulator, [change(PERSONS, number, PERSONS) for number in range(20)])
    with routing(chosen.model_copy(update={"output": output, "origin": ORIGIN}), routed(20)):
        pass
    assert [found.message_id for found in read(emulator, "cdc.dbo.persons", 20)] == numbered(PERSONS, 20)


def test_one_queue_for_all_tables_keeps_the_order_of_each_session(emulator: ServiceBusEmulator) -> None:
    chosen = settings(emulator)
    output = chosen.output.model_copy(update={"queue": "everything"})
    for topic in (PERSONS, ORDERS):
        put(emulator, [change(topic, number, topic) for number in range(10)])
    with routing(chosen.model_copy(update={"output": output, "origin": ORIGIN}), routed(20)):
        pass
    with ServiceBusClient.from_connection_string(emulator.connection_string) as client:
        for topic in (PERSONS, ORDERS):
            with client.get_queue_receiver("everything", session_id=topic, max_wait_time=5) as receiver:
                found = [message.message_id for _, message in zip(range(10), receiver, strict=False)]
            assert found == numbered(topic, 10)
