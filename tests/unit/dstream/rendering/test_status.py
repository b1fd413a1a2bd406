"""`dstream status` as text and as JSON, and its watch."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from common.bus.depths import Depth, NoSubscription
from common.unread import Unread
from desk.status import Status
from dstream.commands import status as command
from dstream.options import Stage
from dstream.rendering.status import status_document, status_lines
from ingester.capture_status import Explanation, Silence
from ingester.commands.status import TableStatus
from ingester.history.snapshot import Reason, Snapshot, SnapshotState
from ingester.operating.moving import Held
from ingester.operating.offset_desk import Count, Lag

FOUND = Status(
    "2026-03-01T12:00:00Z",
    (
        TableStatus(
            "dbo.Persons",
            Held.HELD,
            "spark-1:7",
            12,
            "LSN 0x0a",
            "0a",
            "2026-03-01T11:59:58.123Z",
            "2026-03-01T11:59:59.123Z",
            Lag(Count(1_000, capped=True), 75.0),
            187_200.0,
            "dbo_Persons",
        ),
        TableStatus("dbo.Orders", Held.UNKNOWN, "spark-1:7", problem="table dbo.Orders is not under CDC"),
    ),
    {"spark-1:7": 1},
    Depth("ingest", None, 5, 1),
    (Depth("s.d.persons.events", "sub1", 1_234, 0, 2, 3),),
    (Unread("retention", "this login may not see it", "GRANT SELECT"),),
)


def test_a_missing_subscription_is_a_problem_with_its_remedy() -> None:
    lost = NoSubscription("default", "s.d.persons.events", "sub1", only=True, remedy="az servicebus ...")
    found = replace(FOUND, missing=(lost,))
    line = "problem: topic s.d.persons.events has no subscription sub1: what is sent to it is thrown away (az servicebus ...)"
    assert line in status_lines(found)
    assert status_document(found)["missing_subscriptions"] == [
        {"output": "default", "topic": "s.d.persons.events", "subscription": "sub1", "remedy": "az servicebus ..."}
    ]


def test_a_snapshot_that_is_not_over_is_in_the_line_of_its_table() -> None:
    snapshot = Snapshot("3f0c8a52d91e", "dbo.Persons", Reason.ASKED, SnapshotState.RUNNING, rows=120_000)
    persons, orders = FOUND.tables
    found = replace(FOUND, tables=(replace(persons, snapshot=snapshot), orders))
    header, first, second, *_ = status_lines(found)
    assert header.endswith("  SNAPSHOT")
    assert first.endswith("  running, 120,000 rows")
    assert second.endswith("  -")
    entries = [each["snapshot"] for each in status_document(found)["tables"]]
    assert entries == [{"id": "3f0c8a52d91e", "state": "running", "rows": 120_000}, None]


def test_the_text_has_a_table_for_each_kind_and_what_is_wrong_at_the_end() -> None:
    assert status_lines(FOUND) == [
        "TABLE        OWNER                        LAG   CHANGES  HEADROOM  OFFSET    COMMITTED                 INSTANCE",
        "dbo.Persons  spark-1:7                 1m 15s  >= 1,000     2d 4h  LSN 0x0a  2026-03-01T11:59:58.123Z  dbo_Persons",
        "dbo.Orders   unknown (last spark-1:7)       -         -         -  -         -                         -",
        "",
        "INGESTER   TABLES",
        "spark-1:7       1",
        "",
        "ENTITY              SUBSCRIPTION  ACTIVE  DEAD  SCHEDULED  TRANSFER DEAD",
        "ingest              -                  5     1          0              0",
        "s.d.persons.events  sub1           1,234     0          2              3",
        "",
        "problem: dbo.Orders: table dbo.Orders is not under CDC",
        "",
        "unknown: retention: this login may not see it: GRANT SELECT",
    ]


def test_capture_that_is_stopped_is_a_problem_although_no_table_lags() -> None:
    found = replace(FOUND, capture=Explanation(Silence.STOPPED, "the capture job does not run", "start it"))
    assert "problem: the capture job does not run (start it)" in status_lines(found)
    told = {"state": "capture_stopped", "text": "the capture job does not run", "remedy": "start it"}
    assert status_document(found)["capture"] == told
    assert status_document(FOUND)["capture"] is None


def test_the_keys_of_the_document_are_those_that_run_md_documents() -> None:
    page = (Path(__file__).parents[4] / "docs" / "run.md").read_text(encoding="utf-8")
    document = status_document(FOUND)

    def keys(value: Any) -> set[str]:
        if isinstance(value, dict):
            return set(value) | {key for each in value.values() for key in keys(each)}
        return {key for each in value for key in keys(each)} if isinstance(value, list) else set()

    assert sorted(key for key in keys(document) if f'"{key}"' not in page) == []
    assert document["complete"] is False
    assert json.loads(json.dumps(document)) == document


def test_a_watch_looks_again_until_ctrl_c_and_ends_with_the_status_of_the_last_look(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    looks = iter([Status("1", unread=(Unread("a", "b"),)), Status("2")])

    def look(*_: object) -> Status:
        try:
            return next(looks)
        except StopIteration:
            raise KeyboardInterrupt from None

    monkeypatch.setattr(command, "of_stages", lambda *_: (None, None))
    monkeypatch.setattr(command, "read", look)
    assert command.status(stage=Stage.BOTH, as_json=True, watch=True, every=0.01) == 0
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert (first["at"], first["complete"]) == ("1", False)
    assert (second["at"], second["complete"]) == ("2", True)


def test_a_watch_that_is_interrupted_in_its_first_look_knows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def look(*_: object) -> Status:
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "of_stages", lambda *_: (None, None))
    monkeypatch.setattr(command, "read", look)
    assert command.status(watch=True) == 130


def test_a_watch_that_is_no_terminal_gets_plain_lines(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    looks = iter([FOUND])

    def look(*_: object) -> Status:
        for found in looks:
            return found
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "of_stages", lambda *_: (None, None))
    monkeypatch.setattr(command, "read", look)
    assert command.status(watch=True, every=0.01) == 1
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert out.startswith("2026-03-01T12:00:00Z\nTABLE ")
