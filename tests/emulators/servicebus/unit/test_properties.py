"""Properties of a message: changed in place, with nothing else in it touched."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulators.servicebus.amqp.decode import decode
from emulators.servicebus.amqp.values import AmqpError, Array, Symbol, UByte, UInt
from emulators.servicebus.links.fields import user_properties
from emulators.servicebus.message import parse_message, sections
from emulators.servicebus.properties import MessageProperties, change_user_properties
from tests.emulators.servicebus.unit.messages import BODY, make_message, section

NAMES = st.text("abcXYZ", min_size=1, max_size=3)
PARTS = st.tuples(
    st.sampled_from([b"", section(0x73, ["id"])]),
    st.none() | st.dictionaries(NAMES, st.integers(0, 9).map(UByte) | st.text(max_size=3), max_size=4),
    st.sampled_from([BODY, section(0x77, {"a": [1, None]}), BODY + BODY]),
    st.sampled_from([b"", section(0x78, {Symbol("f"): 1})]),
)


@settings(max_examples=150, deadline=None)
@given(PARTS, st.dictionaries(NAMES, st.integers(0, 9).map(UInt) | st.none(), max_size=3))
def test_user_properties_are_set_and_nothing_else_changes(
    parts: tuple[bytes, dict[str, Any] | None, bytes, bytes], changes: dict[str, Any]
) -> None:
    properties, application, body, footer = parts
    middle = b"" if application is None else section(0x74, application)
    message = parse_message(properties + middle + body + footer)
    size = message.size
    grown = change_user_properties(message, changes)
    assert message.tail.startswith(properties)
    assert message.tail.endswith(body + footer)
    assert (message.size - size, len(message.tail) - size) == (grown, grown)
    values = {code: decode(message.tail, start)[0] for code, start, _ in sections(message.tail)}
    after = values.get(0x74, {})
    view = MessageProperties(message)
    for name in changes:
        last = [value for other, value in changes.items() if other.lower() == name.lower()][-1]
        assert view.has_user(name)
        assert view.user(name) == last
    changed = {name.lower() for name in changes}
    assert {n: v for n, v in after.items() if n.lower() not in changed} == {
        n: v for n, v in (application or {}).items() if n.lower() not in changed
    }


def test_a_view_that_changes_nothing_writes_nothing() -> None:
    message = make_message({"a": 1})
    tail = message.tail
    view = MessageProperties(message)
    view.remove_user("b")
    view.write()
    assert message.tail is tail


def test_properties_that_are_none_stay_as_they_are() -> None:
    octets = b"\x00\x53\x74\xc1\x03\x02\x99\x40" + BODY
    message = parse_message(octets)
    assert change_user_properties(message, {"a": 1}) == 0
    assert message.tail == octets


@pytest.mark.parametrize(
    ("given_value", "field"),
    [(5, "f"), ([], "f"), ({1: 2}, "f"), ({"a": [1]}, "f.a"), ({"a": {}}, "f.a"), ({"a": Array(int, [1])}, "f.a")],
)
def test_a_map_of_user_properties_has_names_and_simple_values(given_value: Any, field: str) -> None:
    with pytest.raises(AmqpError, match=f"'{field}'"):
        user_properties(given_value, "f")


def test_names_may_be_symbols() -> None:
    properties = user_properties({Symbol("a"): UInt(1)}, "f")
    assert [type(name) for name in properties] == [str]
    assert properties == {"a": 1}
