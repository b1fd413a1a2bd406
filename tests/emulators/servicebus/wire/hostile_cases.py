"""Conversations gone wrong, the same ones each time: what clients say, recorded, then cut, bent, shuffled and overwritten.

A conversation is a list of pieces: protocol headers and frames. What an AMQP client never says by itself is said here by hand.
"""

from __future__ import annotations

import random
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from emulators.servicebus.amqp import performatives as p
from emulators.servicebus.amqp.encode import encode
from emulators.servicebus.amqp.frames import AMQP_HEADER, HEARTBEAT, SASL_FRAME, SASL_HEADER, frame
from emulators.servicebus.amqp.values import Described, Symbol, UByte, UInt, ULong, UShort
from emulators.servicebus.message import BATCH_FORMAT
from tests.worlds.mutations import Bend, Mutation, cut, flip, leave_out, place, put_in, repeat, swap, take_out

Pieces = Sequence[bytes]

_FRAME_HEAD = 8
_EXTREMES = (0, 1, 2, 7, 8, 0x7F, 0x80, 0xFE, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFE, 0xFFFFFFFF)
_CONSTRUCTORS = (
    *(0x00, 0x40, 0x41, 0x42, 0x43, 0x44, 0x45, 0x50, 0x52, 0x53, 0x54, 0x55, 0x56, 0x60, 0x70, 0x71, 0x73, 0x74, 0x80),
    *(0x81, 0x82, 0x83, 0x98, 0xA0, 0xA1, 0xA3, 0xB0, 0xB1, 0xB3, 0xC0, 0xC1, 0xD0, 0xD1, 0xE0, 0xF0, 0x94, 0xFF),
)
_CODES = (*range(0x10, 0x19), *range(0x23, 0x2A), 0x30, 0x34, *range(0x40, 0x45), *range(0x70, 0x79))


def recorded(port: int, talk: Callable[[int], object], connections: int) -> list[list[bytes]]:
    """What a client says on each of its connections, in pieces, while `talk(port)` uses a port that passes everything on."""
    said = [bytearray() for _ in range(connections)]
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threads = [threading.Thread(target=_pass_on, args=(listener, port, kept)) for kept in said]
        for thread in threads:
            thread.start()
        talk(listener.getsockname()[1])
        for thread in threads:
            thread.join(10)
    return [list(_pieces(bytes(kept))) for kept in said]


def _pass_on(listener: socket.socket, port: int, said: bytearray) -> None:
    with listener.accept()[0] as client, socket.create_connection(("127.0.0.1", port)) as server:
        back = threading.Thread(target=_copy, args=(server, client, bytearray()))
        back.start()
        _copy(client, server, said)
        back.join(10)


def _copy(source: socket.socket, target: socket.socket, kept: bytearray) -> None:
    try:
        while data := source.recv(65536):
            kept += data
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:  # the other direction ended it
        return


def _pieces(said: bytes) -> Iterator[bytes]:
    while len(said) >= _FRAME_HEAD:
        size = _FRAME_HEAD if said.startswith(b"AMQP") else max(struct.unpack_from(">I", said)[0], _FRAME_HEAD)
        yield said[:size]
        said = said[size:]


def request(operation: str, body: Any, message_id: Any = "id") -> bytes:
    """A message to `$management`."""
    return b"".join(
        encode(Described(ULong(code), value))
        for code, value in (
            (0x73, [message_id]),
            (0x74, {"operation": f"com.microsoft:{operation}", "com.microsoft:server-timeout": UInt(60_000)}),
            (0x77, body),
        )
    )


def opening(key: bytes) -> list[bytes]:
    """SASL and open, all at once."""
    return [
        SASL_HEADER,
        frame(0, p.perform(p.SASL_INIT, Symbol("PLAIN"), b"\0RootManageSharedAccessKey\0" + key), SASL_FRAME),
        AMQP_HEADER,
        frame(0, p.perform(p.OPEN, "by hand", "localhost", UInt(65536), UShort(100), UInt(100_000))),
    ]


