"""Topics and queues of a namespace as an output: which entities, which needs, which findings."""

from __future__ import annotations

from datetime import timedelta

import pytest

from common.bus.ports import Need, QueueNeed, TopicNeed
from common.message import Message
from common.names import Origin, TableName
from router.outputs.around import Around
from router.outputs.azure_service_bus.output import BusOutput
from router.outputs.azure_service_bus.plan import planned
from router.outputs.azure_service_bus.settings import ServiceBusOutput
from router.outputs.places import streams_of
from router.outputs.port import Stream
from tests.fakes.bus import FakeBroker, FakeEntityManager, as_bus

ORIGIN = Origin("sql01", "Shop")
TABLES = {ORIGIN.topic(table): table for table in (TableName("dbo", "Persons"), TableName("sales", "Order Details"))}
AROUND = Around(("a", "b"), timedelta(minutes=3), "key")


def settings(**more: str) -> ServiceBusOutput:
    return ServiceBusOutput.model_validate({"namespace": "ns.servicebus.windows.net", **more})


def placed(given: ServiceBusOutput) -> list[str]:
    return [stream.destination for stream in streams_of(given, ORIGIN, TABLES)]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, ["sql01.shop.persons.events", "sql01.shop.sales.order_x0020_details.events"]),
        ({"topic": "{database}.{schema}.{table}"}, ["shop.dbo.persons", "shop.sales.order_x0020_details"]),
        ({"topic": "all"}, ["all", "all"]),
        ({"queue": "{topic}"}, ["sql01.shop.persons.events", "sql01.shop.sales.order_x0020_details.events"]),
        ({"queue": "in/{table}"}, ["in/persons", "in/order_x0020_details"]),
    ],
)
def test_a_template_names_topics_or_queues(given: dict[str, str], expected: list[str]) -> None:
    assert placed(settings(**given)) == expected


def test_a_side_topic_keeps_its_name_whatever_the_template() -> None:
    assert settings(topic="{table}").place(ORIGIN, "side.copy_x0020_", None) == "side.copy_x0020_"


@pytest.mark.parametrize(
    ("given", "needs"),
    [
        ({"topic": "t"}, [TopicNeed("t", ("a", "b"), timedelta(minutes=3))]),
        ({"queue": "q"}, [QueueNeed("q", True, timedelta(minutes=3))]),
    ],
)
def test_each_place_is_provided_once(given: dict[str, str], needs: list[Need], monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[Need]()

    def provision(self: FakeEntityManager, needs: list[Need], **more: object) -> list[str]:
        asked.extend(needs)
        return [need.name for need in needs]

    monkeypatch.setattr(FakeEntityManager, "provision", provision)
    output = BusOutput(as_bus(FakeBroker()), settings(**given), AROUND)
    late = output.provision(streams_of(settings(**given), ORIGIN, TABLES), how="create")
    assert asked == needs
    assert list(late) == list(TABLES)


def test_a_sender_writes_to_the_place_of_its_stream() -> None:
    broker = FakeBroker()
    broker.create("there")
    output = BusOutput(as_bus(broker), settings(topic="there"))
    sender = output.sender(Stream("topic", None, "there"))
    sender.open()
    sender.send([Message(b"{}", message_id="1")])
    sender.close()
    assert broker.entity("there").bodies == [b"{}"]


def test_its_plan_says_what_is_created_and_needed() -> None:
    found = planned(settings(topic="t"), streams_of(settings(topic="t"), ORIGIN, TABLES), "create", AROUND)
    assert list(found.creates) == ["topic t", "subscription a on topic t", "subscription b on topic t"]
    assert list(found.needs) == ["Send on topic t", "Manage, on the namespace"]
    queues = planned(settings(queue="q"), streams_of(settings(queue="q"), ORIGIN, TABLES), "none", AROUND)
    assert (list(queues.creates), list(queues.needs)) == ([], ["Send on queue q"])
