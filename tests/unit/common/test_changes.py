"""The envelope "changes", held to the original's example."""

from __future__ import annotations

import json
from pathlib import Path

from common.changes import change, envelope

GOLDEN = Path(__file__).parents[2] / "golden" / "provider" / "original-envelope.json"


def test_the_originals_example_is_written_with_the_id_of_each_change_beside() -> None:
    expected = json.loads(GOLDEN.read_text())
    [row] = expected["changes"]
    one = change(
        table_name="dbo.customers",
        operation="Insert",
        data=json.dumps(row["data"]).encode(),
        timestamp="2025-09-28T20:00:00Z",
        lsn="00000020000001000001",
        event_id="testdb.dbo.customers:1",
    )
    line = envelope(table_name="dbo.customers", server_name="localhost", changes=[one], poll_interval="5s")

    row["event_id"] = "testdb.dbo.customers:1"
    assert json.loads(line) == expected
    assert list(json.loads(line)) == list(expected)


def test_rows_pass_through_as_they_are_written() -> None:
    digits = b'{"Total":12345678901234567890123456789012345.678}'
    one = change(
        table_name="t", operation="Delete", data=digits, before=digits, timestamp=None, lsn="0" * 20, event_id="e"
    )

    assert one.count(digits) == 2
    assert json.loads(one)["timestamp"] is None


def test_several_changes_are_counted_and_keep_their_order_and_names_outside_ascii_stay() -> None:
    line = envelope(table_name="dbo.Zähler", server_name="s", changes=[b"1", b"2", b"3"], poll_interval=None)

    assert "Zähler".encode() in line
    assert json.loads(line)["changes"] == [1, 2, 3]
    assert json.loads(line)["metadata"] == {"batch_size": 3, "poll_interval": None}
