"""The promises of ingester/history/desk.py, kept by dbo.cdc_snapshots: what a person asks for, sees and stops."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from common.errors import PermanentError, TransientError
from common.names import TableName
from dstream.emulators import Login
from ingester.history.desk import SnapshotDesk
from ingester.history.snapshot import Reason, Snapshot, SnapshotState
from ingester.history.store import Progress
from ingester.sqlserver.history.desk import SqlServerSnapshotDesk
from ingester.sqlserver.history.store import SqlServerSnapshots
from ingester.sqlserver.offsets import SqlServerOffsets
from tests.contracts.history.conftest import Run, connection
from tests.fakes.ingester import ORDERS, PERSONS

WAITING, RUNNING, PAUSED = SnapshotState.WAITING, SnapshotState.RUNNING, SnapshotState.PAUSED
STOPPED, FAILED, DONE = SnapshotState.STOPPED, SnapshotState.FAILED, SnapshotState.DONE


@pytest.fixture
def desk(login: Login) -> Iterator[SnapshotDesk]:
    with closing(SqlServerSnapshotDesk(connection(login))) as made:
        yield made


@pytest.fixture
def store(login: Login, offsets: SqlServerOffsets) -> Iterator[SqlServerSnapshots]:
    with closing(SqlServerSnapshots(connection(login))) as made:
        yield made


def test_looking_where_nobody_ever_asked_creates_nothing(desk: SnapshotDesk, run: Run) -> None:
    assert desk.snapshots(None, 10) == ()
    assert desk.find("0" * 12) is None
    assert desk.change("0" * 12, STOPPED) is None
    assert run("SELECT COUNT(*) FROM sys.tables") == [(0,)]


def test_what_was_asked_for_is_what_the_tables_owner_finds(desk: SnapshotDesk, store: SqlServerSnapshots) -> None:
    where = "LastName = N'O''Brien' AND ID % 2 = 1"
    asked = desk.start(PERSONS, where=where, topic="audit.persons")
    [seen] = desk.snapshots([PERSONS], 10)
    assert seen.snapshot == Snapshot(asked, "dbo.Persons", Reason.ASKED, WAITING, where, "audit.persons")
    assert store.standings([PERSONS])[PERSONS].snapshot == seen.snapshot
    assert seen.asked.endswith("Z")
    assert (seen.asked_by or "").startswith("sa")
    assert (seen.begun, seen.updated, seen.owner, seen.error) == (None, None, None, None)
    assert desk.find(asked) == seen


def test_it_may_be_asked_for_more_than_once(desk: SnapshotDesk, store: SqlServerSnapshots) -> None:
    first, second = (desk.start(PERSONS, where=None, topic=None) for _ in range(2))
    assert first != second
    assert {each.snapshot.id for each in desk.snapshots(None, 10)} == {first, second}


def test_a_table_that_somebody_holds_is_named_with_what_was_asked(desk: SnapshotDesk, login: Login) -> None:
    desk.start(PERSONS, where=None, topic=None)
    with login.connect() as held, held.cursor() as cursor:
        held.autocommit(False)
        cursor.execute("SELECT COUNT(*) FROM dbo.cdc_snapshots WITH (TABLOCKX, HOLDLOCK)")
        with pytest.raises(TransientError, match=r"^asking for a snapshot of dbo\.Persons: .*error 1222"):
            desk.start(PERSONS, where=None, topic=None)
        held.rollback()


def test_those_that_are_not_over_come_first_then_the_newest(desk: SnapshotDesk, run: Run) -> None:
    ids = [desk.start(table, where=None, topic=None) for table in (PERSONS, ORDERS, PERSONS, PERSONS)]
    for number, (each, state) in enumerate(zip(ids, ("paused", "done", "stopped", "running"), strict=True)):
        run(
            f"UPDATE dbo.cdc_snapshots SET state = N'{state}', asked_at = DATEADD(hour, {number}, '2026-01-01') WHERE id = '{each}'"
        )
    assert [each.snapshot.id for each in desk.snapshots(None, 10)] == [ids[3], ids[0], ids[2], ids[1]]
    assert [each.snapshot.id for each in desk.snapshots([PERSONS, ORDERS], 10)] == [ids[3], ids[0], ids[2], ids[1]]
    assert [each.snapshot.id for each in desk.snapshots([PERSONS], 2)] == [ids[3], ids[0]]
    assert [each.snapshot.id for each in desk.snapshots([ORDERS], 2)] == [ids[1]]
    assert desk.snapshots([], 2) == []


@pytest.mark.parametrize(
    ("state", "to", "becomes"),
    [
        (WAITING, PAUSED, PAUSED),
        (RUNNING, PAUSED, PAUSED),
        (DONE, PAUSED, DONE),
        (STOPPED, PAUSED, STOPPED),
        (PAUSED, WAITING, WAITING),
        (FAILED, WAITING, WAITING),
        (RUNNING, WAITING, RUNNING),
        (STOPPED, WAITING, STOPPED),
        (DONE, WAITING, DONE),
        (RUNNING, STOPPED, STOPPED),
        (PAUSED, STOPPED, STOPPED),
        (FAILED, STOPPED, STOPPED),
        (FAILED, PAUSED, FAILED),
        (DONE, STOPPED, DONE),
    ],
)
def test_what_can_become_of_it(
    desk: SnapshotDesk, run: Run, state: SnapshotState, to: SnapshotState, becomes: SnapshotState
) -> None:
    asked = desk.start(PERSONS, where=None, topic=None)
    run(f"UPDATE dbo.cdc_snapshots SET state = N'{state}'")
    changed = desk.change(asked, to)
    assert changed is not None
    assert changed.snapshot.state is becomes


def test_stopped_in_a_round_it_keeps_what_was_sent(desk: SnapshotDesk, store: SqlServerSnapshots) -> None:
    asked = desk.start(PERSONS, where=None, topic=None)
    begun = store.begin(asked, PERSONS, 1)
    assert begun is not None
    [seen] = desk.snapshots(None, 1)
    assert seen.owner is not None
    assert seen.begun is not None
    desk.change(asked, STOPPED)
    assert store.record(asked, PERSONS, 1, None, Progress(("5",), 1, 10)) is STOPPED
    found = desk.find(asked)
    assert found is not None
    assert (found.snapshot.rows, found.snapshot.state, found.owner) == (10, STOPPED, None)


def test_one_that_failed_says_why_until_it_is_resumed(desk: SnapshotDesk, store: SqlServerSnapshots) -> None:
    asked = desk.start(PERSONS, where=None, topic=None)
    store.begin(asked, PERSONS, 1)
    store.record(asked, PERSONS, 1, None, Progress(None, 0, 0, FAILED, "the table was dropped"))
    found = desk.find(asked)
    assert found is not None
    assert found.error == "the table was dropped"
    resumed = desk.change(asked, WAITING)
    assert resumed is not None
    assert resumed.error is None


def test_how_large_the_tables_are(desk: SnapshotDesk, run: Run) -> None:
    odd = TableName("dbo", "a.b]c")
    run("CREATE TABLE dbo.Persons (ID INT NOT NULL PRIMARY KEY, Name NVARCHAR(20) NULL)")
    run(f"CREATE TABLE {odd.quoted} (ID INT NULL)")
    run("INSERT INTO dbo.Persons (ID) VALUES (1), (2), (3)")
    assert desk.sizes([ORDERS, PERSONS, odd]) == {PERSONS: 3, odd: 0}
    assert desk.sizes([]) == {}


def test_a_login_that_may_not_see_the_table_is_told(login: Login, run: Run, desk: SnapshotDesk) -> None:
    desk.start(PERSONS, where=None, topic=None)
    user = f"looks_{login.database}"
    run(f"CREATE LOGIN {user} WITH PASSWORD = N'Limited-Password-1'")
    run(f"CREATE USER looks FOR LOGIN {user}")
    limited = Login(login.host, login.port, user, "Limited-Password-1", login.database)
    with closing(SqlServerSnapshotDesk(connection(limited))) as theirs:
        for asks in (lambda: theirs.snapshots(None, 1), lambda: theirs.start(PERSONS, where=None, topic=None)):
            with pytest.raises(PermanentError) as refused:
                asks()
            assert "GRANT SELECT, INSERT, UPDATE ON OBJECT::dbo.cdc_snapshots" in (refused.value.hint or "")
