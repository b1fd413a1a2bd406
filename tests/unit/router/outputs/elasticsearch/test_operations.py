"""Messages become one operation a document: the newest one, with what the message says and nothing else."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from common.errors import EntityUnavailable
from common.message import Message
from router.outputs.elasticsearch.operations import Chunk, Operation, appended_chunk, rows_chunk
from router.outputs.elasticsearch.versions import Versioned
from router.outputs.rows.keys import Keys
from tests.unit.router.envelopes.golden import NATIVE, native

KEYS = Keys({"Persons": ["ID"], "sales.Orders": ["Order Id"]})


def message(name: str = "insert", *, metadata: dict[str, Any] | None = None, **data: Any) -> Message:
    """A golden message with another row or other metadata."""
    body = json.loads(native(name).body)
    body["metadata"] |= metadata or {}
    body |= data
    return replace(native(name), body=json.dumps(body).encode())


def rows(messages: Sequence[Message], **more: Any) -> Chunk:
    return rows_chunk(messages, KEYS, more.get("deletes", "remove"))


def lines(operation: Operation) -> list[Any]:
    return [json.loads(line) for line in operation.lines().decode().splitlines()]


def test_a_row_is_written_under_its_key_with_a_version_and_its_position() -> None:
    chunk = rows([native("insert")])
    assert chunk.of == [("180",)]
    assert lines(chunk.operations["180"]) == [
        {"index": {"_id": "180", "version": 0x3600000B00, "version_type": "external"}},
        {
            "_dstream": {"position": "0000003600000b200003-00000001-0000003600000b200002-2"},
            "FirstName": "Diana",
            "ID": 180,
            "LastName": "Williams",
        },
    ]
    again = chunk.operations["180"].lines(Versioned(7, "external_gte"))
    assert json.loads(again.splitlines()[0])["index"] == {"_id": "180", "version": 7, "version_type": "external_gte"}


def test_a_delete_removes_or_marks() -> None:
    removed = rows([native("delete_in_another_schema")])
    assert lines(removed.operations["7"]) == [
        {"delete": {"_id": "7", "version": 0x3600000B00, "version_type": "external"}}
    ]
    marked = rows([native("delete_in_another_schema")], deletes="mark").operations["7"]
    own = {"position": "0000003600000b200003-00000003-0000003600000b200002-1", "deleted": True}
    assert lines(marked)[1] == {"_dstream": own, "Order Id": 7}


def test_values_stay_as_they_are_written() -> None:
    row = '{"ID": 1, "A": 99999999999999999999999999999999999999, "B": 1e+23, "C": "\\ud83d", "D": "a\\u0000b", "E": 0.10}'
    metadata = json.dumps(json.loads(native("insert").body)["metadata"])
    plain = f'{{"data": {row}, "metadata": {metadata}}}'
    [operation] = rows([replace(native("insert"), body=plain.encode())]).operations.values()
    assert operation.document is not None
    assert operation.document.endswith(row[1:])


@pytest.mark.parametrize(
    ("column", "field"),
    [
        ("Order Id", "Order Id"),
        ("a.b", "a_x002e_b"),
        ("_id", "_x005f_id"),
        ("_dstream", "_x005f_dstream"),
        (" ", "_x0020_"),
        ("a_x002e_b", "a_x005f_x002e_b"),
        ("Ž#$%", "Ž#$%"),
    ],
)
def test_only_a_name_that_no_field_can_have_is_escaped(column: str, field: str) -> None:
    [operation] = rows([message(data={"ID": 1, column: 1.0})]).operations.values()
    document = lines(operation)[1]
    del document["_dstream"]
    assert document == {"ID": 1, field: 1.0}


def test_a_document_is_one_line_whatever_the_message_is() -> None:
    body = json.dumps(json.loads(native("insert").body), indent=2).encode()
    [operation] = rows([replace(native("insert"), body=body)]).operations.values()
    assert operation.lines().count(b"\n") == 2
    assert lines(operation)[1]["ID"] == 180


def test_of_several_changes_of_a_row_the_newest_is_written_wherever_it_stands() -> None:
    old, new = native("insert"), native("update")
    for messages, at in (([old, new], 1), ([new, old], 0), ([old, new, old, new], 3)):
        chunk = rows(messages)
        assert list(chunk.operations) == ["180"]
        assert (chunk.operations["180"].at, lines(chunk.operations["180"])[1]["LastName"]) == (at, "Prince")


def test_what_was_replaced_can_take_its_place_again() -> None:
    chunk = rows([native("insert"), native("update"), native("insert")])
    newest = chunk.operations["180"]
    older = chunk.without(newest)
    assert older is not None
    assert (older.at, chunk.operations["180"]) == (2, older)
    oldest = chunk.without(older)
    assert oldest is not None
    assert oldest.at == 0
    assert chunk.without(oldest) is None


def test_a_key_that_changed_leaves_nothing_behind() -> None:
    moved = message("update", data={"ID": 2}, before={"ID": 1}, metadata={"ChangedColumns": ["ID"]})
    chunk = rows([moved])
    assert chunk.of == [("1", "2")]
    assert [chunk.operations[id].deletes for id in ("1", "2")] == [True, False]
    assert chunk.hidden == {}
    marked = rows([moved], deletes="mark").operations["1"]
    assert lines(marked)[1]["_dstream"]["deleted"] is True
    assert lines(marked)[1]["ID"] == 1


def test_a_key_that_may_have_changed_unseen_is_noted() -> None:
    chunk = rows([message("update", metadata={"ChangedColumns": ["ID"]})])
    assert (len(chunk.hidden), chunk.of) == (1, [("180",)])


@pytest.mark.parametrize("name", ["gap", "schema", "transaction_begin", "transaction_end"])
def test_what_is_about_no_row_writes_nothing(name: str) -> None:
    chunk = rows([native(name)])
    assert (chunk.operations, chunk.of, chunk.unwritable) == ({}, [()], {})
    assert [event.operation for event in chunk.events.values()]


def test_what_is_no_change_is_refused_and_the_others_are_written() -> None:
    chunk = rows([Message(b"hello", "id"), native("insert")])
    assert (list(chunk.unwritable), list(chunk.operations)) == ([0], ["180"])


@pytest.mark.parametrize(
    ("keys", "complaint"),
    [
        ({}, 'does not say which columns identify its rows .*keys = { "dbo.Persons" = '),
        ({"Persons": ["Id"]}, "there is no column Id in its messages: they have FirstName, ID, LastName"),
    ],
)
def test_a_key_that_is_not_known_is_the_settings_fault(keys: dict[str, list[str]], complaint: str) -> None:
    with pytest.raises(EntityUnavailable, match=complaint):
        rows_chunk([native("insert")], Keys(keys), "remove")


@pytest.mark.parametrize("name", NATIVE)
def test_any_message_can_be_appended_as_it_is(name: str) -> None:
    chunk = appended_chunk([native(name)])
    [operation] = chunk.operations.values()
    assert lines(operation) == [{"create": {"_id": native(name).message_id}}, json.loads(native(name).body)]


@pytest.mark.parametrize(
    "wrong",
    [Message(b"[]", "id"), Message(b"{", "id"), Message(b"{}", None), Message(b"{}", ""), Message(b"{}", "é" * 300)],
)
def test_what_cannot_be_a_document_is_refused(wrong: Message) -> None:
    chunk = appended_chunk([wrong, Message(b'{\n"a": 1}', "id")])
    assert (list(chunk.unwritable), chunk.of) == ([0], [(), ("id",)])
    assert chunk.operations["id"].lines().count(b"\n") == 2
