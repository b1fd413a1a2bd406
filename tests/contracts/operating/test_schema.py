"""`dstream schema` and `dstream asyncapi` as a user runs them: real messages of every type are as they say, with the shape applied."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from common.message import Message
from common.names import Origin, TableName
from ingester.schema.store import KeptSchema
from ingester.shape.compiled import compiled
from ingester.shape.mask import mask_of
from ingester.shape.table_shape import AS_CAPTURED, TableShape
from ingester.shape.versions import schema_of, version_of
from ingester.source import PageQuery, ProbeRequest
from ingester.sqlserver.schema.store import SqlServerSchemas
from ingester.sqlserver.source import SqlServerSource
from ingester.task.encode import Encoder
from ingester.transform import transformed
from router.envelopes.changes import Changes
from router.envelopes.cloudevents import Structured
from router.envelopes.debezium import Debezium
from router.envelopes.port import Converter
from tests.contracts.operating.conftest import PERSONS, Desk
from tests.contracts.rows.test_schema_version import TYPES

CONVERTERS: dict[str, Converter] = {
    "cloudevents": Structured(),
    "debezium": Debezium(tombstones=False),
    "changes": Changes(),
}
SHAPE = 'exclude_columns = ["c1"]\nmask {\nc2 = "hash:SHA-256:salty"\n}'


@pytest.fixture
def typed(desk: Desk) -> Desk:
    """Persons has a column of each type, and a row with values and one without were inserted, one was updated and deleted."""
    place = desk.place
    place.settings["tables"] = '"dbo.Typed"'
    columns = ", ".join(f"c{number} {type_} NULL" for number, type_ in enumerate(TYPES))
    place.execute(
        f"CREATE TABLE dbo.Typed (ID INT PRIMARY KEY, {columns}, v rowversion)",
        "EXEC sys.sp_cdc_enable_table N'dbo', N'Typed', @role_name = NULL",
        "INSERT INTO dbo.Typed (ID) VALUES (1)",
        f"INSERT INTO dbo.Typed (ID, {', '.join(f'c{n}' for n in range(len(VALUES)))}) VALUES (2, {', '.join(VALUES)})",
        "UPDATE dbo.Typed SET c2 = 8 WHERE ID = 2",
        "DELETE dbo.Typed WHERE ID = 2",
        "EXEC sys.sp_cdc_scan",
    )
    return desk


VALUES = (
    *("1", "200", "-7", "9000000000", "12345.6789", "12345678901234567890123456789012345678", "1.5", "0.1", "0.25"),
    *("'ab'", "'text'", "'much'", "'old'", "N'n'", "N'name'", "N'max'", "N'nold'", "N'<a/>'", "'2026-11-22'"),
    *("'10:11:12.345'", "'2026-11-22 10:11:12.345'", "'2026-11-22 10:11'", "'2026-11-22 10:11:12.3456789'"),
    *("'2026-11-22 10:11:12 +02:00'", "0x01020304", "0x0506", "0x07", "'6f9619ff-8b86-d011-b42d-00c04fc964ff'"),
)
TYPED = TableName("dbo", "Typed")


def messages(desk: Desk, shape: TableShape = AS_CAPTURED) -> list[Message]:
    """What a task sends of the table."""
    with closing(SqlServerSource(desk.connection(), before_images=True)) as source:
        [known] = source.states([TYPED])[TYPED].instances
        upto = source.probe([ProbeRequest(known, None)]).upto
        assert upto is not None
        page = source.page(PageQuery(known, after=known.start, upto=upto, rows=100))
    encoder = Encoder(Origin("127-0-0-1", desk.place.login.database), "q")
    shaped = compiled(shape, known, sends_before=True, metadata=encoder.metadata, columns=page.columns)
    return [encoder.message(change) for change in transformed(page.changes, shaped.transforms).changes]


def refuses(schema: Any, bodies: list[Any]) -> list[Any]:
    Draft202012Validator.check_schema(schema)
    return [error.message for body in bodies for error in Draft202012Validator(schema).iter_errors(body)]


def test_real_messages_of_every_type_are_as_the_schema_says_in_the_native_envelope(typed: Desk) -> None:
    schema = typed.run("schema", "dbo.typed").document
    bodies = [json.loads(message.body) for message in messages(typed)]
    assert [body["metadata"]["OperationType"] for body in bodies] == ["Insert", "Insert", "Update", "Delete"]
    assert refuses(schema, bodies) == []
    bodies[0]["data"]["c2"] = "7"
    assert refuses(schema, bodies[:1])


@pytest.mark.parametrize("name", list(CONVERTERS))
def test_and_in_the_others(typed: Desk, name: str) -> None:
    schema = typed.run("schema", "Typed", "--envelope", name, "--json").document
    typed.output = f'envelope = "{name}"'
    assert typed.run("schema", "Typed").document == schema
    made = [one for message in messages(typed) for one in CONVERTERS[name].converted(message)]
    assert refuses(schema, [json.loads(message.body) for message in made]) == []
    assert len(made) == 4


def test_masked_columns_are_text_and_excluded_ones_are_absent(typed: Desk) -> None:
    typed.place.settings["more"] = f"shape {{\n{SHAPE}\n}}"
    schema = typed.run("schema", "Typed", "--envelope", "dstream").document
    columns = schema["then"]["properties"]["data"]["properties"]
    assert "c1" not in columns
    assert columns["c2"]["type"] == ["string", "null"]
    shape = TableShape(excluded=("c1",), masks=(("c2", mask_of("hash:SHA-256:salty")),))
    assert refuses(schema, [json.loads(message.body) for message in messages(typed, shape)]) == []
    assert refuses(schema, [json.loads(message.body) for message in messages(typed)])


def test_an_older_version_that_was_kept_is_printed_and_an_unknown_one_names_the_known(desk: Desk) -> None:
    source = SqlServerSource(desk.connection())
    [known] = source.states([PERSONS])[PERSONS].instances
    source.close()
    old = known.columns[:2]
    present = version_of(known.columns)
    assert present in desk.run("schema", "Persons").document["$id"]
    unknown = desk.run("schema", "Persons", "--version", "0123456789ab")
    assert (unknown.status, f"known: {present}" in unknown.err) == (1, True)
    with desk.owner() as owner, closing(SqlServerSchemas(desk.connection())) as store:
        store.ensure()
        store.keep(PERSONS, owner.lease.epoch, KeptSchema(1, version_of(old), schema_of(old)))
    printed = desk.run("schema", "Persons", "--version", version_of(old)).document
    assert printed["$id"].endswith(f"/dbo/Persons/{version_of(old)}")
    assert list(printed["then"]["properties"]["data"]["properties"]) == [column.name for column in old]


def test_a_table_that_is_not_configured_or_not_captured_is_an_error_that_says_so(desk: Desk) -> None:
    assert "no such table in the configuration" in desk.run("schema", "Nobody").err
    desk.place.execute("CREATE TABLE dbo.Quiet (ID INT PRIMARY KEY)")
    desk.place.settings["tables"] = '"dbo.Quiet"'
    quiet = desk.run("schema", "Quiet")
    assert quiet.status == 1
    assert "dbo.Quiet" in quiet.err


def test_the_asyncapi_document_has_every_topic(desk: Desk, tmp_path: Path) -> None:
    file = tmp_path / "asyncapi.json"
    assert desk.run("asyncapi", "-o", str(file)).status == 0
    document = json.loads(file.read_text(encoding="utf-8"))
    assert document == desk.run("asyncapi").document
    [channel] = document["channels"].values()
    assert channel["address"] == f"127-0-0-1.{desk.place.login.database.lower()}.persons.events"
    refused = desk.run("asyncapi", "-o", str(tmp_path / "no" / "file"))
    assert (refused.status, "writing the document to" in refused.err) == (1, True)
