"""Where a message goes: the routes of a configuration, asked."""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping
from typing import Any

import pytest

from common.bus.settings import OutputSettings
from common.cel.filters import FilterFailed
from common.message import Message
from common.names import Origin, TableName
from router.outputs.azure_event_hubs.settings import EventHubsOutput
from router.outputs.azure_service_bus.settings import ServiceBusOutput
from router.routing.settings import RouteBlock, unknown_outputs
from router.routing.table import RouteTable, Target, key_of, parts_of_key

ORIGIN = Origin("server", "db")
PERSONS, ORDERS, AUDIT = TableName("dbo", "Persons"), TableName("sales", "Orders"), TableName("sales", "AuditLog")


def route(**given: Any) -> RouteBlock:
    return RouteBlock.model_validate({key.rstrip("_"): value for key, value in given.items()})


def table(*routes: RouteBlock) -> RouteTable:
    return RouteTable(routes, ORIGIN.table_of, ORIGIN)


def message(
    of: TableName = PERSONS,
    operation: str = "Insert",
    data: Mapping[str, object] | None = None,
    *,
    properties: bool = True,
    body: bytes | None = None,
) -> Message:
    metadata = {"Schema": of.schema, "TableName": of.table, "OperationType": operation, "CommandID": 1}
    told = {"schema": of.schema, "table": of.table, "operation": operation, "destination": ORIGIN.topic(of)}
    written = json.dumps({"data": {"ID": 1} if data is None else data, "metadata": metadata}).encode()
    return Message(written if body is None else body, "id", application_properties=told if properties else {})


def outputs(routes: RouteTable, given: Message, of: TableName = PERSONS) -> list[str]:
    return [target.output for target in routes.targets(given, ORIGIN.topic(of))]


def test_without_a_route_everything_goes_to_the_default_output() -> None:
    topic = ORIGIN.topic(PERSONS)
    assert table().targets(message(), topic) == (Target("default", topic),)
    assert table().streams(topic, PERSONS) == (Target("default", topic),)


def test_a_table_that_no_route_names_goes_where_it_went() -> None:
    routes = table(route(from_=("sales.*",), to=("stream",)))
    assert outputs(routes, message()) == ["default"]
    assert outputs(routes, message(ORDERS), ORDERS) == ["stream"]


def test_routes_add_up_and_each_place_gets_a_message_once() -> None:
    routes = table(
        route(from_=("Persons", "sales.*"), to=("default", "stream")),
        route(from_=("persons",), to=("stream", "rows")),
        route(from_=("Persons",), to=("stream",), topic="people"),
    )
    topic = ORIGIN.topic(PERSONS)
    assert routes.targets(message(), topic) == (
        Target("default", topic),
        Target("stream", topic),
        Target("rows", topic),
        Target("stream", f"{topic}@people"),
    )
    assert routes.streams(topic, PERSONS) == routes.targets(message(), topic)
    assert outputs(routes, message(ORDERS), ORDERS) == ["default", "stream"]


def test_a_message_that_no_filter_takes_goes_nowhere() -> None:
    routes = table(route(from_=("Persons",), when="metadata.OperationType != 'Delete'", to=("default", "stream")))
    assert outputs(routes, message()) == ["default", "stream"]
    assert outputs(routes, message(operation="Delete")) == []


def test_an_entry_can_take_away_and_name_topics() -> None:
    routes = table(
        route(from_=("sales.*", "!sales.Audit*"), to=("stream",)), route(from_=("server.db.p*",), to=("rows",))
    )
    assert outputs(routes, message(ORDERS), ORDERS) == ["stream"]
    assert outputs(routes, message(AUDIT), AUDIT) == ["default"]
    assert outputs(routes, message()) == ["rows"]
    assert outputs(table(route(from_=("!sales.*",), to=("rows",))), message(ORDERS), ORDERS) == ["default"]
    assert outputs(table(route(from_=("!sales.*",), to=("rows",))), message()) == ["rows"]
    side = table(route(from_=("people-again",), to=("rows",)))
    assert [each.output for each in side.targets(message(), "people-again")] == ["rows"]


