"""The schemas hold for every golden message in its envelope, and refuse what is wrong."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator, Draft202012Validator

from common.message import Metadata
from common.names import TableName
from dstream.commands.schema import Envelope
from dstream.schemas.envelopes import ENVELOPES, Described, body, document
from dstream.schemas.native import metadata
from ingester.sqlserver.schema.json_types import json_schema
from tests.unit.ingester.task.test_encode import ORIGIN, change

GOLDEN = Path(__file__).parents[3] / "golden"
COLUMNS = {
    "dbo.Persons": {"ID": "int", "FirstName": "nvarchar(50)", "LastName": "nvarchar(50)", "Biography": "nvarchar(max)"},
    "sales.Orders": {"Order Id": "int", "Total": "decimal(9,4)", "Note": "nvarchar(200)", "Scan": "image"},
    "cdc.transactions": {},
}
KEYS = {"dbo.Persons": ("ID",), "sales.Orders": ("Order Id",)}
UNSENT = ("stand_in", "filter_failed", "tombstone")
"""What never reaches a topic, and what has no body."""


def described(table: TableName, version: str) -> Described:
    values = {name: json_schema(type_, decimals_as_numbers=False) for name, type_ in COLUMNS[table.key].items()}
    return Described(ORIGIN, table, version, values, KEYS.get(table.key, ()))


def golden() -> Iterator[tuple[str, str]]:
    for envelope in ENVELOPES:
        folder = GOLDEN / "messages" if envelope == "dstream" else GOLDEN / "envelopes" / envelope
        for path in sorted(folder.glob("*.txt")):
            if not any(word in path.stem for word in UNSENT):
                yield envelope, path.stem


def told(envelope: str, name: str) -> tuple[dict[str, Any], Any]:
    """The schema of a golden message, and its body."""
    folder = GOLDEN / "messages" if envelope == "dstream" else GOLDEN / "envelopes" / envelope
    text = (folder / f"{name}.txt").read_bytes().split(b"\n", 1)[0]
    known = change(name)
    return document(described(known.table, known.schema_version), envelope), json.loads(text)


@pytest.mark.parametrize(("envelope", "name"), list(golden()))
def test_a_golden_message_is_as_its_schema_says(envelope: str, name: str) -> None:
    schema, message = told(envelope, name)
    Draft202012Validator.check_schema(schema)
    Draft202012Validator(schema).validate(message)


def test_in_binary_mode_the_body_of_a_cloudevent_is_the_native_one() -> None:
    known = change("insert")
    of = described(known.table, known.schema_version)
    assert body(of, "cloudevents", binary=True) == body(of, "dstream")


def wrong(envelope: str, message: Any) -> Iterator[tuple[str, Callable[[], object]]]:
    """What is done to an update, so that the schema must refuse it."""
    rows = {
        "dstream": lambda: [message["data"], message["before"]],
        "cloudevents": lambda: [message["data"]["data"], message["data"]["before"]],
        "debezium": lambda: [message["before"], message["after"]],
        "changes": lambda: [message["changes"][0]["data"], message["changes"][0]["before"]],
    }[envelope]()
    for row in rows:
        yield "a wrong type", partial(row.update, ID="180")
        yield "another column", partial(row.update, Shoe=44)
        yield "no key", partial(row.pop, "ID")
    yield "a missing part", partial(message.pop, next(iter(message)))


@pytest.mark.parametrize("envelope", ENVELOPES)
def test_a_wrong_message_is_refused(envelope: str) -> None:
    schema, message = told(envelope, "update_with_before")
    for number, _ in enumerate(list(wrong(envelope, message))):
        _, broken = told(envelope, "update_with_before")
        what, spoil = list(wrong(envelope, broken))[number]
        spoil()
        assert not Draft202012Validator(schema).is_valid(broken), what


def test_a_message_of_other_columns_is_refused() -> None:
    schema, message = told("dstream", "insert")
    message["metadata"]["SchemaVersion"] = "0123456789ab"
    assert not Draft202012Validator(schema).is_valid(message)


def test_the_schema_of_metadata_has_the_keys_of_the_contract() -> None:
    known = metadata(TableName("dbo", "Persons"), ORIGIN, "0123456789ab")
    named, required = known["properties"], known["required"]
    assert isinstance(named, dict)
    assert isinstance(required, list)
    assert set(required) == set(Metadata.__required_keys__)
    assert set(named) | {"Oversize"} >= set(Metadata.__required_keys__ | Metadata.__optional_keys__)


def test_the_command_knows_every_envelope() -> None:
    assert {each.value for each in Envelope} == set(ENVELOPES)


@pytest.mark.parametrize("envelope", ENVELOPES)
def test_a_body_is_also_of_the_dialect_that_asyncapi_reads(envelope: str) -> None:
    known = change("insert")
    of = body(described(known.table, known.schema_version), envelope)
    Draft7Validator.check_schema(of)
    assert "$defs" not in json.dumps(of)
