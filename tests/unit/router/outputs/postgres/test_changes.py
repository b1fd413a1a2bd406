"""A message as what it does to a table: the fast way and the slow one say the same, and positions compare as the order of changes."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest

from common.message import Message
from router.envelopes.port import NotNative
from router.outputs.postgres import changes
from router.outputs.postgres.changes import Change, Unstorable, change_of
from router.outputs.postgres.position import DIGITS, before, of_change, of_read

LSN, SEQVAL = "0000003600000b200003", "0000003600000b200002"


def body(data: Any = None, *, spaced: bool = False, **metadata: Any) -> bytes:
    found = {
        "OperationID": 2,
        "OperationType": "Insert",
        "LSN": LSN,
        "SeqVal": SEQVAL,
        "CommandID": 1,
        "CommitTime": None,
    }
    found |= dict.fromkeys(("Server", "Database", "Schema", "TableName", "EventID"), "x")
    whole = {"data": {"ID": 1, "Name": "a"} if data is None else data, "metadata": {**found, **metadata}}
    return json.dumps(whole).encode() if spaced else orjson.dumps(whole)


def read(octets: bytes, *, replace: bool = False) -> Change:
    return change_of(Message(octets, "id"), 7, replace=replace)


@pytest.mark.parametrize("operation", [1, 2, 4, 0, -1, -2, -3, -4])
def test_both_ways_say_the_same(operation: int) -> None:
    one, other = read(body(OperationID=operation)), read(body(OperationID=operation, spaced=True))
    assert changes._fast(other.body, 7) is None
    assert changes._fast(one.body, 7) is not None
    assert (one.at, one.operation, one.lsn, one.position) == (other.at, other.operation, other.lsn, other.position)
    assert one.exact() == other.exact() == {"ID": "1", "Name": "a"}
    assert one.of_row == (operation >= 0)


def test_the_text_of_a_row_keeps_every_digit() -> None:
    octets = body().replace(b'"Name":"a"', b'"Name":123456789012345678901234567890.50')
    assert read(octets).exact()["Name"] == "123456789012345678901234567890.50"
    assert read(octets).text == '{"ID":1,"Name":123456789012345678901234567890.50}'


@pytest.mark.parametrize(
    "data",
    [
        {"Name": '},"metadata":{"LSN":"x"}'},
        {"Name": '\\"},"metadata":{'},
        {"ID": {"x": 1}, "Name": 2},
        {"a": {"metadata": {"y": 1}}, "b": 1},
    ],
)
def test_what_looks_like_the_end_of_the_row_is_not(data: Any) -> None:
    octets = body(data)
    assert json.loads(read(octets).text) == data


@pytest.mark.parametrize(
    "octets",
    [
        b"",
        b"[]",
        b'{"data":{}}',
        b'{"data":{},"metadata":{}}',
        body(OperationID=77),
        body(OperationID="2"),
        body(LSN="x"),
        body(CommandID=-1),
        body(CommandID=1 << 40),
        body(ChangedColumns=5),
        body(OperationID=0, Snapshot=5),
        body(OperationID=0, Snapshot={"Last": True}),
        body(OperationID=0, Snapshot={"Id": "z\0"}),
        body(OperationID=0, Snapshot={"Id": "z\ud800"}, spaced=True),
        body()[:-1],
        body()[:-1] + b',"data":5}',
        b"\xff",
    ],
)
def test_other_messages_are_not_native(octets: bytes) -> None:
    with pytest.raises(NotNative):
        read(octets)


@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize("name", ["N\0", "N\ud800"])
def test_a_column_whose_name_cannot_be_stored(name: str, replace: bool) -> None:
    with pytest.raises(Unstorable) as raised:
        read(body({"ID": 1, name: "a"}, spaced=True), replace=replace)
    assert raised.value.column.isascii()


@pytest.mark.parametrize(("text", "repaired"), [("a\0b", "a\ufffdb"), ("\0", "\ufffd")])
def test_text_that_cannot_be_stored(text: str, repaired: str) -> None:
    octets = body({"ID": 1, "Name": text, "Total": 5})
    with pytest.raises(Unstorable, match="Name"):
        read(octets)
    found = read(octets, replace=True)
    assert json.loads(found.text) == {"ID": "1", "Name": repaired, "Total": "5"}


def test_half_a_surrogate_pair_cannot_be_stored_and_a_whole_one_can() -> None:
    half = body().replace(b'"a"', b'"a\\ud83d"')
    with pytest.raises(Unstorable, match="Name"):
        read(half)
    assert json.loads(read(half, replace=True).text)["Name"] == "a\ufffd"
    assert read(body().replace(b'"a"', b'"a\\ud83d\\ude00"')).row["Name"] == "a😀"


def test_an_escaped_backslash_is_no_escape() -> None:
    assert read(body({"ID": 1, "Name": "\\u0000 \\ud83d"})).row["Name"] == "\\u0000 \\ud83d"


def test_positions_compare_as_changes_are_ordered() -> None:
    later = "0000003600000b200004"
    ordered = [
        before(LSN),
        of_change(LSN, 1, SEQVAL, 1),
        of_change(LSN, 1, SEQVAL, 2),
        of_change(LSN, 1, later, 1),
        of_change(LSN, 10, SEQVAL, 4),
        of_change(LSN, 0xFFFFFFFF, "f" * 20, 4),
        of_read(LSN),
        before(later),
    ]
    assert ordered == sorted(ordered)
    assert {len(each) for each in ordered} == {DIGITS}


@pytest.mark.parametrize(("operation", "last", "ends"), [(0, True, True), (0, False, False), (2, True, False)])
def test_the_last_row_of_a_snapshot(operation: int, last: bool, ends: bool) -> None:
    found = read(body(OperationID=operation, Snapshot={"Id": "a", "Chunk": 1, "Last": last}))
    assert found.ends_snapshot is ends
