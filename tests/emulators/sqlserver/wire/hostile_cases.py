"""Conversations gone wrong, the same ones each time: what drivers say, recorded, then cut, bent, shuffled and overwritten."""

from __future__ import annotations

import random
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from tests.worlds.mutations import Bend, Mutation, cut, flip, leave_out, place, put_in, repeat, swap, take_out

_HEADER = 8
_EXTREMES = (0, 1, 7, 8, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFE, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)
_TYPES = (0x01, 0x03, 0x04, 0x06, 0x07, 0x0E, 0x10, 0x11, 0x12, 0x16, 0x17, 0x99)

Packets = Sequence[bytes]


def recorded(port: int, talk: Callable[[int], object]) -> list[bytes]:
    """The packets that a client sends to the server while `talk(port)` connects to a port that passes everything on."""
    said = bytearray()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=_pass_on, args=(listener, port, said))
        thread.start()
        talk(listener.getsockname()[1])
        thread.join(10)
    return list(_packets(bytes(said)))


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


def _packets(said: bytes) -> Iterator[bytes]:
    while len(said) >= _HEADER:
        size = struct.unpack_from(">H", said, 2)[0]
        yield said[:size]
        said = said[size:]


def case(number: int, conversations: Sequence[Packets]) -> bytes:
    """What the client of this case sends; the same for the same number and conversations."""
    source = random.Random(number)
    if source.random() < 0.05:
        return source.randbytes(source.randrange(1, 400))
    packets = list(source.choice(conversations))
    for _ in range(source.choice((1, 1, 1, 2, 3))):
        source.choice(_MUTATIONS)(source, packets)
    data = b"".join(packets)
    return data[: source.randrange(len(data) + 1)] if source.random() < 0.1 else data


def _change_body(source: random.Random, packets: list[bytes], change: Callable[[bytearray], None]) -> None:
    """Bend a packet's body and, mostly, keep its header true, so that it is read to the end."""
    at = place(source, packets)
    head, body = bytearray(packets[at][:_HEADER]), bytearray(packets[at][_HEADER:])
    change(body)
    if source.random() < 0.85:
        struct.pack_into(">H", head, 2, min(len(body) + _HEADER, 0xFFFF))
    packets[at] = bytes(head + body)


def _in_body(bend: Bend) -> Mutation:
    return lambda source, packets: _change_body(source, packets, partial(bend, source))


def _overwrite_a_number(source: random.Random, packets: list[bytes]) -> None:
    def change(body: bytearray) -> None:
        size = source.choice((1, 2, 4, 8))
        if len(body) >= size:
            at = source.randrange(len(body) - size + 1)
            value = source.choice(_EXTREMES) & ((1 << 8 * size) - 1)
            body[at : at + size] = value.to_bytes(size, source.choice(("little", "big")))

    _change_body(source, packets, change)


def _overwrite_header(source: random.Random, packets: list[bytes]) -> None:
    at = place(source, packets)
    packet = bytearray(packets[at])
    what = source.randrange(3)
    if what == 0:
        packet[0] = source.choice(_TYPES)
    elif what == 1:
        packet[1] = source.randrange(256)
    else:
        struct.pack_into(">H", packet, 2, source.choice((*_EXTREMES[:11], len(packet) - 1, len(packet) + 1)))
    packets[at] = bytes(packet)


_MUTATIONS: Sequence[Mutation] = (
    *(
        _in_body(flip),
        _in_body(flip),
        _in_body(cut),
        _in_body(take_out),
        _in_body(put_in),
        _overwrite_a_number,
        _overwrite_a_number,
    ),
    *(_overwrite_header, repeat, swap, leave_out),
)
