"""Debezium's own ExtractNewRecordState reads what the router writes, with the schema that the page about envelopes adds."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.unit.dstream.test_envelopes_page import snippet
from tests.unit.router.envelopes.golden import golden, native

FETCHED = Path(__file__).with_name(".cache")
"""Where `make debezium` puts the jars, and the compiled Unwrap.java."""

COLUMNS = {
    "Persons": {"ID": "int32", "FirstName": "string", "LastName": "string", "Biography": "string"},
    "Orders": {"Order Id": "int32", "Total": "string", "Note": "string", "Scan": "bytes"},
}
ROWS = ("insert", "update", "update_with_before", "read", "delete_in_another_schema", "in_a_transaction")


def unwrapped(lines: Sequence[str]) -> list[Any]:
    """What the transformation makes of each line; None for nothing."""
    if not (FETCHED / ".ready").exists() or shutil.which("java") is None:
        pytest.skip("Debezium is not installed: `make debezium` fetches it (Maven and a JDK)")
    command = ["java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", f"{FETCHED}/jars/*:{FETCHED}", "Unwrap"]
    ended = subprocess.run(
        command, input="".join(f"{line}\n" for line in lines), capture_output=True, text=True, timeout=120
    )
    assert ended.returncode == 0, ended.stderr
    return [json.loads(line) for line in ended.stdout.splitlines()]


def test_it_unwraps_rows_marks_deletes_and_takes_nothing_else_for_a_row() -> None:
    with_schema = snippet("with_schema")
    events = {name: json.loads(golden("debezium", name)[0].body) for name in (*ROWS, "gap", "transaction_end")}
    rows = [json.dumps(with_schema(events[name], COLUMNS[events[name]["source"]["table"]])) for name in ROWS]
    others = [json.dumps(events[name]) for name in ("insert", "gap", "transaction_end")]
    found = unwrapped([*rows, *others, golden("debezium", "delete_in_another_schema")[1].body.decode()])
    for name, row in zip(ROWS, found, strict=False):
        event, sent = events[name], json.loads(native(name).body)["data"]
        added = {key: row.pop(key) for key in list(row) if key.startswith("__")}
        assert {column: value for column, value in row.items() if value is not None or column in sent} == sent
        assert added == {
            "__deleted": "true" if name == "delete_in_another_schema" else "false",
            "__op": event["op"],
            "__source_commit_lsn": "00000036:00000b20:0003",
            "__source_ts_ms": event["source"]["ts_ms"],
            "__source_snapshot": event["source"]["snapshot"],
        }
    # without a schema, and about no row: passed on as they came; and a tombstone, dropped
    assert found[len(ROWS) :] == [events["insert"], events["gap"], events["transaction_end"], None]
