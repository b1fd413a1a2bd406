"""Messages: the broker reads what it needs and leaves the rest alone, octet by octet."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulators.servicebus.amqp.decode import decode
from emulators.servicebus.amqp.encode import encode
from emulators.servicebus.amqp.values import DecodeError, Described, Symbol, Timestamp, UByte, UInt, ULong
from emulators.servicebus.message import UNLOCKED, parse_message, render, sections, split_batch

BODY = b"\x00\x53\x75\xa0\x04body"


def section(code: int, value: Any) -> bytes:
    return encode(Described(ULong(code), value))


def section_values(encoded: bytes) -> dict[int, Any]:
    return {code: decode(encoded, start)[0] for code, start, _ in sections(encoded)}


def test_what_the_broker_acts_on_is_read() -> None:
    properties = ["id", None, "to", None, None, None, None, None, None, None, "session", None]
    annotations = {Symbol("x-opt-scheduled-enqueue-time"): Timestamp(5), Symbol("x-opt-partition-key"): "p"}
    message = parse_message(
        section(0x70, [True, UByte(4), UInt(60_000)]) + section(0x72, annotations) + section(0x73, properties) + BODY
    )
    assert (message.message_id, message.session_id, message.ttl, message.scheduled_at) == ("id", "session", 60_000, 5)
    assert message.tail == section(0x73, properties) + BODY


def test_a_long_form_descriptor_is_read_too() -> None:
    message = parse_message(b"\x00\x80\x00\x00\x00\x00\x00\x00\x00\x73" + encode(["id"]) + BODY)
    assert message.message_id == "id"


def test_annotations_of_the_broker_are_not_the_senders_to_write() -> None:
    forged = {Symbol("x-opt-sequence-number"): 99, Symbol("x-opt-locked-until"): Timestamp(1), Symbol("mine"): UByte(1)}
    message = parse_message(section(0x72, forged) + BODY)
    message.sequence = 7
    annotations = section_values(render(message))[0x72]
    assert annotations["x-opt-sequence-number"] == 7
    assert "x-opt-locked-until" not in annotations
    assert type(annotations["mine"]) is UByte


def test_the_rendered_header_counts_deliveries() -> None:
    message = parse_message(section(0x70, [True, UByte(9)]) + BODY)
    message.delivery_count = 3
    values = section_values(render(message, locked_until=1234))
    assert values[0x70] == [True, 9, None, None, 3]
    assert values[0x72]["x-opt-locked-until"] == 1234


@pytest.mark.parametrize(("token", "section"), [(UNLOCKED, {}), (None, None)])
def test_a_delivery_that_locks_nothing_says_so_in_an_empty_section(token: bytes | None, section: Any) -> None:
    """azure-servicebus, test_message_backcompat_receive_and_delete_databody; a message that is only looked at has none."""
    assert section_values(render(parse_message(BODY), token=token)).get(0x71) == section


def test_a_batch_is_the_messages_in_its_data_sections() -> None:
    inner = [section(0x73, [str(n)]) + BODY for n in range(3)]
    batch = section(0x73, ["0"]) + b"".join(section(0x75, message) for message in inner)
    assert split_batch(batch) == inner


class Counted(bytes):
    """Octets that count how many of them are copied out."""

    copied = 0

    def __getitem__(self, key: Any) -> Any:
        found = super().__getitem__(key)
        if isinstance(key, slice):
            Counted.copied += len(found)
        return found


def test_taking_a_batch_apart_copies_every_octet_once() -> None:
    """And not all that comes before a message, for each."""
    Counted.copied = 0
    batch = Counted(section(0x75, b"x" * 500) * 200)
    assert len(split_batch(batch)) == 200
    assert Counted.copied < 2 * len(batch)


@pytest.mark.parametrize(
    "octets", [b"", b"\x00", b"\x00\x53", b"\x00\x53\x10\x45", b"junk", b"\x00\x53\x75\xa0\xff", b"\x00\xa1\x01x\x45"]
)
def test_octets_that_are_no_message_are_refused(octets: bytes) -> None:
    with pytest.raises(DecodeError):
        parse_message(octets)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=40))
def test_any_octets_are_a_message_or_a_decode_error(octets: bytes) -> None:
    for reading in (parse_message, split_batch):
        with contextlib.suppress(DecodeError):
            reading(b"\x00\x53\x72" + octets)
