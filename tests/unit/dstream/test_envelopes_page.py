"""The page about envelopes shows what is sent, and its consumers read every golden message."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from common.bus.settings import EnvelopeName
from tests.unit.router.envelopes.golden import ENVELOPES, NATIVE, golden, native

PAGE = (Path(__file__).parents[3] / "docs" / "envelopes.md").read_text(encoding="utf-8")
ROWS = ("insert", "update", "update_with_before", "delete_in_another_schema", "read", "in_a_transaction")


def snippet(name: str) -> Any:
    """A function on the page."""
    [source] = [text for text in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if f"def {name}(" in text]
    found: dict[str, Any] = {}
    exec(compile("from __future__ import annotations\n" + source, "docs/envelopes.md", "exec"), found)
    return found[name]


def test_the_examples_are_golden_messages() -> None:
    bodies = [path.read_bytes().split(b"\n", 1)[0] for path in ENVELOPES.rglob("*.txt")]
    known = [json.loads(body) for body in bodies if body]
    examples = [json.loads(text) for text in re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)]
    assert len(examples) == 5
    assert all(example in known for example in examples)


def test_every_envelope_and_attribute_is_in_a_table() -> None:
    rows = [line.split("|")[1] for line in PAGE.splitlines() if line.startswith("|")]
    names = EnvelopeName.__args__  # type: ignore[attr-defined]
    [event] = [json.loads(message.body) for message in golden("cloudevents", "insert")]
    [change] = [json.loads(message.body) for message in golden("changes", "insert")]
    for name in (*names, *event, *change["changes"][0], "dataschema", "server_name", "metadata"):
        assert any(f"`{name}`" in row for row in rows), name


@pytest.mark.parametrize("form", ["cloudevents", "cloudevents_binary"])
@pytest.mark.parametrize("name", NATIVE)
def test_the_cloudevents_sdk_reads_both_modes(form: str, name: str) -> None:
    """The properties' names and texts are octets, as azure-servicebus has them."""
    [message] = golden(form, name)
    whole = json.loads(native(name).body)
    held = {key.encode(): str(value).encode() for key, value in message.application_properties.items()}
    received = SimpleNamespace(
        body=[message.body[:10], message.body[10:]], content_type=message.content_type, application_properties=held
    )
    event = snippet("event_of")(received)
    metadata = whole["metadata"]
    time = metadata["CommitTime"]
    assert event.get_id() == message.message_id == metadata["EventID"]
    assert event.get_source() == "/server/database"
    kind = f"dstream.{metadata['Schema']}.{metadata['TableName']}.{metadata['OperationType']}"
    assert event.get_type() == kind
    if time is not None:  # the SDK makes one up
        assert event.get_time() == datetime(2026, 11, 21, 10, 23, 45, 457_000, UTC)
    assert event.get_datacontenttype() == "application/json"
    assert event.get_data() == whole
    extensions = {key for key in event.get_attributes() if key in ("sequence", "partitionkey")}
    assert extensions == ({"sequence", "partitionkey"} if metadata["OperationID"] > 0 else {"partitionkey"})


@pytest.mark.parametrize("times", [1, 2])
def test_the_consumer_of_debezium_keeps_a_copy_though_changes_come_twice(times: int) -> None:
    apply, rows = snippet("apply"), dict[tuple[object, ...], dict[str, object]]()
    events = [json.loads(message.body) for name in NATIVE for message in golden("debezium", name) if message.body]
    key = {"Persons": ["ID"], "Orders": ["Order Id"], "transactions": []}
    for event in [event for event in events for _ in range(times)]:
        apply(rows, key[event.get("source", {"table": "transactions"})["table"]], event)
    assert rows == {(180,): {"FirstName": "Diana", "ID": 180, "LastName": "Prince", "Biography": "a long text"}}


def test_the_consumer_of_changes_sees_rows_alone() -> None:
    rows_of = snippet("rows_of")
    for name in NATIVE:
        [message] = golden("changes", name)
        found = rows_of(json.loads(message.body))
        whole = json.loads(native(name).body)
        row = (whole["metadata"]["OperationType"].lower(), whole["data"])
        assert found == ([row] if name in ROWS else [])
