"""Actions on messages: what they change, in which type, and that everything else keeps its octets."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from emulators.servicebus.amqp.decode import decode
from emulators.servicebus.amqp.values import Byte, Described, Float, Int, Symbol, Timestamp, UByte
from emulators.servicebus.message import Message, parse_message, render, sections
from emulators.servicebus.properties import MessageProperties
from emulators.servicebus.rules import InvalidRule
from emulators.servicebus.rules.description import PropertyValue
from emulators.servicebus.rules.errors import FilterError
from emulators.servicebus.rules.evaluate import change
from emulators.servicebus.rules.parser import parse_action
from tests.emulators.servicebus.unit.messages import BODY, make_message, section


def after(text: str, message: Message, parameters: Mapping[str, PropertyValue] | None = None) -> Message:
    """The message, changed."""
    properties = MessageProperties(message)
    change(parse_action(text, parameters or {}))(properties)
    properties.write()
    return message


def application(message: Message) -> dict[str, Any]:
    values = {code: decode(message.tail, start)[0] for code, start, _ in sections(message.tail)}
    return {} if 0x74 not in values else dict(values[0x74])


def test_set_creates_updates_and_remove_removes() -> None:
    message = make_message({"color": "red", "quantity": Int(10), "priority": "high"})
    text = "SET quantity = quantity / 2; REMOVE priority; SET sys.CorrelationId = 'low'; SET twice = quantity * 2;"
    changed = after(text, message)
    assert application(changed) == {"color": "red", "quantity": 5, "twice": 10}
    assert MessageProperties(changed).system("CorrelationId") == "low"


def test_names_are_found_in_any_case_and_keep_their_spelling() -> None:
    assert application(after("SET COLOR = 'blue'; REMOVE SIZE", make_message({"Color": "red", "Size": 1}))) == {
        "Color": "blue"
    }


@pytest.mark.parametrize(
    ("before", "expression", "result"),
    [
        (Int(10), "n / 2", Int(5)),
        (UByte(10), "n + 1", UByte(11)),
        (UByte(255), "n + 1", 256),
        (Byte(1), "1 - 3", Byte(-2)),
        (Int(1), "2.5", 2.5),
        (1.5, "2", 2.0),
        (Float(1.5), "2", Float(2.0)),
        (Float(1.5), "0.1", 0.1),
        ("text", "5", 5),
        (5, "'text'", "text"),
        (True, "1", 1),
        (None, "1", 1),
        (5, "NULL", None),
        (5, "missing + 1", None),
        (Described(Symbol("odd"), 1), "1", 1),
    ],
)
def test_a_new_value_takes_the_type_of_the_old_one_if_it_can(before: Any, expression: str, result: Any) -> None:
    value = application(after(f"SET n = {expression}", make_message({"n": before})))["n"]
    assert (type(value), value) == (type(result), result)


def test_moments_durations_and_ids_are_written_as_dotnet_clients_write_them() -> None:
    parameters: dict[str, PropertyValue] = {"@span": timedelta(hours=1), "@moment": datetime(2026, 1, 1, tzinfo=UTC)}
    values = application(after("SET s = @span; SET m = @moment; SET i = newid()", make_message({}), parameters))
    assert values["s"] == Described(Symbol("com.microsoft:timespan"), 36_000_000_000)
    assert (type(values["m"]), values["m"]) == (Timestamp, 1_767_225_600_000)
    assert type(values["i"]) is UUID


def test_what_an_action_does_not_name_keeps_its_octets() -> None:
    long_form = b"\xb1\x00\x00\x00\x01k\x70\x00\x00\x00\x05"  # a string and a uint, longer than they need to be
    fields = b"\x00\x53\x73\xd0\x00\x00\x00\x0e\x00\x00\x00\x04\xa1\x01m\x40\xb1\x00\x00\x00\x00\x40"
    footer = section(0x78, {Symbol("f"): 1})
    message = parse_message(fields + b"\x00\x53\x74\xc1\x0c\x02" + long_form + BODY + footer)
    after("SET a = 1; SET sys.Label = 's'", message)
    assert long_form in message.tail
    assert b"\xb1\x00\x00\x00\x00" in message.tail
    assert message.tail.endswith(BODY + footer)
    assert MessageProperties(message).system("To") == ""
    assert MessageProperties(message).system("Label") == "s"


@pytest.mark.parametrize(
    "message", [make_message(), make_message({}), make_message(message_id="m"), make_message({"b": 1}, message_id="m")]
)
def test_sections_that_are_missing_are_made(message: Message) -> None:
    size = message.size + len(after("SET a = 1; SET sys.To = 't'", message).tail)
    parsed = parse_message(message.tail)
    assert MessageProperties(parsed).user("a") == 1
    assert MessageProperties(parsed).system("To") == "t"
    assert message.size > size - len(message.tail)


def test_the_size_follows() -> None:
    message = make_message({"a": "x"})
    before = message.size - len(message.tail)
    assert after("SET a = 'xyz'", message).size == before + len(message.tail)


@pytest.mark.parametrize(
    "name",
    ["MessageId", "To", "Label", "Subject", "ReplyTo", "CorrelationId", "ContentType", "SessionId", "ReplyToSessionId",
     "PartitionKey", "ViaPartitionKey"],
)  # fmt: skip
def test_system_properties_are_set_and_cleared(name: str) -> None:
    message = after(f"SET sys.{name} = 'v' + 1", make_message(message_id="m", group_id="g"))
    assert MessageProperties(parse_message(render(message))).system(name) == "v1"
    assert MessageProperties(after(f"REMOVE sys.{name}", message)).system(name) is None


def test_ids_the_broker_acts_on_follow() -> None:
    message = after("SET sys.MessageId = 5; SET sys.SessionId = 't'", make_message(message_id="m", group_id="g"))
    assert (message.message_id, message.session_id) == ("5", "t")


def test_a_schedule_and_a_time_to_live_come_from_parameters() -> None:
    parameters: dict[str, PropertyValue] = {"@at": datetime(2026, 1, 1, tzinfo=UTC), "@ttl": timedelta(seconds=5)}
    text = "SET sys.ScheduledEnqueueTimeUtc = @at; SET sys.TimeToLive = @ttl"
    message = after(text, make_message(), parameters)
    assert (message.scheduled_at, message.ttl) == (1_767_225_600_000, 5000)
    assert parse_message(render(message)).scheduled_at == 1_767_225_600_000
    message = after("REMOVE sys.ScheduledEnqueueTimeUtc; REMOVE sys.TimeToLive", message)
    assert (message.scheduled_at, message.ttl, message.annotations) == (None, None, b"")


@pytest.mark.parametrize(
    "text",
    [
        "SET sys.Nonsense = 1", "REMOVE sys.Nonsense", "SET a = sys.Nonsense", "SET sys.TimeToLive = 5",
        "SET sys.ScheduledEnqueueTimeUtc = '2026'", "SET sys.ContentType = 'ü'", "SET a = 1 / 0", "SET a = 'x' * 2",
        "SET a = property(1)", "SET sys.To = p('blob')",
    ],
)  # fmt: skip
def test_an_action_that_cannot_be_done_fails(text: str) -> None:
    with pytest.raises(FilterError):
        after(text, make_message({"blob": b"x"}))


@pytest.mark.parametrize(
    "name", ["SequenceNumber", "EnqueuedTimeUtc", "DeliveryCount", "Size", "LockToken", "ExpiresAtUtc"]
)
def test_what_the_broker_sets_is_refused_when_the_rule_is_made(name: str) -> None:
    for text in (f"SET sys.{name} = 1", f"REMOVE sys.{name}"):
        with pytest.raises(InvalidRule, match=name):
            change(parse_action(text, {}))
