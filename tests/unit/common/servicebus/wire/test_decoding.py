"""Octets are read as the message that they are; of octets that are none, every one is told as a fault and none is an exception."""

from __future__ import annotations

import struct
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import common.servicebus.wire.decoding
from common.azure_amqp.encoding import encoded
from common.message import Message, Opaque
from common.servicebus.wire.decoding import decoded
from tests.unit.common.azure_amqp.test_encoding import messages

WHOLE = Message(
    b"{}",
    "m",
    session_id="s",
    subject="subject",
    partition_key="s",
    correlation_id="c",
    reply_to="r",
    reply_to_session_id="q",
    to="t",
    time_to_live=timedelta(milliseconds=90_500),
    application_properties={
        "text": "ä",
        "number": 1_000,
        "real": 0.5,
        "flag": True,
        "stamp": Opaque(b"\x83" + bytes(8)),
    },
    foreign={"user_id": Opaque(b"\xa0\x01u"), "group_sequence": Opaque(b"\x43")},
)


def octets(message: Message) -> bytes:
    written = encoded(message, now=1_700_000_000)
    assert written is not None
    return written


def test_what_was_written_is_read() -> None:
    found = decoded(octets(WHOLE))
    assert (found.message, found.fault) == (WHOLE, None)


@settings(max_examples=150)
@given(messages())
def test_what_was_read_is_written_again_with_the_same_octets(message: Message) -> None:
    written = octets(replace(message, time_to_live=None))
    found = decoded(written)
    assert found.fault is None
    assert octets(found.message) == written


@pytest.mark.parametrize(
    "life", [timedelta(milliseconds=1), timedelta(days=49), timedelta(days=50), timedelta(days=900)]
)
def test_a_time_to_live_is_read_as_long_as_it_is(life: timedelta) -> None:
    assert decoded(octets(replace(WHOLE, time_to_live=life))).message.time_to_live == life


def test_ids_of_other_types_are_kept_and_can_be_read() -> None:
    number, uuid, raw = b"\x53\x07", b"\x98" + b"\x11" * 16, b"\xa0\x02\xff\x00"
    told = {number: "7", uuid: "11111111-1111-1111-1111-111111111111", raw: "\ufffd\x00"}
    for written, text in told.items():
        found = decoded(octets(replace(WHOLE, foreign={"message_id": Opaque(written)}))).message
        assert (found.message_id, found.foreign) == (text, {"message_id": Opaque(written)})


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (b"", "no body"),
        (b"\x00", "cut short"),
        (b"\x00\x53", "cut short"),
        (b"\x00\x53\x75", "cut short"),
        (b"\x00\x53\x75\xa0\x05abc", "cut short"),
        (b"\x00\x53\x75\x30", "begins no value"),
        (b"\x53\x75\xa0\x00", "no section begins at octet 0"),
        (b"\x00\x53\x79\xa0\x00", "no message has"),
        (b"\x00\xa3\x02ab\xa0\x00", "no message has"),
        (b"\x00\x53\x74\xc1\x02\x01\x40", "a name without a value"),
        (b"\x00\x53\x74\xc0\x01\x00", "no map"),
        (b"\x00\x53\x74\xd1\xff\xff\xff\xff\xff\xff\xff\xfe", "cut short"),
        (b"\x00\x53\x74\xd1\x00\x00\x00\x04\xff\xff\xff\xfe", "another length|cut short"),
        (b"\x00\x53\x74\xc1\x04\x02\xa1\x01\xff\x40", "another length|UTF-8"),
        (b"\x00" * 100_000, "begins no value"),
    ],
)
def test_what_is_no_message_is_a_fault_that_says_why(wrong: bytes, words: str) -> None:
    found = decoded(wrong)
    assert found.fault is not None
    assert any(each in found.fault for each in words.split("|")), found.fault


@settings(max_examples=150)
@given(st.data())
def test_no_octets_are_an_exception(data: Any) -> None:
    """Whole messages with octets cut off, overwritten and put in."""
    whole = bytearray(octets(WHOLE))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, max(len(whole) - 1, 0)))
        whole[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    found = decoded(bytes(whole[: data.draw(st.integers(0, len(whole)))]))
    encoded(found.message, now=0)


NUMBERS = st.integers(-(2**63), 2**64 - 1) | st.sampled_from([-(2**63), -1, 0, 2**32 - 1, 2**63 - 1, 2**64 - 1])


def number(value: int) -> bytes:
    """As a long, or as a ulong where it is too large for one."""
    return struct.pack(">Bq", 0x81, value) if value < 2**63 else struct.pack(">BQ", 0x80, value)


def living(life: bytes, expiry: bytes, created: bytes) -> bytes:
    """A message with these values as its time to live, its expiry and the time it was made."""
    header = b"".join((b"\x40\x40", life))
    properties = b"".join((b"\x40" * 8, expiry, created))
    return (
        b"\x00\x53\x70\xc0" + bytes([len(header) + 1, 3]) + header
        + b"\x00\x53\x73\xc0" + bytes([len(properties) + 1, 10]) + properties
        + b"\x00\x53\x75\xa0\x02{}"
    )  # fmt: skip


@settings(max_examples=150)
@given(life=NUMBERS, expiry=NUMBERS, created=NUMBERS)
def test_whatever_times_a_sender_writes_the_message_goes_on(life: int, expiry: int, created: int) -> None:
    for first in (number(life), b"\x70\xff\xff\xff\xff"):
        found = decoded(living(first, number(expiry), number(created)))
        assert (found.fault, found.message.body) == (None, b"{}")
        assert found.message.time_to_live is None or found.message.time_to_live > timedelta()
        assert encoded(replace(found.message, message_id="m"), now=1_700_000_000) is not None


@settings(max_examples=150)
@given(st.binary(max_size=200), st.sampled_from([b"", *(bytes([0, 0x53, code]) for code in range(0x70, 0x79))]))
def test_random_octets_are_no_exception(random: bytes, section: bytes) -> None:
    encoded(decoded(section + random).message, now=0)


def test_an_error_that_nobody_thought_of_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> None:
        raise ArithmeticError("surprise")

    monkeypatch.setitem(common.servicebus.wire.decoding._READERS, 0x70, fails)
    assert "ArithmeticError: surprise" in str(decoded(octets(WHOLE)).fault)