@pytest.mark.parametrize(
    "from_",
    [("Persons",), ("*.*",), ("*",), ("dbo.*", "people.*"), ("!sales.*",), ("*", "!people.again"), ("people.*",)],
)
def test_a_side_topic_gets_its_messages_whatever_routes_say_of_their_table(from_: tuple[str, ...]) -> None:
    routes = table(route(from_=from_, to=("rows",)))
    assert routes.targets(message(), "people.again") == (Target("default", "people.again"),)
    assert outputs(routes, message()) == ["default" if from_ == ("people.*",) else "rows"]


@pytest.mark.parametrize("from_", [("People.again",), ("Persons", "people.again"), ("people.again", "!sales.*")])
def test_a_route_that_names_a_side_topic_gets_its_messages(from_: tuple[str, ...]) -> None:
    routes = table(route(from_=from_, to=("rows",)))
    assert routes.targets(message(), "people.again") == (Target("rows", "people.again"),)


def test_a_pattern_of_topics_takes_those_of_other_databases() -> None:
    routes = table(route(from_=("server.*.events", "!server.db3.*.events"), to=("rows",)))
    assert routes.targets(message(), "server.db2.persons.events")[0].output == "rows"
    assert routes.targets(message(), "server.db3.persons.events")[0].output == "default"


def test_properties_answer_what_they_can_and_the_body_is_not_read() -> None:
    routes = table(route(when="metadata.OperationType == 'Insert' && metadata.Schema == 'dbo'", to=("stream",)))
    assert outputs(routes, message(body=b"no JSON")) == ["stream"]


def test_the_body_is_read_once_for_all_routes(monkeypatch: pytest.MonkeyPatch) -> None:
    read = list[bytes]()
    loads = json.loads

    def counted(body: bytes, **options: Any) -> Any:
        read.append(body)
        return loads(body, **options)

    monkeypatch.setattr("router.routing.conditions.json.loads", counted)
    routes = table(
        route(when="data.ID > 0", to=("a",)),
        route(when="data.ID > 1", to=("b",)),
        route(when="metadata.CommandID == 1", to=("c",)),
    )
    assert outputs(routes, message()) == ["a", "c"]
    assert len(read) == 1


def test_a_message_without_properties_is_judged_by_its_body() -> None:
    routes = table(route(from_=("Persons",), when="metadata.OperationType == 'Delete'", to=("stream",)))
    assert outputs(routes, message(operation="Delete", properties=False)) == ["stream"]


@pytest.mark.parametrize(
    ("value", "when"),
    [
        (12345678901234567890123, "data.V > 1.0"),
        (2**63, "data.V > 1.0"),
        (2**63 - 1, "data.V == 9223372036854775807"),
        (-(2**63), "data.V < 0"),
        (1.25, "data.V == 1.25"),
        ("a\ud83d", "data.V.startsWith('a')"),
        (None, "data.V == null"),
    ],
)
def test_values_are_those_of_the_body(value: object, when: str) -> None:
    assert outputs(table(route(when=when, to=("stream",))), message(data={"V": value})) == ["stream"]


@pytest.mark.parametrize(
    "body",
    [b"no JSON", b"[]", b'{"data": 1, "metadata": {}}', b'{"data": {"ID": NaN}, "metadata": {}}', b"[" * 100_000],
)
def test_a_body_that_cannot_be_read_fails_and_goes_nowhere(body: bytes) -> None:
    with pytest.raises(FilterFailed, match="the body is not"):
        outputs(table(route(when="data.ID == 1", to=("stream",))), message(body=body))


def test_a_filter_without_an_answer_fails_without_a_value_of_the_row() -> None:
    routes = table(route(to=("default",)), route(when="data.Missing == 1", to=("stream",)))
    with pytest.raises(FilterFailed) as raised:
        outputs(routes, message(data={"Secret": "hunter2"}))
    assert str(raised.value).startswith("the filter of route 2 has no answer: ")
    assert "Missing" in str(raised.value)
    assert "hunter2" not in str(raised.value)