def receiving(key: bytes, address: str, credit: int) -> list[bytes]:
    """A receiver that asks for so many messages and settles none."""
    source = Described(ULong(p.SOURCE), [address])
    windows = [UInt(1), UInt(100_000), UInt(0), UInt(100_000)]
    return [
        *opening(key),
        frame(0, p.perform(p.BEGIN, None, UInt(0), UInt(100_000), UInt(100_000))),
        frame(0, p.perform(p.ATTACH, "receiver", UInt(0), True, UByte(0), UByte(0), source)),
        frame(0, p.perform(p.FLOW, *windows, UInt(0), UInt(0), UInt(credit))),
    ]


def by_hand(key: bytes) -> list[bytes]:
    """Everything a connection can be used for, in one: batches, drains, ranges, two sessions, every kind of request."""
    said = opening(key)

    def say(channel: int, code: int, *fields: Any, payload: bytes = b"") -> None:
        said.append(frame(channel, p.perform(code, *fields) + payload))

    def attach(channel: int, handle: int, address: str, receive: bool, **source: Any) -> None:
        terms = [Described(ULong(p.SOURCE), [address, *[None] * 6, source.get("filters")])]
        terms.append(Described(ULong(p.TARGET), [address]))
        count = None if receive else UInt(0)
        fields = [f"{channel}-{handle}", UInt(handle), receive, UByte(0), UByte(0), *terms, None, None, count]
        say(channel, p.ATTACH, *fields)

    for channel in (0, 1):
        say(channel, p.BEGIN, None, UInt(0), UInt(2048), UInt(2048))
    attach(0, 0, "q", receive=False)
    attach(0, 1, "q", receive=True)
    attach(0, 2, "q/$management", receive=False)
    attach(0, 3, "q/$management", receive=True)
    attach(1, 0, "sessions", receive=False)
    attach(1, 1, "sessions", receive=True, filters={Symbol("com.microsoft:session-filter"): None})
    windows = [UInt(1), UInt(2048), UInt(0), UInt(2048)]
    for channel, handle in ((0, 1), (0, 3), (1, 1)):
        say(channel, p.FLOW, *windows, UInt(handle), UInt(0), UInt(100))
    inner = [encode(Described(ULong(0x75), b"body" * n)) for n in range(1, 4)]
    batch = b"".join(encode(Described(ULong(0x75), message)) for message in inner)
    say(0, p.TRANSFER, UInt(0), UInt(0), b"a", UInt(BATCH_FORMAT), False, False, payload=batch)
    say(0, p.TRANSFER, UInt(0), UInt(1), b"b", UInt(0), False, True, payload=inner[0][:3])
    say(0, p.TRANSFER, UInt(0), None, None, None, False, False, payload=inner[0][3:])
    say(0, p.TRANSFER, UInt(0), UInt(2), b"c", UInt(0), False, True, payload=b"half")
    say(0, p.TRANSFER, UInt(0), None, None, None, False, False, None, None, False, True)
    in_session = encode(Described(ULong(0x73), ["m", *[None] * 9, "S"])) + inner[0]
    say(1, p.TRANSFER, UInt(0), UInt(0), b"s", UInt(0), True, payload=in_session)
    for number, (operation, body) in enumerate(_REQUESTS, 3):
        payload = request(operation, body, ULong(number))
        say(0, p.TRANSFER, UInt(2), UInt(number), bytes((number,)), UInt(0), True, payload=payload)
    outcomes = (
        Described(ULong(p.MODIFIED), [True, False]),
        Described(ULong(p.REJECTED), [Described(ULong(p.ERROR), [Symbol("com.microsoft:dead-letter"), "why", None])]),
        Described(ULong(p.RELEASED), []),
        Described(ULong(p.ACCEPTED), []),
    )
    for number, outcome in enumerate(outcomes, 1):
        say(0, p.DISPOSITION, True, UInt(number), UInt(number + 1), False, outcome)
    say(0, p.FLOW, *windows, UInt(1), UInt(10), UInt(100), None, True, True)
    said.append(HEARTBEAT)
    say(0, p.DETACH, UInt(1), False)
    say(0, p.DETACH, UInt(0), True)
    say(1, p.END)
    say(0, p.CLOSE)
    return said


