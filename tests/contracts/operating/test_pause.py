"""`dstream pause` and `dstream resume`, and the pauses as ingesters and persons read them."""

from __future__ import annotations

import json
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from common.errors import TransientError
from desk.audit import local_user
from ingester.sqlserver.operating.pauses import SqlServerPauses
from tests.contracts.operating.conftest import PERSONS, Desk


def _table(desk: Desk) -> Any:
    return desk.run("status", "--json").document["tables"][0]


def test_nothing_is_made_by_looking(desk: Desk) -> None:
    desk.place.make_queue()
    assert _table(desk)["pause"] is None
    assert desk.run("resume", "Persons").lines == ["dbo.Persons: is not paused"]
    with closing(SqlServerPauses(desk.connection())) as pauses:
        assert pauses.paused() is None
    assert desk.rows("SELECT COUNT(*) FROM sys.tables WHERE name = 'cdc_pauses'") == [(0,)]


def test_a_pause_is_kept_with_who_and_why_until_it_is_ended(desk: Desk) -> None:
    desk.place.make_queue()
    paused = desk.run("pause", "persons", "--reason", "a large import")
    assert paused.status == 0, paused.err
    assert paused.lines[0].startswith("dbo.Persons: paused since 2")
    assert paused.lines[0].endswith(": a large import")
    found = _table(desk)["pause"]
    assert found["at"].endswith("Z")
    assert desk.place.login.user in found["by"]
    assert found["reason"] == "a large import"
    assert f"paused: dbo.Persons: since {found['at']} by {found['by']}: a large import" in desk.run("status").lines
    again = desk.run("pause", "dbo.Persons")
    assert (again.status, "is paused already" in again.out) == (0, True)
    assert desk.run("resume", "Persons", "--reason", "it is done").lines[0].startswith("dbo.Persons: resumed")
    assert _table(desk)["pause"] is None
    [row] = desk.rows("SELECT table_name, reason, resumed_by, resume_reason FROM dbo.cdc_pauses")
    assert row == ("dbo.Persons", "a large import", desk.place.login.user, "it is done")
    with closing(SqlServerPauses(desk.connection())) as pauses:
        assert pauses.pause(PERSONS, None)
        assert list(pauses.paused() or {}) == ["dbo.persons"]
        ended = pauses.ended("dbo.persons")
    assert ended is not None
    assert (ended.reason, ended.by.startswith(desk.place.login.user)) == ("it is done", True)


def test_a_session_that_holds_the_pauses_is_named(desk: Desk) -> None:
    desk.place.make_queue()
    assert desk.run("pause", "persons").status == 0
    with (
        desk.place.login.connect() as holder,
        holder.cursor() as cursor,
        closing(SqlServerPauses(desk.connection())) as pauses,
    ):
        holder.autocommit(False)
        cursor.execute("UPDATE dbo.cdc_pauses SET reason = N'held'")
        with pytest.raises(TransientError, match=r"another session holds dbo\.cdc_pauses") as found:
            pauses.paused()
        assert "sys.dm_tran_locks" in str(found.value.hint)
        holder.rollback()
        assert list(pauses.paused() or {}) == ["dbo.persons"]


def test_who_did_it_is_in_the_audit_log(desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.place.make_queue()
    place = tmp_path / "audit.jsonl"
    monkeypatch.setenv("DSTREAM_AUDIT_FILE", str(place))
    assert desk.run("pause", "persons", "--why", "a large import").status == 0
    assert desk.run("offsets", "set", "persons", "--latest", "--dry-run").status == 0
    assert desk.run("resume", "persons").status == 0
    assert desk.run("snapshot", "start", "persons").status == 0
    lines = [json.loads(line) for line in place.read_text().splitlines()]
    assert [(each["action"], each["outcome"]) for each in lines] == [
        (action, outcome)
        for action in ("table.pause", "table.resume", "snapshot.start")
        for outcome in ("begun", "done")
    ]
    assert {(each["who"], each["target"]) for each in lines} == {(local_user(), "persons")}
    assert lines[0]["reason"] == "a large import"


def test_a_table_that_is_not_configured_is_refused(desk: Desk) -> None:
    ran = desk.run("pause", "dbo.Nothing")
    assert ran.status == 2
    assert "no such table in the configuration" in ran.err


def test_of_many_who_pause_at_the_same_moment_one_did_it(desk: Desk) -> None:
    with closing(SqlServerPauses(desk.connection())) as first:
        assert first.pause(PERSONS, None)
        assert first.resume(PERSONS, None)
    done = list[bool]()

    def pause() -> None:
        with closing(SqlServerPauses(desk.connection())) as pauses:
            done.append(pauses.pause(PERSONS, "mine"))

    threads = [threading.Thread(target=pause) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(done) == [False, False, False, True]
    assert desk.rows("SELECT COUNT(*) FROM dbo.cdc_pauses WHERE resumed_at IS NULL") == [(1,)]


@pytest.mark.parametrize("there", [False, True])
def test_a_missing_right_is_named_and_hides_nothing_else(desk: Desk, there: bool) -> None:
    desk.place.make_queue()
    if there:
        desk.run("pause", "Persons")
    login = f"blind_{desk.place.login.database}"
    desk.place.execute(
        f"CREATE LOGIN {login} WITH PASSWORD = N'{desk.place.login.password}'",
        f"CREATE USER blind FOR LOGIN {login}",
        "GRANT SELECT ON SCHEMA::cdc TO blind",
        "GRANT SELECT ON OBJECT::dbo.Persons TO blind",
    )
    desk.place.settings["user"] = login
    ran = desk.run("status", "--json", "--stage", "ingester")
    assert "pause" not in str(ran.document["unknown"])
    ran = desk.run("pause", "Persons")
    assert ran.status == 1
    assert "GRANT SELECT, INSERT, UPDATE ON OBJECT::dbo.cdc_pauses" in ran.err
