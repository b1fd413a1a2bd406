"""Parquet files read back by pyarrow, each value beside the message that it came from; and what remains when the process is killed."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pyarrow.parquet as pq
import pytest

from common.message import Message, Property, PropertyValue
from common.names import TableName
from router.outputs.file.parquet import SCHEMA, conversion, staged_line
from router.outputs.lines import NotALine
from router.outputs.port import Stream
from tests.outputs.contract.kills import deliver_under_kills
from tests.outputs.contract.world import Recipe, change
from tests.outputs.file.worlds import output

STREAM = Stream("server.shop.persons.events", TableName("dbo", "Persons"), "server.shop/dbo.Persons")


def rows(*messages: Message, compression: str = "zstd") -> list[dict[str, Any]]:
    lines, file = io.BytesIO(b"".join(staged_line(each) for each in messages)), io.BytesIO()
    conversion(compression)(lines, file)
    read: list[dict[str, Any]] = pq.read_table(io.BytesIO(file.getvalue()), schema=SCHEMA).to_pylist()
    return read


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "zstd"])
def test_every_value_is_that_of_the_message(compression: str) -> None:
    messages = [change(STREAM, number, f"s#{number % 3}", text='Wałęsa\t"\\') for number in range(100)]

    read = rows(*messages, compression=compression)

    assert [each["id"] for each in read] == [each.message_id for each in messages]
    for row, message in zip(read, messages, strict=True):
        body = json.loads(message.body)
        metadata = body["metadata"]
        assert json.loads(row["data"]) == body["data"]
        assert json.loads(row["metadata"]) == metadata
        assert (row["before"], row["body"]) == (None, None)
        assert (row["session"], row["operation"], row["schema"], row["table"]) == (
            message.session_id,
            "Insert",
            "dbo",
            "Persons",
        )
        assert (row["lsn"], row["command_id"], row["seqval"], row["operation_id"]) == tuple(
            metadata[key] for key in ("LSN", "CommandID", "SeqVal", "OperationID")
        )
        assert row["commit_time"] == datetime(2026, 11, 21, 10, 23, 45, 457_000, UTC)
        assert row["schema_version"] == metadata["SchemaVersion"]


def test_the_text_of_values_stays_as_it_is() -> None:
    decimal = "12345678901234567890123456789.123456789"
    message = change(STREAM, 1, "s")
    data = f'{{"Amount": "{decimal}", "Raw": 1.50, "Big": {"9" * 38}, "Lone": "\\ud800", "Nothing": null}}'
    body = json.loads(message.body)
    text = f'{{"metadata": {json.dumps(body["metadata"])}, "data": {data}, "before": {{"Amount": null}}}}'

    (row,) = rows(Message(text.encode(), message.message_id, application_properties=message.application_properties))

    assert row["data"] == data
    assert row["before"] == '{"Amount": null}'
    assert Decimal(json.loads(row["data"])["Amount"]) == Decimal(decimal)


def test_columns_are_the_same_whatever_comes() -> None:
    debezium = b'{"before":null,"after":{"ID":1.10},"op":"c"}'
    properties: dict[str, PropertyValue] = {Property.TABLE: "Persons", Property.OPERATION: "Insert", "other": 1}
    read = rows(
        Message(debezium, "1", "s", application_properties=properties),
        Message(b"", "1:tombstone", "s", application_properties=properties),
        Message(b'[1,\n"x"]', None, None),
        Message(b"{}", "\ud800"),
    )

    assert [each["body"] for each in read] == [debezium.decode(), None, '[1, "x"]', "{}"]
    assert [each["id"] for each in read] == ["1", "1:tombstone", None, "\\ud800"]
    assert [each["operation"] for each in read] == ["Insert", "Insert", None, None]
    assert {each["data"] for each in read} == {None}


def test_what_is_not_json_is_refused() -> None:
    with pytest.raises(NotALine):
        staged_line(Message(b"\xff", "1"))


@pytest.mark.parametrize("line", [b"{}\n", b"[1,{}]\n", b'[{"id":"1"}]\n', b'[{"id":"1"},{}', b"\xff\n"])
def test_lines_of_others_are_not_read(line: bytes) -> None:
    with pytest.raises(ValueError):
        conversion("none")(io.BytesIO(line), io.BytesIO())


def test_the_same_lines_make_the_same_file() -> None:
    lines = b"".join(staged_line(change(STREAM, number, "s")) for number in range(30))
    files = [io.BytesIO(), io.BytesIO()]
    for file in files:
        conversion("zstd")(io.BytesIO(lines), file)

    assert files[0].getvalue() == files[1].getvalue()


def finished(root: Path) -> list[dict[str, Any]]:
    paths = sorted((root / STREAM.destination).rglob("*.parquet"))
    return [row for path in paths for row in pq.read_table(path).to_pylist()]


@pytest.mark.parametrize(
    "kills", [5, pytest.param(50, marks=[pytest.mark.soak, pytest.mark.timeout(1200)])], ids=["short", "long"]
)
def test_killed_while_it_adds(tmp_path: Path, kills: int) -> None:
    settings = {"timeout": 30.0, "root": str(tmp_path), "format": "parquet", "roll_size": 60_000}
    recipe = Recipe("tests.outputs.file.worlds:output", settings)
    result = deliver_under_kills(recipe, STREAM, lambda number: change(STREAM, number, "s"), kills=kills, seed=kills)
    finish(settings)

    check(tmp_path, result.sent)


def test_killed_while_it_finishes(tmp_path: Path) -> None:
    """Lines are sealed, and a process that finishes them is killed at a random instant, again and again; then one is not."""
    settings = {"timeout": 30.0, "root": str(tmp_path), "format": "parquet", "roll_size": 20_000}
    made, random = output(**settings), Random(7)  # type: ignore[arg-type]
    sent = [change(STREAM, number, "s") for number in range(3_000)]
    made._roller.stop(0)  # nothing is finished yet
    sender = made.sender(STREAM)
    for at in range(0, len(sent), 50):
        sender.send(sent[at : at + 50])
    sender.close()
    command = [sys.executable, "-c", f"from tests.outputs.file.test_parquet import finish; finish({settings!r})"]
    for _ in range(5):
        process = subprocess.Popen(command)
        started = time.monotonic()
        while not list(tmp_path.rglob("*.parquet")) and time.monotonic() < started + 60:
            time.sleep(0.01)
        time.sleep(random.uniform(0, 0.1))
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    finish(settings)

    check(tmp_path, sent, duplicates=False)


def finish(settings: dict[str, Any]) -> None:
    """As a router that starts and stops does."""
    made = output(**settings)
    made._roller.start(STREAM.destination)
    made._roller.stop(60)
    made.close()


def check(root: Path, sent: list[Message], *, duplicates: bool = True) -> None:
    """Nothing is lost, changed or out of order, and no file remains."""
    read = finished(root)
    first = list(dict.fromkeys(row["id"] for row in read))
    assert first == [each.message_id for each in sent]
    assert duplicates or len(read) == len(sent)
    bodies = {each.message_id: json.loads(each.body)["data"] for each in sent}
    assert all(json.loads(row["data"]) == bodies[row["id"]] for row in read)
    assert [path for path in (root / "_open").rglob("*") if path.is_file() and path.name != "lock"] == []
    print(f"{len(sent)} messages, {len(read) - len(sent)} duplicates")