_REQUESTS: Sequence[tuple[str, Any]] = (
    ("peek-message", {"from-sequence-number": 0, "message-count": 10}),
    ("renew-lock", {"lock-tokens": []}),
    ("receive-by-sequence-number", {"sequence-numbers": [1, 2], "receiver-settle-mode": UInt(1)}),
    ("update-disposition", {"disposition-status": "completed", "lock-tokens": []}),
    ("schedule-message", {"messages": [{"message-id": "x", "message": encode(Described(ULong(0x75), b"later"))}]}),
    ("cancel-scheduled-message", {"sequence-numbers": [1]}),
    ("get-message-sessions", {"last-updated-time": 0, "skip": 0, "top": 10}),
    ("get-session-state", {"session-id": "S"}),
    ("set-session-state", {"session-id": "S", "session-state": b"state"}),
    ("renew-session-lock", {"session-id": "S"}),
    ("enumerate-rules", {"skip": 0, "top": 10}),
    ("add-rule", {"rule-name": "r", "rule-description": {"sql-filter": {"expression": "1 = 1"}}}),
    ("remove-rule", {"rule-name": "r"}),
)


def case(number: int, conversations: Sequence[Pieces]) -> bytes:
    """What the client of this case sends; the same for the same number and conversations."""
    source = random.Random(number)
    if source.random() < 0.03:
        return source.randbytes(source.randrange(1, 400))
    pieces = list(source.choice(conversations))
    for _ in range(source.choice((1, 1, 1, 2, 3, 5))):
        source.choice(_MUTATIONS)(source, pieces)
    data = b"".join(pieces)
    return data[: source.randrange(len(data) + 1)] if source.random() < 0.1 else data


def _change_body(source: random.Random, pieces: list[bytes], change: Callable[[bytearray], None]) -> None:
    """Bend a frame's body and, mostly, keep its size true, so that it is read to the end."""
    at = place(source, pieces)
    head, body = bytearray(pieces[at][:_FRAME_HEAD]), bytearray(pieces[at][_FRAME_HEAD:])
    change(body)
    if source.random() < 0.9 and not head.startswith(b"AMQP"):
        struct.pack_into(">I", head, 0, len(body) + _FRAME_HEAD)
    pieces[at] = bytes(head + body)


def _in_body(bend: Bend) -> Mutation:
    return lambda source, pieces: _change_body(source, pieces, partial(bend, source))


def _change_a_type(source: random.Random, pieces: list[bytes]) -> None:
    def change(body: bytearray) -> None:
        if body:
            body[source.randrange(len(body))] = source.choice(_CONSTRUCTORS)

    _change_body(source, pieces, change)


def _change_the_code(source: random.Random, pieces: list[bytes]) -> None:
    def change(body: bytearray) -> None:
        if len(body) > 2:
            body[2] = source.choice(_CODES)

    _change_body(source, pieces, change)


def _overwrite_a_number(source: random.Random, pieces: list[bytes]) -> None:
    def change(body: bytearray) -> None:
        size = source.choice((1, 2, 4, 8))
        if len(body) >= size:
            at = source.randrange(len(body) - size + 1)
            body[at : at + size] = (source.choice(_EXTREMES) & ((1 << 8 * size) - 1)).to_bytes(size, "big")

    _change_body(source, pieces, change)


def _overwrite_head(source: random.Random, pieces: list[bytes]) -> None:
    at = place(source, pieces)
    piece = bytearray(pieces[at])
    what = source.randrange(4)
    if what == 0:
        struct.pack_into(">I", piece, 0, source.choice((*_EXTREMES, len(piece) - 1, len(piece) + 1)))
    elif what == 1:
        piece[4] = source.choice((0, 1, 2, 3, 255))
    elif what == 2:
        piece[5] = source.choice((0, 1, 2, 255))
    else:
        struct.pack_into(">H", piece, 6, source.choice((0, 1, 2, 255, 4999, 5000, 0xFFFF)))
    pieces[at] = bytes(piece)


def _repeat_often(source: random.Random, pieces: list[bytes]) -> None:
    at = place(source, pieces)
    pieces[at:at] = [pieces[at]] * source.randrange(2, 60)


_MUTATIONS: Sequence[Mutation] = (
    *(
        _in_body(flip),
        _in_body(flip),
        _change_a_type,
        _change_a_type,
        _change_the_code,
        _in_body(cut),
        _in_body(take_out),
        _in_body(put_in),
    ),
    *(_overwrite_a_number, _overwrite_a_number, _overwrite_head, repeat, _repeat_often, swap, leave_out),
)
