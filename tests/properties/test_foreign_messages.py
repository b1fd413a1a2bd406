"""Random messages of senders that are not DStream, through a whole router: their values arrive with the types and octets that they had.

Raw AMQP on both sides: no client of Azure's writes, or tells apart, all of these types. The seed is printed; DSTREAM_SEED runs one again.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest
from azure.servicebus import ServiceBusClient
from azure.servicebus._pyamqp import receiver
from azure.servicebus._pyamqp.message import Message

from common.bus.ports import QueueNeed
from common.servicebus.namespace import ServiceBus
from common.servicebus.provision import provision
from emulators.servicebus.amqp.decode import decode
from emulators.servicebus.message import sections
from emulators.servicebus.server import ServiceBusEmulator
from tests.contracts.bus.conftest import emulator
from tests.contracts.bus.test_router import PERSONS, left, routed, routing, settings
from tests.worlds.foreign import NULL, data, listed, mapped, put_raw, section, symbol, text

__all__ = ["emulator"]  # the fixture

MESSAGES = 150
FIELDS = 13
_TIMES = (8, 9)
HEADER, ANNOTATIONS, PROPERTIES, APPLICATION, DATA = 0x70, 0x72, 0x73, 0x74, 0x75


def number(constructor: int, code: str, value: float) -> bytes:
    return bytes([constructor]) + struct.pack(f">{code}", value)


def binary(random: Random, most: int = 300) -> bytes:
    octets = random.randbytes(random.choice((0, 1, 20, 255, 256, most)))
    return (
        bytes([0xA0, len(octets)]) + octets if len(octets) < 256 else b"\xb0" + struct.pack(">I", len(octets)) + octets
    )


def words(random: Random, most: int = 20) -> str:
    return "".join(random.choice("aZ0-ä€\U0001f600 ") for _ in range(random.randrange(most)))


def simple(random: Random) -> bytes:
    """A value of any type that an application property may have, in any of its encodings (AMQP 1.0, part 1, 1.6)."""
    bits = random.getrandbits
    return random.choice(
        (
            lambda: NULL,
            lambda: random.choice((b"\x41", b"\x42", b"\x56\x00", b"\x56\x01")),
            lambda: number(0x50, "B", bits(8)),
            lambda: number(0x51, "b", bits(7)),
            lambda: number(0x60, "H", bits(16)),
            lambda: number(0x61, "h", -bits(15)),
            lambda: random.choice((b"\x43", number(0x52, "B", bits(8)), number(0x70, "I", bits(32)))),
            lambda: random.choice(
                (b"\x44", number(0x53, "B", bits(8)), number(0x80, "Q", bits(random.choice((8, 64)))))
            ),
            lambda: random.choice((number(0x54, "b", -bits(7)), number(0x71, "i", bits(31)))),
            lambda: random.choice((number(0x55, "b", -bits(7)), number(0x81, "q", bits(random.choice((8, 40, 63)))))),
            lambda: b"\x72" + random.randbytes(4),
            lambda: number(0x82, "d", random.uniform(-1e9, 1e9)),
            lambda: b"\x74" + random.randbytes(4),
            lambda: b"\x84" + random.randbytes(8),
            lambda: b"\x94" + random.randbytes(16),
            lambda: number(0x73, "I", random.choice((0x41, 0x20AC, 0x1F600))),
            lambda: number(0x83, "q", random.randrange(-(2**40), 2**42)),
            lambda: b"\x98" + random.randbytes(16),
            lambda: binary(random),
            lambda: text(words(random)),
            lambda: symbol("s" * random.randrange(60)),
            # as .NET writes a TimeSpan, a DateTimeOffset and a Uri
            lambda: b"\x00" + symbol("com.microsoft:timespan") + number(0x81, "q", bits(50)),
            lambda: b"\x00" + symbol("com.microsoft:datetime-offset") + number(0x81, "q", bits(60)),
            lambda: b"\x00" + symbol("com.microsoft:uri") + text("http://x/" + words(random)),
        )
    )()


@dataclass
class Foreign:
    """One message: its octets, and what of it has to arrive."""

    message_id: bytes
    ttl: bytes = NULL
    fields: dict[int, bytes] = field(default_factory=dict)
    values: dict[str, bytes] = field(default_factory=dict)
    body: bytes = b"{}"

    @classmethod
    def drawn(cls, random: Random, at: int) -> Foreign:
        ids = (text(f"m{at}"), b"\x98" + at.to_bytes(16), number(0x80, "Q", 1000 + at), b"\xa0\x04" + at.to_bytes(4))
        ttl = random.choice((NULL, NULL, number(0x70, "I", random.randrange(60_000, 2**32))))
        drawn: dict[int, Callable[[], bytes]] = {
            1: lambda: binary(random, 60),
            2: lambda: text(words(random)),
            3: lambda: text(words(random)),
            4: lambda: text(words(random)),
            5: lambda: random.choice((text(words(random)), *ids[1:])),
            6: lambda: symbol("application/json"),
            7: lambda: symbol("gzip"),
            11: lambda: number(0x70, "I", random.getrandbits(32)),
            12: lambda: text(words(random)),
        }
        fields = {place: draw() for place, draw in drawn.items() if random.random() < 0.5}
        values = {f"{words(random)}{number}": simple(random) for number in range(random.randrange(12))}
        return cls(random.choice(ids), ttl, fields, values, random.randbytes(random.choice((0, 3, 300, 70_000))))

    def octets(self) -> bytes:
        head = section(HEADER, listed(NULL, NULL, self.ttl)) if self.ttl != NULL else b""
        fields = {0: self.message_id, 10: text("lane"), **self.fields}
        values = {"destination": text(PERSONS), **self.values}
        return (
            head
            + section(PROPERTIES, listed(*(fields.get(place, NULL) for place in range(FIELDS))))
            + section(APPLICATION, mapped(*(each for name, value in values.items() for each in (text(name), value))))
            + data(self.body)
        )


def members(octets: bytes, code: int) -> list[bytes]:
    """The octets of each value of a section that is a list or a map."""
    for found, start, end in sections(octets):
        if found == code:
            at, values = start + (9 if octets[start] in (0xD0, 0xD1) else 3), []
            while at < end:
                _, behind = decode(octets, at)
                values.append(octets[at:behind])
                at = behind
            return values
    return []


def typed(octets: bytes) -> tuple[str, Any]:
    """Type and value: an int in one octet and in four are the same."""
    value, _ = decode(octets)
    return type(value).__name__, octets if value != value else value  # NaN is what it is by its octets


def body(octets: bytes) -> bytes:
    return b"".join(decode(octets, start)[0] for code, start, _ in sections(octets) if code == DATA)


def subscribed(emulator: ServiceBusEmulator, count: int) -> list[bytes]:
    """What a subscriber's link is sent, as it is."""
    found: list[bytes] = []
    real: Any = receiver.decode_payload  # type: ignore[attr-defined]

    def keep(octets: memoryview) -> Any:
        if b"status-code" in bytes(octets[:400]):  # the answer to the sign-in
            return real(octets)
        found.append(bytes(octets))
        return Message(data=[b""])

    with (
        pytest.MonkeyPatch.context() as patch,
        ServiceBusClient.from_connection_string(emulator.connection_string) as client,
        client.get_subscription_receiver(PERSONS, "sub1", receive_mode="receiveanddelete", prefetch_count=500) as link,
    ):
        patch.setattr(receiver, "decode_payload", keep)
        while len(found) < count and link.receive_messages(count, max_wait_time=5):
            continue
    return found


