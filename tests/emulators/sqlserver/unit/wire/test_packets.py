"""Packets: whatever is cut comes together again, however it is chopped on the way; nonsense is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulators.sqlserver.wire.errors import ProtocolError
from emulators.sqlserver.wire.packets import (
    EOM,
    HEADER,
    MAX_PACKET_SIZE,
    MIN_PACKET_SIZE,
    MessageWriter,
    PacketType,
    Reassembler,
)


def packet(kind: int, body: bytes, status: int = EOM) -> bytes:
    return HEADER.pack(kind, status, len(body) + 8, 0, 1, 0) + body


def packets_of(data: bytes) -> list[tuple[int, int, bytes]]:
    """(status, packet id, body) of each packet."""
    found = []
    while data:
        _, status, length, _, number, _ = HEADER.unpack_from(data)
        found.append((status, number, data[8:length]))
        data = data[length:]
    return found


@given(
    chunks=st.lists(st.binary(max_size=2000), max_size=8),
    size=st.sampled_from([MIN_PACKET_SIZE, 4096, MAX_PACKET_SIZE]),
)
def test_a_message_is_cut_into_full_packets_and_a_last_one(chunks: list[bytes], size: int) -> None:
    writer = MessageWriter(size)
    for _ in range(2):
        sent = b"".join(writer.add(chunk) for chunk in chunks) + writer.finish()
        packets = packets_of(sent)
        assert b"".join(body for _, _, body in packets) == b"".join(chunks)
        assert [status for status, _, _ in packets] == [0] * (len(packets) - 1) + [EOM]
        assert all(len(body) == size - 8 for _, _, body in packets[:-1])
        assert [number for _, number, _ in packets] == [n & 255 for n in range(1, len(packets) + 1)]


@given(
    messages=st.lists(st.lists(st.binary(max_size=50), min_size=1, max_size=4), max_size=4),
    cuts=st.lists(st.integers(1, 30), min_size=1, max_size=10),
)
def test_messages_come_together_from_any_pieces(messages: list[list[bytes]], cuts: list[int]) -> None:
    stream = b"".join(
        packet(PacketType.RPC, body, EOM if place == len(bodies) - 1 else 0)
        for bodies in messages
        for place, body in enumerate(bodies)
    )
    reassembler = Reassembler(10_000)
    position = turn = 0
    while position < len(stream):
        step = cuts[turn % len(cuts)]
        reassembler.feed(stream[position : position + step])
        position, turn = position + step, turn + 1
    assert reassembler.waiting == len(messages)
    found = []
    while (message := reassembler.pop()) is not None:
        found.append(message.body)
    assert found == [b"".join(bodies) for bodies in messages]


@given(st.binary(max_size=100))
def test_random_bytes_are_messages_or_protocol_errors(data: bytes) -> None:
    reassembler = Reassembler(1000)
    try:
        reassembler.feed(data)
    except ProtocolError:
        return
    while (message := reassembler.pop()) is not None:
        assert message.type in PacketType


@pytest.mark.parametrize(
    "data",
    [
        packet(0x04, b""),
        packet(0x77, b""),
        HEADER.pack(1, 1, 7, 0, 1, 0),
        HEADER.pack(1, 1, 0xFFFF, 0, 1, 0),
        packet(1, b"a", 0) + packet(3, b"b"),
        packet(1, b"x" * 60, 0) + packet(1, b"x" * 60),
    ],
)
def test_a_packet_that_cannot_be_is_refused_before_its_body_is_awaited(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        Reassembler(100).feed(data)


def test_an_attention_behind_a_request_waits_its_turn() -> None:
    reassembler = Reassembler(100)
    reassembler.feed(packet(1, b"a") + packet(6, b""))
    assert not reassembler.take_attention()
    assert reassembler.pop() is not None
    assert reassembler.take_attention()
    assert reassembler.pop() is None
