"""Our octets of a message are the SDK's own, and where the SDK refuses what a broker may have delivered, they say what was delivered."""

from __future__ import annotations

import math
import uuid
from datetime import timedelta
from decimal import Decimal
from typing import Any, cast

import pytest
from azure.servicebus import ServiceBusMessageBatch
from azure.servicebus._pyamqp._decode import decode_payload  # the SDK's own reader is the yardstick here
from hypothesis import given, settings
from hypothesis import strategies as st

from common.azure_amqp import encoding
from common.azure_amqp.encoding import Written, encoded
from common.message import Message, PropertyValue, weight
from common.servicebus.wire import batches as servicebus_batches
from common.servicebus.wire.batches import add, supported
from common.servicebus.wire.messages import to_sdk
from emulators.servicebus.amqp.decode import decode
from emulators.servicebus.message import parse_message, split_batch

TEXTS = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=40),
    st.integers(120, 300).map(lambda length: "x" * length),
    st.sampled_from(["ä" * 127 + "x", "ä" * 128, "\U0001f600" * 64, "", "\0"]),
)
SYMBOLS = st.text(st.characters(codec="ascii"), max_size=300)
NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=128)
INTEGERS = st.one_of(
    st.integers(-(2**31), 2**31 - 1), st.sampled_from([-129, -128, -1, 0, 127, 128, 255, 256, -(2**31), 2**31 - 1])
)
VALUES = st.one_of(
    TEXTS, INTEGERS, st.floats(), st.booleans(), TEXTS.map(str.encode), st.uuids(), st.none()
)  # the last two are what a foreign sender's message may bring
PROPERTIES = st.one_of(
    st.dictionaries(TEXTS, VALUES, max_size=6),
    st.integers(0, 150).map(lambda count: {str(number): number for number in range(count)}),
    st.sampled_from([{"name": "v" * length} for length in (240, 241, 242, 243, 244, 245, 246, 247, 248, 32_000)]),
)
BODIES = st.one_of(
    st.binary(max_size=40), st.sampled_from([b"x" * length for length in (0, 255, 256, 65_536)]), TEXTS.map(str.encode)
)


@st.composite
def messages(draw: st.DrawFn) -> Message:
    session = draw(st.none() | NAMES)
    return Message(
        draw(BODIES),
        draw(NAMES.filter(bool)),
        session_id=session,
        subject=draw(st.none() | TEXTS),
        content_type=draw(st.none() | SYMBOLS),
        partition_key=draw(st.sampled_from([None, session, "other"]) | NAMES),
        correlation_id=draw(st.none() | TEXTS),
        reply_to=draw(st.none() | TEXTS),
        reply_to_session_id=draw(st.none() | NAMES),
        to=draw(st.none() | TEXTS),
        time_to_live=draw(st.none() | st.timedeltas(timedelta(0), timedelta(milliseconds=2**32 - 1))),
        application_properties=cast("dict[str, PropertyValue]", draw(PROPERTIES)),
    )


def by_the_sdk(message: Message) -> bytes:
    batch = ServiceBusMessageBatch(1 << 24)
    batch.add_message(to_sdk(message))
    inner: Any = batch
    return bytes(inner._message[5][0])


def read(octets: bytes) -> Any:
    return decode_payload(memoryview(octets))


def created(octets: bytes) -> float:
    """Unix time at which an encoded message says it was made; 0 where it does not."""
    stamp = read(octets).properties[9]
    return stamp / 1000 if stamp else 0.0


@settings(max_examples=200)
@given(messages())
def test_the_octets_are_those_that_the_sdk_writes(message: Message) -> None:
    theirs = by_the_sdk(message)
    assert encoded(message, now=created(theirs)) == theirs


def test_a_message_with_a_time_to_live_says_when_it_was_made_and_when_it_ends() -> None:
    octets = encoded(Message(b"", "m", time_to_live=timedelta(seconds=90)), now=1_700_000_000.9)
    assert octets is not None
    found = read(octets)
    assert (found.header[2], found.properties[9], found.properties[8]) == (90_000, 1_700_000_000_000, 1_700_000_090_000)


