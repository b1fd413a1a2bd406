"""The script of docs/fail.md sends dead letters again: what arrives is the change, and dead letters with other reasons stay."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from azure.servicebus import ServiceBusClient, ServiceBusReceivedMessage

from common.message import Message
from emulators.servicebus.server import ServiceBusEmulator
from tests.contracts.bus.test_router import PERSONS, change, left, put, read, routed, routing, settings

PAGE = (Path(__file__).parents[3] / "docs" / "fail.md").read_text(encoding="utf-8")


def script() -> Any:
    [source] = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    found: dict[str, Any] = {}
    exec(compile(source, "docs/fail.md", "exec"), found)
    return found["send_again"]


def aside(number: int) -> Message:
    """A change on which the filter failed, with properties of every type."""
    whole = replace(change(PERSONS, number, PERSONS), subject="Insert")
    told = {**whole.application_properties, "operation": "Insert", "n": 3, "flag": False, "x": 1.5}
    return replace(whole, application_properties={**told, "set_aside": "the filter fails: division by zero"})


def text(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value


def content(found: ServiceBusReceivedMessage) -> dict[str, Any]:
    properties = {text(name): text(value) for name, value in (found.application_properties or {}).items()}
    return {
        "body": b"".join(found.body),
        "session": found.session_id,
        "subject": found.subject,
        "type": found.content_type,
        "properties": properties,
    }


def test_dead_letters_of_one_reason_are_sent_again_whole(emulator: ServiceBusEmulator) -> None:
    malformed = Message(b"not JSON", "malformed", PERSONS)
    messages = [aside(1), malformed, aside(2)]
    put(emulator, messages)
    with routing(settings(emulator), until=routed(3)):
        pass
    assert left(emulator) == (0, 3)

    with ServiceBusClient.from_connection_string(emulator.connection_string) as client:
        assert script()(client, "ingest-queue", "FilterFailed", wait=2) == 2
        put(emulator, [replace(malformed, message_id="malformed too")])
        with routing(settings(emulator), until=routed(4)) as tally:
            again = script()(client, "ingest-queue", "MalformedMessage", wait=15)
    assert again == 1, "a copy that comes back is not sent round and round"
    assert (tally.routed.total(), tally.dead_lettered.total()) == (2, 2)
    assert left(emulator) == (0, 2)

    arrived = read(emulator, PERSONS, 2)
    for found, sent in zip(arrived, (messages[0], messages[2]), strict=True):
        assert found.message_id != sent.message_id
        told = {name: value for name, value in sent.application_properties.items() if name != "set_aside"}
        assert content(found) == {
            "body": sent.body,
            "session": PERSONS,
            "subject": "Insert",
            "type": "application/json",
            "properties": told,
        }