def test_a_key_has_the_topic_and_the_place() -> None:
    assert parts_of_key(key_of("server.db.persons.events", None)) == ("server.db.persons.events", None)
    assert parts_of_key(key_of("server.db.persons.events", "{table}@x")) == ("server.db.persons.events", "{table}@x")


def test_routes_travel_to_other_processes() -> None:
    block = route(from_=("Persons",), when="data.ID == 1", to=("a",), topic="{table}")
    assert pickle.loads(pickle.dumps(block)) == block


@pytest.mark.parametrize(
    "given",
    [
        {"to": ()},
        {"to": ("a", "a")},
        {"from_": (), "to": ("a",)},
        {"from_": ("!",), "to": ("a",)},
        {"from_": ("!!x",), "to": ("a",)},
        {"from_": ("a..b",), "to": ("a",)},
        {"when": "data.", "to": ("a",)},
        {"when": "1", "to": ("a",)},
        {"when": "metadata.OperationType", "to": ("a",)},
        {"when": "metadata.CommandID + 1", "to": ("a",)},
    ],
)
def test_a_route_that_means_nothing_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        route(**given)


def test_an_output_that_no_block_has_is_named() -> None:
    given = {
        "outputs": ({"name": "stream"},),
        "route": (route(to=("default", "straem")), {"to": ("xyz", 7)}, {"to": 1}),
    }
    assert list(unknown_outputs(given)) == [
        (("route", 0, "to", 1), 'names the output "straem", which no block has (did you mean "stream"?)'),
        (("route", 1, "to", 0), 'names the output "xyz", which no block has; there are default, stream'),
    ]


def test_what_an_output_has_of_a_table_stays_believed_unless_the_edit_concerns_both() -> None:
    persons = (ORIGIN.topic(PERSONS), PERSONS.schema, PERSONS.table)
    orders = (ORIGIN.topic(ORDERS), ORDERS.schema, ORDERS.table)

    def led(output: str, *routes: RouteBlock, kinds: tuple[tuple[str, str, str], ...] = (persons,)) -> str:
        return RouteTable(routes, ORIGIN.table_of, ORIGIN, [ServiceBusOutput(namespace="one.example")]).led(
            output, kinds
        )

    both, away = route(to=("default", "stream")), route(**{"from": ("sales.Orders",), "to": ("stream",)})
    assert led("default") == led("default", both) == led("default", both, away) == led("default", away)
    assert led("default", kinds=(persons, orders)) != led("default", away, kinds=(persons, orders))
    assert led("stream") != led("stream", both)
    assert led("default", both) != led("default", route(to=("default",), topic="x"))
    assert led("default", both) != led("default", route(to=("default",), when="metadata.CommandID == 1"))


def test_another_place_under_the_same_label_is_not_believed_to_have_what_the_first_one_had() -> None:
    routes = [route(to=("default",))]

    def fingerprint(output: OutputSettings, routes: list[RouteBlock] = routes) -> str:
        return RouteTable(routes, ORIGIN.table_of, ORIGIN, [output]).fingerprint

    one = ServiceBusOutput(namespace="one.servicebus.windows.net")
    others = [
        ServiceBusOutput(namespace="two.servicebus.windows.net"),
        ServiceBusOutput(namespace="one.servicebus.windows.net", topic="{table}"),
        EventHubsOutput(type="azure_event_hubs", namespace="one.servicebus.windows.net", event_hub="{topic}"),
    ]
    assert fingerprint(one) == fingerprint(ServiceBusOutput(namespace="one.servicebus.windows.net", tombstones=True))
    assert len({fingerprint(each) for each in (one, *others)}) == 4
    assert fingerprint(one) != fingerprint(one, [route(to=("default",), topic="x")])