@pytest.mark.parametrize("milliseconds", [1, 500, 999, 90_500])
def test_parts_of_a_second_of_a_time_to_live_are_kept(milliseconds: int) -> None:
    """The SDK makes 0 of half a second, and what lives for 0 is expired as it arrives."""
    message = Message(b"", "m", time_to_live=timedelta(milliseconds=milliseconds))
    octets = encoded(message, now=1_700_000_000.25)
    assert octets is not None
    for found in (read(octets), read(by_the_sdk(message))):
        assert found.header[2] == milliseconds
        assert found.properties[8] - found.properties[9] == milliseconds
    assert read(octets).properties[9] == 1_700_000_000_250


def test_a_life_longer_than_a_header_can_say_is_said_by_its_two_times() -> None:
    octets = encoded(Message(b"", "m", time_to_live=timedelta(days=100)), now=1_700_000_000)
    assert octets is not None
    found = read(octets)
    assert found.header[2] == 2**32 - 1
    assert found.properties[8] - found.properties[9] == timedelta(days=100) // timedelta(milliseconds=1)


@pytest.mark.parametrize("number", [2**31, -(2**31) - 1, 2**63 - 1, -(2**63), 2**63, 2**64 - 1])
def test_an_integer_that_the_sdk_takes_for_too_large_is_written_as_it_was_received(number: int) -> None:
    message = Message(b"", "m", application_properties={"number": number})
    with pytest.raises(ValueError, match="int invalid"):
        by_the_sdk(message)
    octets = encoded(message, now=0)
    assert octets is not None
    assert read(octets).application_properties == {b"number": number}


def test_a_binary_that_is_no_utf8_stays_binary() -> None:
    octets = encoded(Message(b"", "m", application_properties={"octets": b"\xff\xfe"}), now=0)
    assert octets is not None
    assert read(octets).application_properties == {b"octets": b"\xff\xfe"}


@pytest.mark.parametrize(
    "message",
    [
        Message(b"", None),
        Message(b"", ""),
        Message(b"", "i" * 129),
        Message(b"", "m", session_id="s" * 129),
        Message(b"", "m", partition_key="p" * 129),
        Message(b"", "m", time_to_live=timedelta(seconds=-1)),
        Message(b"", "m", application_properties={"n": 2**64}),
        Message(b"", "m", application_properties={"d": cast(Any, Decimal("1.5"))}),
        Message(b"", "m", application_properties={"d": cast(Any, {})}),
    ],
)
def test_what_is_not_written_here_is_left_to_the_sdk(message: Message) -> None:
    assert encoded(message, now=0) is None


def test_the_sdk_says_what_it_refuses_and_writes_what_only_it_can() -> None:
    batch = ServiceBusMessageBatch()
    with pytest.raises(ValueError, match="message_id cannot be longer"):
        add(batch, Message(b"", "i" * 129))
    assert add(batch, Message(b"", "m", application_properties={"d": cast(Any, Decimal("1.5"))}))
    assert add(batch, Message(b"", "n"))
    assert len(batch) == 2


def test_a_lone_surrogate_is_refused_as_by_the_sdk() -> None:
    for write in (by_the_sdk, lambda message: encoded(message, now=0)):
        with pytest.raises(UnicodeEncodeError):
            write(Message(b"", "m", subject="\ud800"))


def filled(held: list[Message], limit: int) -> tuple[int, Any]:
    batch = ServiceBusMessageBatch(limit)
    count = next((at for at, message in enumerate(held) if not add(batch, message)), len(held))
    return count, batch


@given(st.lists(messages().filter(lambda message: message.time_to_live is None), max_size=8), st.integers(100, 3_000))
def test_a_batch_holds_what_the_sdk_would_put_into_it(held: list[Message], limit: int) -> None:
    ours, batch = filled(held, limit)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(servicebus_batches, "supported", lambda: False)
        theirs, public = filled(held, limit)
    assert (ours, len(batch), batch.size_in_bytes) == (theirs, len(public), public.size_in_bytes)
    assert [bytes(each) for each in batch._message[5]] == [bytes(each) for each in public._message[5]]
    assert (batch._message[2], batch._message[3]) == (public._message[2], public._message[3])