def test_they_arrive_as_they_were_sent(emulator: ServiceBusEmulator) -> None:
    seed = int(os.environ.get("DSTREAM_SEED") or Random().getrandbits(32))
    print(f"DSTREAM_SEED={seed}")
    random = Random(seed)
    sent = [Foreign.drawn(random, at) for at in range(MESSAGES)]
    bus = ServiceBus.from_connection_string(emulator.connection_string)
    endpoint = f"http://127.0.0.1:{emulator.http_port}"
    provision(bus.address, [QueueNeed("ingest-queue", sessions=True)], how="create", management_endpoint=endpoint)
    put_raw(emulator.connection_string, "ingest-queue", [each.octets() for each in sent])
    with routing(settings(emulator), until=routed(MESSAGES)) as tally:
        pass
    assert (tally.routed.total(), left(emulator)) == (MESSAGES, (0, 0))
    arrived = subscribed(emulator, MESSAGES)
    assert len(arrived) == MESSAGES
    for each, octets in zip(sent, arrived, strict=True):
        fields = members(octets, PROPERTIES)
        expected = {0: each.message_id, 10: text("lane"), **each.fields}
        for place in range(FIELDS):
            if place not in _TIMES:
                assert typed(fields[place]) == typed(expected.get(place, NULL)), (seed, place)
        pairs = members(octets, APPLICATION)
        values = dict(zip([decode(name)[0] for name in pairs[::2]], pairs[1::2], strict=True))
        meant = {"destination": text(PERSONS), **each.values}
        assert {name: typed(value) for name, value in values.items()} == {
            name: typed(value) for name, value in meant.items()
        }, seed
        assert typed((members(octets, HEADER) + [NULL] * 3)[2]) == typed(each.ttl), seed
        assert body(octets) == each.body, seed
