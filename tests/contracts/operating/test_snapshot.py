"""`dstream snapshot`: what it will mean is said before it is asked for, and what cannot be is refused without a trace."""

from __future__ import annotations

import pytest

from tests.contracts.operating.conftest import Desk


def started(desk: Desk, *arguments: str) -> str:
    ran = desk.run("snapshot", "start", "Persons", *arguments)
    assert ran.status == 0, ran.err
    [identity] = [line.removeprefix("id:     ") for line in ran.lines if line.startswith("id:")]
    return identity


def listed(desk: Desk, *arguments: str) -> list[dict[str, object]]:
    ran = desk.run("snapshot", "list", "--json", *arguments)
    assert ran.status == 0, ran.err
    found: list[dict[str, object]] = ran.document["snapshots"]
    return found


def test_started_it_waits_for_the_tables_owner_and_says_how_large_it_will_be(desk: Desk) -> None:
    desk.insert(1, 2, 3)
    ran = desk.run("snapshot", "start", "persons")
    assert ran.status == 0, ran.err
    assert "table:  dbo.Persons, about 3 rows" in ran.lines
    assert any(line.startswith("order:  by ID") for line in ran.lines)
    assert "begins: when an ingester reads the table: none does now" in ran.lines
    [entry] = listed(desk)
    assert (entry["table"], entry["state"], entry["reason"]) == ("dbo.Persons", "waiting", "asked")
    assert (entry["rows"], entry["of"], entry["where"], entry["to"]) == (0, 3, None, None)
    assert f"id:     {entry['id']}" in ran.lines


def test_a_running_ingester_begins_soon(desk: Desk) -> None:
    with desk.owner():
        ran = desk.run("snapshot", "start", "Persons")
    assert any("within 10 s: a running ingester reads the table" in line for line in ran.lines), ran.lines


def test_the_status_of_a_table_has_the_one_that_runs_before_one_that_waits(desk: Desk) -> None:
    first, _ = started(desk), started(desk)
    desk.place.execute(f"UPDATE dbo.cdc_snapshots SET state = N'running', row_count = 7 WHERE id = N'{first}'")
    [table] = desk.run("status", "--stage", "ingester", "--json").document["tables"]
    assert table["snapshot"] == {"id": first, "state": "running", "rows": 7}


def test_a_second_one_waits_behind_the_first(desk: Desk) -> None:
    started(desk)
    ran = desk.run("snapshot", "start", "Persons", "--where", "ID > 5")
    assert "behind: 1 of the table is not over; one runs at a time" in ran.lines
    assert [entry["where"] for entry in listed(desk)] == ["ID > 5", None]


def test_a_dry_run_asks_for_nothing_and_creates_nothing(desk: Desk) -> None:
    ran = desk.run("snapshot", "start", "Persons", "--where", "ID > 1", "--to", "Audit.Persons", "--dry-run")
    assert ran.status == 0, ran.err
    assert "not asked for: --dry-run" in ran.lines
    assert "to:     audit.persons" in ran.lines
    assert listed(desk) == []
    assert desk.rows("SELECT COUNT(*) FROM sys.tables WHERE name = 'cdc_snapshots'") == [(0,)]
    assert "audit.persons" not in [topic.name for topic in desk.place.admin.list_topics()]


def test_another_topic_is_made_for_it(desk: Desk) -> None:
    started(desk, "--to", "Audit.Persons")
    assert [entry["to"] for entry in listed(desk)] == ["audit.persons"]
    assert "audit.persons" in [topic.name for topic in desk.place.admin.list_topics()]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("Nowhere",), "table Nowhere: no such table in the configuration"),
        (("Persons", "--where", "Nowhere = 1"), "Nowhere"),
        (("Persons", "--where", "1 = 1; DROP TABLE dbo.Persons"), "condition"),
        (("Persons", "--where", " "), "it is empty"),
        (("Persons", "--to", "a topic"), "topic a topic"),
    ],
)
def test_a_mistake_is_refused_and_nothing_is_asked_for(desk: Desk, arguments: tuple[str, ...], said: str) -> None:
    ran = desk.run("snapshot", "start", *arguments)
    assert ran.status in (1, 2)
    assert said in ran.err
    assert listed(desk) == []
    assert desk.rows("SELECT COUNT(*) FROM dbo.Persons") == [(0,)]