@pytest.mark.parametrize("way", ["ours", "the SDK's"])
def test_a_batch_holds_no_more_messages_than_the_service_takes(monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    if way != "ours":
        monkeypatch.setattr(servicebus_batches, "supported", lambda: False)
    batch = ServiceBusMessageBatch(1 << 24)
    taken = [add(batch, Message(b"", "m")) for _ in range(4_502)]
    assert taken == [True] * 4_500 + [False] * 2
    assert len(batch) == 4_500


def test_the_sdk_is_the_one_whose_batches_are_filled_from_outside() -> None:
    assert supported()


@pytest.mark.parametrize("name", ["_put", "encoded"])
def test_an_sdk_that_makes_something_else_of_it_is_found_out(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    supported.cache_clear()
    try:
        with monkeypatch.context() as patch:
            patch.setattr(servicebus_batches, name, {"_put": lambda *_: True, "encoded": lambda *_, **__: b"?"}[name])
            assert not supported()
    finally:
        supported.cache_clear()


def test_a_wrong_order_of_the_fields_of_usual_messages_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Most messages have a session and a subject, no correlation id and no time to live; their fields are remembered."""
    right = encoding._unchanging

    def swapped(to: str | None, subject: str | None, *rest: str | None) -> bytes:
        return right(subject, to, *rest)

    supported.cache_clear()
    try:
        with monkeypatch.context() as patch:
            patch.setattr(encoding, "_unchanging", swapped)
            assert not supported()
    finally:
        supported.cache_clear()


def test_properties_that_are_remembered_wrongly_are_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    supported.cache_clear()
    try:
        with monkeypatch.context() as patch:
            patch.setattr(Written, "__call__", lambda self, held: b"")
            assert not supported()
    finally:
        supported.cache_clear()


def test_many_sessions_are_no_many_things_to_remember() -> None:
    """With ordering by key a table has 64 sessions, and a worker sends those of many tables."""
    before = encoding._unchanging.cache_info().misses
    for number in range(500):
        message = Message(b"", "m", session_id=f"session {number}", subject="Insert")
        assert encoded(message, now=0.0) == by_the_sdk(message)
    assert encoding._unchanging.cache_info().misses - before <= 1


def test_an_sdk_without_the_private_names_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    supported.cache_clear()
    try:
        with monkeypatch.context() as patch:
            patch.setattr(servicebus_batches, "ServiceBusMessageBatch", lambda: object())
            assert not supported()
    finally:
        supported.cache_clear()


def test_a_traced_message_carries_its_span(monkeypatch: pytest.MonkeyPatch) -> None:
    """What only the SDK adds: so it is the SDK that writes then."""
    monkeypatch.setattr(servicebus_batches, "_traced", lambda: True)
    monkeypatch.setattr(servicebus_batches, "encoded", None)
    batch = ServiceBusMessageBatch()
    assert add(batch, Message(b"", "m"))
    assert len(batch) == 1


@given(messages())
def test_the_emulator_reads_what_was_meant(message: Message) -> None:
    octets = encoded(message, now=0)
    assert octets is not None
    (inner,) = split_batch(b"\x00\x53\x75\xb0" + len(octets).to_bytes(4) + octets)
    taken = parse_message(inner)
    assert (taken.message_id, taken.session_id) == (message.message_id, message.session_id)
    at, found = 0, {}
    while at < len(octets):
        value, end = decode(octets, at)
        found[cast(Any, value).descriptor] = cast(Any, value).value
        at = end
    assert found[0x75] == message.body
    for name, value in message.application_properties.items():
        got, meant = found[0x74][name], value.decode() if isinstance(value, bytes) else value
        assert got == meant or (isinstance(meant, float) and math.isnan(meant) and math.isnan(got))
        assert isinstance(got, uuid.UUID) == isinstance(meant, uuid.UUID)


@pytest.mark.parametrize("size", [0, 100, 1_000, 100_000])
def test_a_message_is_not_much_heavier_than_its_octets_and_never_lighter(size: int) -> None:
    lsn, topic = "0" * 20, "sql01.shop.orders.events"
    properties: dict[str, PropertyValue] = {
        "destination": topic,
        "lsn": lsn,
        "seqval": lsn,
        "table": "Orders",
        "schema": "dbo",
        "flag": True,
        "n": 7,
    }
    message = Message(
        b"x" * size,
        f"{lsn}-{lsn}-2",
        topic,
        subject="Update",
        partition_key=topic,
        application_properties={**properties, "big": 1 << 40},
    )
    octets = encoded(message, now=0.0)
    assert octets is not None
    assert len(octets) <= weight(message) <= len(octets) + 100
