"""What a message says of a row: which one, how it is, and where it stands in the order of its table."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.names import TableName
from router.envelopes.port import NotNative
from router.outputs.rows.change import Event, RowChange, read_change
from router.outputs.rows.keys import Keys, NoSuchColumn
from router.outputs.rows.position import Position
from router.outputs.rows.reading import quickly
from router.outputs.rows.values import Number, values
from tests.unit.router.envelopes.golden import native


def changed(name: str, **data: Any) -> RowChange:
    """The golden message, with other parts."""
    body = json.loads(native(name).body)
    body["metadata"].update(data.pop("metadata", {}))
    found = read_change(json.dumps({**body, **data}).encode())
    assert isinstance(found, RowChange)
    return found


def test_a_row_is_read_with_its_place_in_the_order() -> None:
    insert = changed("insert")
    assert (insert.table, insert.operation, insert.deletes) == (TableName("dbo", "Persons"), "Insert", False)
    assert insert.row == {"FirstName": "Diana", "ID": "180", "LastName": "Williams"}
    assert insert.key(["ID"]) == ("180",)
    assert isinstance(insert.row["ID"], Number)
    assert insert.position == ("0000003600000b200003", 1, "0000003600000b200002", 2)
    assert changed("delete_in_another_schema").deletes
    assert not changed("read").deletes


@pytest.mark.parametrize("name", ["gap", "schema", "transaction_begin", "transaction_end"])
def test_what_is_about_no_row_is_an_event(name: str) -> None:
    assert isinstance(read_change(native(name).body), Event)


def compact(**data: Any) -> bytes:
    """As the ingester writes the golden insert, with other parts."""
    body = {**json.loads(native("insert").body), **data}
    return json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode()


def both(body: bytes) -> tuple[RowChange, RowChange]:
    """Read fast; and slowly, because a blank is in front."""
    assert quickly(body) is not None
    assert quickly(b" " + body) is None
    fast, slow = read_change(body), read_change(b" " + body)
    assert isinstance(fast, RowChange)
    assert isinstance(slow, RowChange)
    return fast, slow


def test_the_bytes_of_the_ingester_are_read_as_any_others() -> None:
    row = {"ID": 180, "A": "Wa\u0142\u0119sa", "B": None, "C": True, "D": "},{[", "E": -7, "F": 0}
    fast, slow = both(compact(data=row, before={"ID": 2**70, "A": "x"}))
    assert (fast.table, fast.operation, fast.position, fast.text) == (
        slow.table,
        slow.operation,
        slow.position,
        slow.text,
    )
    assert (fast.row, fast.before, fast.written) == (slow.row, slow.before, slow.written)
    for name in row:
        assert fast.key([name]) == slow.key([name])
        assert type(fast.key([name])[0]) is type(slow.key([name])[0])


@pytest.mark.parametrize("text", ["0.10", "1e+23", "-0", "0", "12345678901234567890123", "1.0", "-5", "9" * 19])
def test_a_key_has_all_its_digits_however_it_is_read(text: str) -> None:
    body = compact(data={"ID": 1}).replace(b'{"ID":1}', f'{{"ID":{text}}}'.encode())
    fast, slow = both(body)
    assert fast.key(["ID"]) == slow.key(["ID"]) == (text,)
    update = compact(data={"ID": 1}, before={"ID": 2}).replace(
        b'"before":{"ID":2}', f'"before":{{"ID":{text}}}'.encode()
    )
    update = update.replace(b'"OperationType":"Insert"', b'"OperationType":"Update","ChangedColumns":["ID"]')
    fast, slow = both(update)
    assert fast.former_key(["ID"]) == slow.former_key(["ID"]) == (text,)


@pytest.mark.parametrize(
    "body",
    [
        b'{"data":{"a":{"b":{}},"metadata":{}},"metadata":{}}',
        b'{"data":{"a":[1]},"metadata":{}}',
        b'{"data":{},"before":{},"metadata":{}}',
        b'{"data":{"a":NaN},"metadata":{}}',
        b'{"data":{"a":"\xff"},"metadata":{}}',
        b'{"data":{},"metadata":{},"before":[]}',
        b'{"data":{},"metadata":{}',
    ],
)
def test_what_the_ingester_does_not_write_is_not_read_fast(body: bytes) -> None:
    assert quickly(body) is None


@pytest.mark.parametrize("part", ["OperationType", "LSN", "SeqVal", "CommandID", "OperationID", "Schema", "TableName"])
@pytest.mark.parametrize("value", [None, "", 1.5, [], {}])
def test_metadata_that_no_change_has_is_refused_however_it_is_read(part: str, value: object) -> None:
    metadata = {**json.loads(native("insert").body)["metadata"], part: value}
    with pytest.raises(NotNative):
        read_change(compact(metadata=metadata))


def test_values_keep_every_digit_and_what_they_are() -> None:
    row = (
        '{"a": 99999999999999999999999999999999999999, "b": 1e+23, "c": "6.3230", "d": true, "e": null, "f": "\\ud83d"}'
    )
    found = values(row)
    assert found == {"a": "9" * 38, "b": "1e+23", "c": "6.3230", "d": True, "e": None, "f": "\ud83d"}
    assert [type(found[name]) for name in "abc"] == [Number, Number, str]


@pytest.mark.parametrize("row", ['{"a": [1]}', '{"a": {}}', '{"a": NaN}', "[]x"])
def test_what_no_column_holds_is_refused(row: str) -> None:
    with pytest.raises(ValueError):
        values(row)


def test_a_body_that_is_no_change_is_said_to_be_none() -> None:
    with pytest.raises(NotNative):
        read_change(b'{"data": {"a": [1]}, "metadata": {}}')
    with pytest.raises(NotNative, match="ChangedColumns"):
        changed("update", metadata={"ChangedColumns": [1]})
    with pytest.raises(NotNative, match="the row cannot be read"):
        changed("insert", data={"ID": [1]})


def test_a_key_that_changed_has_the_one_before() -> None:
    moved = changed("update", data={"ID": 2}, before={"ID": 1}, metadata={"ChangedColumns": ["ID"]})
    assert (moved.key(["ID"]), moved.former_key(["ID"]), moved.hides_former_key(["ID"])) == (("2",), ("1",), False)
    same = changed("update", data={"ID": 2}, before={"ID": 2}, metadata={"ChangedColumns": ["ID"]})
    assert (same.former_key(["ID"]), same.hides_former_key(["ID"])) == (None, False)
    hidden = changed("update", data={"ID": 2}, metadata={"ChangedColumns": ["ID"]})
    assert (hidden.former_key(["ID"]), hidden.hides_former_key(["ID"])) == (None, True)
    assert not changed("update", data={"ID": 2}).hides_former_key(["ID"])


def test_a_key_column_that_is_missing_is_named() -> None:
    with pytest.raises(NoSuchColumn, match="no column Id in its messages: they have FirstName, ID, LastName"):
        changed("insert").key(["Id"])


_LSN = st.binary(min_size=10, max_size=10).map(bytes.hex)
_POSITIONS = st.builds(Position, _LSN, st.integers(0, 2**31 - 1), _LSN, st.integers(0, 4))


@given(one=_POSITIONS, other=_POSITIONS, same=st.integers(0, 3))
def test_the_text_of_a_position_compares_as_the_position(one: Position, other: Position, same: int) -> None:
    other = Position._make((*one[:same], *other[same:]))
    assert (one < other) == (one.text < other.text)
    assert (one == other) == (one.text == other.text)
    assert len(one.text) == 52


def test_a_row_of_a_snapshot_is_behind_the_changes_of_the_commit_that_it_names() -> None:
    read = changed("read").position
    for other in (changed("insert").position, Position(read.lsn, 0xFFFFFFFF, "f" * 20, 4)):
        assert (read > other, read.text > other.text, read.lsn, other.of_read) == (True, True, other.lsn, False)
    assert read < Position(f"{int(read.lsn, 16) + 1:020x}", 0, "0" * 20, 1)
    assert (read.of_read, len(read.text)) == (True, 52)


@pytest.mark.parametrize("metadata", [{"CommandID": -1}, {"CommandID": 2**70}, {"OperationID": 15}])
def test_numbers_that_no_server_has_are_refused(metadata: dict[str, int]) -> None:
    with pytest.raises(NotNative, match="out of range"):
        changed("insert", metadata=metadata)


def test_keys_are_found_by_table_in_any_case() -> None:
    keys = Keys({"Persons": ["ID"], "[sales].[Order Lines]": ["OrderId", "Line"]})
    assert keys.of(TableName("dbo", "persons")) == ("ID",)
    assert keys.of(TableName("sales", "Order Lines")) == ("OrderId", "Line")
    assert keys.of(TableName("dbo", "Order Lines")) is None