def test_a_table_that_is_not_captured_is_refused(desk: Desk) -> None:
    desk.place.execute("EXEC sys.sp_cdc_disable_table N'dbo', N'Persons', N'all'")
    ran = desk.run("snapshot", "start", "Persons")
    assert ran.status == 1
    assert "dbo.Persons is not under CDC" in ran.err


def test_paused_resumed_and_stopped_by_its_id_or_its_table(desk: Desk) -> None:
    first, second = started(desk), started(desk)
    assert desk.run("snapshot", "pause", first).status == 0
    assert {entry["id"]: entry["state"] for entry in listed(desk)} == {first: "paused", second: "waiting"}
    again = desk.run("snapshot", "pause", first)
    assert (again.status, "paused" in again.out) == (0, True)
    assert desk.run("snapshot", "pause", "dbo.persons").status == 0
    assert {entry["state"] for entry in listed(desk, "Persons")} == {"paused"}
    assert desk.run("snapshot", "resume", first.upper()).status == 0
    assert {entry["id"]: entry["state"] for entry in listed(desk)} == {first: "waiting", second: "paused"}
    assert desk.run("snapshot", "stop", "Persons").status == 0
    assert {entry["state"] for entry in listed(desk)} == {"stopped"}


def test_what_is_over_stays_over(desk: Desk) -> None:
    asked = started(desk)
    desk.place.execute("UPDATE dbo.cdc_snapshots SET state = N'done', row_count = 3")
    for command in ("pause", "resume", "stop"):
        ran = desk.run("snapshot", command, asked)
        assert (ran.status, "it is over: all rows were sent" in ran.out) == (1, True)
        ran = desk.run("snapshot", command, "Persons")
        assert ran.status == 1
        assert "none of them is" in ran.err


@pytest.mark.parametrize("which", ["0123456789ab", "Nowhere", "12", "'"])
@pytest.mark.parametrize("command", ["pause", "resume", "stop"])
def test_one_that_does_not_exist_is_named(desk: Desk, command: str, which: str) -> None:
    ran = desk.run("snapshot", command, which)
    assert ran.status in (1, 2)
    assert which in ran.err
    if which == "Nowhere":
        assert "table Nowhere: no such table in the configuration, and not the id of a snapshot" in ran.err
        assert "dstream snapshot list has the ids; the tables are dbo.Persons" in ran.err


def test_the_list_is_for_people_too_and_obeys_nothing_that_is_in_it(desk: Desk) -> None:
    assert desk.run("snapshot", "list").lines == ["no snapshot was asked for"]
    started(desk)
    desk.place.execute(
        "UPDATE dbo.cdc_snapshots SET state = N'failed', row_count = 12345, error = N'a' + NCHAR(27) + N'b'"
    )
    head, line = desk.run("snapshot", "list", "Persons", "--last", "1").lines
    assert head.split() == [
        "ID",
        "TABLE",
        "STATE",
        "REASON",
        "ROWS",
        "OF",
        "ABOUT",
        "SINCE",
        "UPDATED",
        "OWNER",
        "TO",
        "WHERE",
        "ERROR",
    ]
    assert "12,345" in line
    assert line.endswith("a b")


def test_what_cannot_be_read_is_said_and_is_the_exit_status(desk: Desk) -> None:
    started(desk)
    with desk.place.login.connect() as held, held.cursor() as cursor:
        held.autocommit(False)
        cursor.execute("SELECT COUNT(*) FROM dbo.cdc_snapshots WITH (TABLOCKX)")
        cursor.fetchall()
        ran = desk.run("snapshot", "list", "--json")
        held.rollback()
    assert ran.status == 1
    assert (ran.document["complete"], ran.document["snapshots"]) == (False, [])
    assert [each["what"] for each in ran.document["unknown"]] == ["snapshots"]
