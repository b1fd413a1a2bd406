"""What becomes of each delivery, decided without I/O."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from common.message import Message, PropertyValue
from router.routes import Group, Poison, plan, without
from tests.fakes.bus import FakeDelivery, Held

KNOWN = {"srv.db.persons.events", "srv.db.orders.events"}


def delivery(
    body: bytes = b"{}", properties: Mapping[str, PropertyValue] | None = None, fault: str | None = None
) -> FakeDelivery:
    return FakeDelivery(Held(Message(body, "id", application_properties=properties or {}), fault))


def to(topic: str) -> FakeDelivery:
    return delivery(properties={"destination": topic})


def poison_of(single: FakeDelivery) -> Poison:
    (poison,) = plan([single], KNOWN).poison
    return poison


def test_groups_keep_the_order_of_their_deliveries() -> None:
    persons = [to("srv.db.persons.events") for _ in range(3)]
    orders = [to("srv.db.orders.events") for _ in range(2)]
    decided = plan([persons[0], orders[0], persons[1], orders[1], persons[2]], KNOWN)
    assert decided.groups == (
        Group("srv.db.persons.events", tuple(persons)),
        Group("srv.db.orders.events", tuple(orders)),
    )
    assert decided.poison == ()


def test_property_decides_and_the_body_is_not_read() -> None:
    named = delivery(b"\xff no JSON", {"destination": "srv.db.orders.events"})
    assert [group.topic for group in plan([named], KNOWN).groups] == ["srv.db.orders.events"]


def test_body_decides_where_the_property_is_missing() -> None:
    named = delivery(b'{"data": {}, "metadata": {"Destination": "srv.db.orders.events"}}')
    assert [group.topic for group in plan([named], KNOWN).groups] == ["srv.db.orders.events"]


def test_topic_names_compare_without_case() -> None:
    assert [group.topic for group in plan([to("SRV.db.Orders.events")], KNOWN).groups] == ["srv.db.orders.events"]


@pytest.mark.parametrize("body", [b"", b"{", b"\xff\xfe\x00", b"[" * 100_000, b"{'single': 1}"])
def test_a_body_that_is_no_json_is_malformed(body: bytes) -> None:
    assert poison_of(delivery(body)).reason == "MalformedMessage"


@pytest.mark.parametrize(
    "body",
    [
        b"{}",
        b"[]",
        b"null",
        b'"text"',
        b'{"metadata": null}',
        b'{"metadata": []}',
        b'{"metadata": {"Destination": null}}',
        b'{"metadata": {"Destination": ""}}',
        b'{"metadata": {"Destination": 7}}',
    ],
)
def test_a_body_that_names_no_topic_misses_its_destination(body: bytes) -> None:
    assert poison_of(delivery(body)).reason == "MissingDestination"


def test_a_topic_of_no_configured_table_is_unknown_and_named() -> None:
    poison = poison_of(to("srv.db.invoices.events"))
    assert poison.reason == "UnknownDestination"
    assert "srv.db.invoices.events" in poison.description


def test_a_property_that_is_no_text_is_a_missing_destination() -> None:
    assert poison_of(delivery(properties={"destination": 7})).reason == "MissingDestination"


def test_a_body_that_is_no_byte_string_is_malformed_whatever_the_property_says() -> None:
    poison = poison_of(delivery(b"", {"destination": "srv.db.orders.events"}, fault="the body is an AMQP value"))
    assert (poison.reason, poison.description) == ("MalformedMessage", "the body is an AMQP value")


def test_poison_does_not_disturb_its_neighbours() -> None:
    first, last = to("srv.db.orders.events"), to("srv.db.orders.events")
    decided = plan([first, delivery(b"{"), last], KNOWN)
    assert decided.groups == (Group("srv.db.orders.events", (first, last)),)
    assert len(decided.poison) == 1


def test_what_is_done_leaves_the_group_and_an_empty_group_is_none() -> None:
    first, last = to("srv.db.orders.events"), to("srv.db.orders.events")
    group = Group("srv.db.orders.events", (first, last))
    assert without(group, {0}) == Group("srv.db.orders.events", (last,))
    assert without(group, {0, 1}) is None


STAND_IN: dict[str, PropertyValue] = {
    "destination": "srv.db.persons.events",
    "schema": "dbo",
    "table": "Persons",
    "lsn": "0000003600000b200003",
    "oversize": True,
}


def test_a_stand_in_for_a_change_that_fitted_no_message_is_no_change_and_says_which_it_was() -> None:
    body = (
        b'{"data": {"ID": 7}, "metadata": {"LSN": "0000003600000b200003", "SeqVal": "0000003600000b200002", '
        b'"Oversize": {"Bytes": 300000, "Limit": 262144}}}'
    )
    poison = poison_of(delivery(body, STAND_IN))
    assert poison.reason == "Oversize"
    for fact in ("dbo.Persons", '{"ID": 7}', "0000003600000b200003", "0000003600000b200002", "300000", "262144"):
        assert fact in poison.description


@pytest.mark.parametrize("body", [b"", b"\xff", b"[]", b"{}", b'{"data": 1, "metadata": []}', b"[" * 100_000])
def test_a_stand_in_whose_body_does_not_tell_is_told_by_its_properties(body: bytes) -> None:
    poison = poison_of(delivery(body, STAND_IN))
    assert poison.reason == "Oversize"
    assert poison.description == "a change of dbo.Persons at commit LSN 0x0000003600000b200003 fits no message"


@pytest.mark.parametrize(
    "body",
    [
        b"{}",
        b'{"data": {"ID": 7}, "metadata": {"LSN": null, "SeqVal": null, "Oversize": {"Bytes": null, "Limit": null}}}',
        b'{"data": {"ID": 7}, "metadata": {"LSN": "xy", "SeqVal": "1", "Oversize": {"Bytes": 1, "Limit": 2}}}',
        b'{"data": null, "metadata": {"LSN": "1", "SeqVal": "2", "Oversize": {"Bytes": [], "Limit": true}}}',
    ],
)
def test_a_forged_stand_in_is_dead_lettered_without_nonsense_in_its_description(body: bytes) -> None:
    nameless: dict[str, PropertyValue] = {"oversize": True}
    nonsense: dict[str, PropertyValue] = {"oversize": True, "schema": 5, "table": b"\xff", "lsn": "None"}
    for properties in (nameless, nonsense):
        poison = poison_of(delivery(body, properties))
        assert poison.reason == "Oversize"
        assert poison.description == "a change of an unnamed table fits no message"


@pytest.mark.parametrize("value", [False, "true", 1.0])
def test_only_a_true_oversize_marks_a_stand_in(value: PropertyValue) -> None:
    assert plan([delivery(b"{}", {**STAND_IN, "oversize": value})], KNOWN).poison == ()


SET_ASIDE: dict[str, PropertyValue] = {
    "destination": "srv.db.persons.events",
    "schema": "dbo",
    "table": "Persons",
    "lsn": "0000003600000b200003",
    "set_aside": "the filter fails: division by zero (data.Id is an int)",
}


def test_a_change_that_is_set_aside_is_no_change_and_says_why_and_nothing_of_its_body() -> None:
    poison = poison_of(delivery(b'{"data": {"Name": "Jaroslava"}}', SET_ASIDE))
    assert (poison.reason, poison.stops) == ("FilterFailed", False)
    assert poison.description == (
        "a change of dbo.Persons at commit LSN 0x0000003600000b200003 is not delivered: the filter fails: division by zero (data.Id is an int)"
    )


@pytest.mark.parametrize("value", ["", True, False, 0, b"why"])
def test_whatever_the_property_says_a_change_that_has_it_is_never_delivered(value: PropertyValue) -> None:
    poison = poison_of(delivery(b"{}", {"destination": "srv.db.persons.events", "set_aside": value}))
    assert poison.reason == "FilterFailed"
    assert poison.description == "a change of an unnamed table is not delivered: the ingester set it aside"


def test_a_long_reason_is_cut() -> None:
    assert len(poison_of(delivery(b"{}", {**SET_ASIDE, "set_aside": "x" * 100_000})).description) < 1200


def test_a_stand_in_for_a_change_that_is_set_aside_is_one_for_what_fits_no_message() -> None:
    assert poison_of(delivery(b"{}", {**SET_ASIDE, "oversize": True})).reason == "Oversize"
