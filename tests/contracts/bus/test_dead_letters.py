"""Dead letters that are sent again while a router runs: what arrives is the change, and dead letters with other reasons stay."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from azure.servicebus import ServiceBusReceivedMessage

from common.buses import shelves_of
from common.message import Message
from desk.audit import AuditFile
from desk.dead_letters.engine import Engine, Watch
from desk.dead_letters.taking import Pace
from desk.desk import Actor
from desk.documents.messages import DeadLetterOrder, MessageFilter
from emulators.servicebus.server import ServiceBusEmulator
from tests.contracts.bus.test_router import PERSONS, change, left, put, read, routed, routing, settings


def replayed(emulator: ServiceBusEmulator, folder: Path, reason: str, *, unreadable: bool = False) -> int:
    """How many `dstream dlq replay queue --reason` sends."""
    chosen = settings(emulator)
    audit = AuditFile(folder / "audit.jsonl")
    pace = Pace(wait=1, longest_lock=70)
    engine = Engine(lambda: chosen, shelves_of, lambda: None, folder / "replays", audit, pace)
    order = DeadLetterOrder(
        entity="queue", filter=MessageFilter(reason=reason), dry_run=False, safe=False, unreadable=unreadable
    )
    return engine.run(order, "replay", Actor("ada", "command", "1"), Watch()).replayed


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


def test_dead_letters_of_one_reason_are_sent_again_whole(emulator: ServiceBusEmulator, tmp_path: Path) -> None:
    malformed = Message(b"not JSON", "malformed", PERSONS)
    messages = [aside(1), malformed, aside(2)]
    put(emulator, messages)
    with routing(settings(emulator), until=routed(3)):
        pass
    assert left(emulator) == (0, 3)

    assert replayed(emulator, tmp_path, "FilterFailed") == 2
    assert replayed(emulator, tmp_path, "MalformedMessage") == 0, "it would only come back"
    put(emulator, [replace(malformed, message_id="malformed too")])
    with routing(settings(emulator), until=routed(4)) as tally:
        again = replayed(emulator, tmp_path, "MalformedMessage", unreadable=True)
    assert again == 1, "a copy that comes back is not sent round and round"
    assert (tally.routed.total(), tally.dead_lettered.total()) == (2, 2)
    assert left(emulator) == (0, 2)

    arrived = read(emulator, PERSONS, 2)
    for found, sent in zip(arrived, (messages[0], messages[2]), strict=True):
        assert found.message_id != sent.message_id
        told: dict[str, Any] = {
            name: value for name, value in sent.application_properties.items() if name != "set_aside"
        }
        told |= {"dstream_replays": 1, "dstream_replay_of": sent.message_id}
        assert content(found) == {
            "body": sent.body,
            "session": PERSONS,
            "subject": "Insert",
            "type": "application/json",
            "properties": told,
        }
