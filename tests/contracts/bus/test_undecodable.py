"""A message that cannot be decoded is set aside with its reason, wherever it stands; those around it arrive in order."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest

import common.servicebus.wire.arrivals
from common.bus.ports import QueueNeed
from common.servicebus.namespace import ServiceBus
from common.servicebus.provision import provision
from common.servicebus.wire.decoding import Arrived, decoded
from emulators.servicebus.server import ServiceBusEmulator
from tests.contracts.bus.test_router import PERSONS, left, read, routed, routing, settings
from tests.worlds.foreign import application_properties, data, mapped, properties, put_raw, section, text

SESSION = text("lane")


def good(number: int) -> bytes:
    return properties(text(f"good-{number}"), SESSION) + application_properties(destination=text(PERSONS)) + data(b"{}")


def too_many_fields(name: bytes) -> bytes:
    fields = name + b"\x40" * 9 + SESSION + b"\x40" * 9
    return section(0x73, b"\xd0" + struct.pack(">II", len(fields) + 4, 20) + fields)


BAD: dict[str, Callable[[bytes], bytes]] = {
    "a map of odd length": lambda name: (
        properties(name, SESSION) + section(0x74, mapped(text("name"), count=3)) + data(b"{}")
    ),
    "a name that is a number": lambda name: (
        properties(name, SESSION) + section(0x74, mapped(b"\x54\x01", b"\x54\x02")) + data(b"{}")
    ),
    "too many fields": lambda name: too_many_fields(name) + data(b"{}"),
    "a data section of text": lambda name: properties(name, SESSION) + section(0x75, text("{}")),
    "no body": lambda name: properties(name, SESSION),
    "an AMQP value": lambda name: properties(name, SESSION) + section(0x77, b"\x73\x00\x00\x00\x41"),
}


def queue(emulator: ServiceBusEmulator, messages: list[bytes], *, sessions: bool) -> None:
    bus = ServiceBus.from_connection_string(emulator.connection_string)
    endpoint = f"http://127.0.0.1:{emulator.http_port}"
    provision(bus.address, [QueueNeed("ingest-queue", sessions=sessions)], how="create", management_endpoint=endpoint)
    put_raw(emulator.connection_string, "ingest-queue", messages)


@pytest.mark.parametrize("sessions", [True, False], ids=["sessions", "no-sessions"])
def test_it_is_dead_lettered_and_holds_up_nobody(emulator: ServiceBusEmulator, sessions: bool) -> None:
    """Each kind once at the front of a session and once between two good messages."""
    between = [each for number, bad in enumerate(BAD.values(), 1) for each in (bad(text(f"{number}")), good(number))]
    messages = [*(bad(text(name)) for name, bad in BAD.items()), good(0), *between]
    queue(emulator, messages, sessions=sessions)
    with routing(settings(emulator, ordering="table" if sessions else "none"), until=routed(len(messages))) as tally:
        pass
    count = len(BAD)
    assert dict(tally.dead_lettered) == {"MalformedMessage": 2 * count}
    assert left(emulator) == (0, 2 * count)
    arrived = [str(each.message_id) for each in read(emulator, PERSONS, count + 1)]
    expected = [f"good-{number}" for number in range(count + 1)]
    assert (arrived if sessions else sorted(arrived)) == expected


ODD = {
    "char": b"\x73\x00\x00\x00\x41",
    "decimal32": b"\x74" + b"\x22" * 4,
    "decimal64": b"\x84" + b"\x22" * 8,
    "decimal128": b"\x94" + b"\x5f" * 16,
}


@pytest.mark.parametrize("name", ODD)
def test_a_value_that_the_sdk_cannot_decode_goes_its_way(emulator: ServiceBusEmulator, name: str) -> None:
    odd = application_properties(destination=text(PERSONS), odd=ODD[name])
    queue(emulator, [good(0), properties(text("odd"), SESSION) + odd + data(b"{}"), good(1)], sessions=True)
    with routing(settings(emulator), until=routed(3)) as tally:
        pass
    assert tally.routed.total() == 3
    assert left(emulator) == (0, 0)


def test_a_message_whose_reading_fails_holds_up_those_behind_it(
    emulator: ServiceBusEmulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The SDK catches what our reader raises, and would go on with the next message."""
    failed: list[bytes] = []

    def flaky(octets: bytes) -> Arrived:
        if b"good-3" in octets and not failed:
            failed.append(octets)
            raise MemoryError("once")
        return decoded(octets)

    monkeypatch.setattr(common.servicebus.wire.arrivals, "decoded", flaky)
    queue(emulator, [good(number) for number in range(8)], sessions=True)
    with routing(settings(emulator), until=routed(8)):
        pass
    assert failed
    assert left(emulator) == (0, 0)
    assert [each.message_id for each in read(emulator, PERSONS, 8)] == [f"good-{number}" for number in range(8)]


def test_an_oversize_key_with_half_a_surrogate_pair_is_dead_lettered(emulator: ServiceBusEmulator) -> None:
    """nvarchar may hold one, and JSON can say it; UTF-8, which AMQP writes, cannot."""
    body = rb'{"metadata":{"Oversize":{"Bytes":1,"Limit":1},"LSN":"0","SeqVal":"0"},"data":{"key":"\ud800"}}'
    told = application_properties(destination=text(PERSONS), oversize=b"\x41", table=text("persons"))
    queue(emulator, [properties(text("half"), SESSION) + told + data(body), good(0)], sessions=True)
    with routing(settings(emulator), until=routed(2)) as tally:
        pass
    assert dict(tally.dead_lettered) == {"Oversize": 1}
    assert left(emulator) == (0, 1)
