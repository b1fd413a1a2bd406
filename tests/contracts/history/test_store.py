"""The promises of ingester/history/store.py, kept by the fake that the loop's tests use and by dbo.cdc_snapshots."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from functools import partial

import pytest
from pydantic import SecretStr

from common.errors import ConnectionLost, LeaseLost, PermanentError, TransientError
from common.names import TableName
from common.sqladdress import SqlAddress
from dstream.emulators import Login
from ingester.history.snapshot import Reason, Snapshot, SnapshotState
from ingester.history.store import Progress, SnapshotStore, StoredSnapshots
from ingester.locks import this_owner
from ingester.sqlserver.connection import Connection
from ingester.sqlserver.hints import MAKE_SNAPSHOTS, USE_SNAPSHOTS
from ingester.sqlserver.history.store import SqlServerSnapshots
from ingester.sqlserver.offsets import SqlServerOffsets
from tests.contracts.history.conftest import Run, connection
from tests.fakes.history import FakeSnapshots
from tests.fakes.ingester import ORDERS, PERSONS

RUNNING, WAITING, PAUSED = SnapshotState.RUNNING, SnapshotState.WAITING, SnapshotState.PAUSED
STOPPED, FAILED, DONE = SnapshotState.STOPPED, SnapshotState.FAILED, SnapshotState.DONE
FENCED = 600.0
"""Longer than any test."""


@pytest.fixture(params=["fake", "sqlserver"])
def store(request: pytest.FixtureRequest) -> Iterator[SnapshotStore]:
    if request.param == "fake":
        yield FakeSnapshots(lambda: 100.0)
        return
    request.getfixturevalue("offsets")
    with closing(SqlServerSnapshots(connection(request.getfixturevalue("login")))) as made:
        made.ensure()
        yield made


in_sql = pytest.mark.parametrize("store", ["sqlserver"], indirect=True)
"""Of the real store alone."""

Claim = Callable[[int], object]
SetState = Callable[[str], None]


@pytest.fixture
def claim(store: SnapshotStore, request: pytest.FixtureRequest) -> Claim:
    """An owner with an epoch claims dbo.Persons."""
    if isinstance(store, FakeSnapshots):
        return partial(store.claim, PERSONS)
    return partial(request.getfixturevalue("offsets").claim, PERSONS)


@pytest.fixture
def set_state(store: SnapshotStore, request: pytest.FixtureRequest) -> SetState:
    """A person changes all snapshots."""

    def everywhere(state: str) -> None:
        if isinstance(store, FakeSnapshots):
            store.stored = {each: replace(it, state=SnapshotState(state)) for each, it in store.stored.items()}
        else:
            request.getfixturevalue("run")(f"UPDATE dbo.cdc_snapshots SET state = N'{state}'")

    return everywhere


def standing(store: SnapshotStore, table: TableName = PERSONS) -> StoredSnapshots:
    return store.standings([table])[table]


def waiting(store: SnapshotStore, reason: Reason = Reason.INITIAL, epoch: int = 1) -> Snapshot:
    store.add(PERSONS, epoch, reason)
    found = standing(store).snapshot
    assert found is not None
    return found


def begun(store: SnapshotStore, epoch: int = 1) -> Snapshot:
    found = store.begin(waiting(store, epoch=epoch).id, PERSONS, epoch)
    assert found is not None
    return found


def hold(store: SnapshotStore, snapshot: Snapshot, epoch: int = 1, seconds: float = FENCED) -> None:
    store.hold((snapshot.id, 1), PERSONS, epoch, round=snapshot.round, seconds=seconds)


def sent(rows: int, *key: str, state: SnapshotState = RUNNING, lowers: bool = True) -> Progress:
    return Progress(key or None, chunks=1, rows=rows, state=state, lowers=lowers)


# asking


def test_a_table_that_nobody_asked_for_has_nothing(store: SnapshotStore) -> None:
    assert store.standings([PERSONS, ORDERS]) == {PERSONS: StoredSnapshots(), ORDERS: StoredSnapshots()}
    assert store.standings([]) == {}


def test_what_was_asked_for_waits_under_an_id_of_its_own(store: SnapshotStore) -> None:
    found = waiting(store, Reason.GAP)
    assert found == Snapshot(found.id, "dbo.Persons", Reason.GAP, WAITING)
    assert re.fullmatch(r"[0-9a-f]{12}", found.id) or isinstance(store, FakeSnapshots)
    assert standing(store, ORDERS) == StoredSnapshots()


@in_sql
def test_the_same_reason_is_not_asked_for_twice_before_the_first_row_was_read(
    store: SnapshotStore, run: Run, set_state: SetState
) -> None:
    snapshot = waiting(store)
    for state in ("waiting", "paused"):
        set_state(state)
        store.add(PERSONS, 1, Reason.INITIAL)
        assert run("SELECT id FROM dbo.cdc_snapshots") == [(snapshot.id,)]


@pytest.mark.parametrize("state", ["stopped", "failed", "done"])
def test_one_that_is_over_does_not_stand_in_for_another(store: SnapshotStore, state: str, set_state: SetState) -> None:
    first = waiting(store)
    set_state(state)
    assert standing(store) == StoredSnapshots()
    assert waiting(store).id != first.id


@in_sql
def test_one_that_was_begun_does_not_stand_in_for_another(store: SnapshotStore, run: Run) -> None:
    """It may have sent rows, recorded or not. Duplicate detection drops them when they are read again."""
    begun(store)
    store.add(PERSONS, 1, Reason.INITIAL)
    assert run("SELECT COUNT(*) FROM dbo.cdc_snapshots") == [(2,)]


@in_sql
def test_an_owner_that_was_superseded_asks_for_nothing(store: SnapshotStore, run: Run, claim: Claim) -> None:
    claim(2)
    with pytest.raises(LeaseLost):
        store.add(PERSONS, 1, Reason.INITIAL)
    assert run("SELECT COUNT(*) FROM dbo.cdc_snapshots") == [(0,)]


@in_sql
def test_many_tables_are_looked_at_together(store: SnapshotStore, offsets: SqlServerOffsets) -> None:
    tables = [TableName("dbo", f"T{number}") for number in range(230)]
    for number in (3, 150, 229):
        offsets.claim(tables[number], 1)
        store.add(tables[number], 1, Reason.INITIAL)
    found = store.standings(tables)
    assert list(found) == tables
    assert [n for n, table in enumerate(tables) if found[table].snapshot is not None] == [3, 150, 229]
    assert {one.snapshot.table for one in found.values() if one.snapshot} == {"dbo.T3", "dbo.T150", "dbo.T229"}


# beginning


@in_sql
def test_the_oldest_that_waits_comes_first_and_the_one_that_runs_before_it(store: SnapshotStore, run: Run) -> None:
    first = waiting(store, Reason.INITIAL)
    store.add(PERSONS, 1, Reason.GAP)
    assert standing(store).snapshot == first
    second = run(f"SELECT id FROM dbo.cdc_snapshots WHERE id <> '{first.id}'")[0][0]
    began = store.begin(second, PERSONS, 1)
    assert standing(store).snapshot == began
    assert began is not None
    assert (began.state, began.reason, began.attempt, began.round) == (RUNNING, Reason.GAP, 1, 1)
    assert store.begin(first.id, PERSONS, 1) is None, "one at a time"


def test_each_beginning_counts_a_round_and_an_attempt_until_something_is_recorded(store: SnapshotStore) -> None:
    assert begun(store).attempt == 1
    again = store.begin(standing_id(store), PERSONS, 1)
    assert again is not None
    assert (again.attempt, again.round) == (2, 2)
    store.record(again.id, PERSONS, 1, None, sent(10, "5"))
    more = store.begin(again.id, PERSONS, 1)
    assert more is not None
    assert (more.attempt, more.done, more.chunks, more.rows) == (2, ("5",), 1, 10)
    assert more.round > again.round


def standing_id(store: SnapshotStore) -> str:
    found = standing(store).snapshot
    assert found is not None
    return found.id


@pytest.mark.parametrize("state", ["paused", "stopped", "failed", "done"])
def test_what_neither_waits_nor_runs_is_not_begun(store: SnapshotStore, state: str, set_state: SetState) -> None:
    snapshot = waiting(store)
    set_state(state)
    assert store.begin(snapshot.id, PERSONS, 1) is None
    assert store.begin("0" * 12, PERSONS, 1) is None
    assert store.begin(snapshot.id, ORDERS, 1) is None


def test_the_next_owner_goes_on_with_what_the_last_one_began(store: SnapshotStore, claim: Claim) -> None:
    snapshot = begun(store)
    store.record(snapshot.id, PERSONS, 1, None, sent(10, "5"))
    claim(2)
    again = store.begin(snapshot.id, PERSONS, 2)
    assert again is not None
    assert again.done == ("5",)
    with pytest.raises(LeaseLost):
        store.begin(snapshot.id, PERSONS, 1)


@in_sql
def test_its_owner_is_named(store: SnapshotStore, run: Run) -> None:
    begun(store)
    assert run("SELECT owner FROM dbo.cdc_snapshots") == [(this_owner(),)]


# the fence


def test_the_stream_stands_as_long_as_the_longest_task_asked_for(store: SnapshotStore) -> None:
    snapshot = begun(store)
    assert standing(store).fence_seconds == 0
    hold(store, snapshot, seconds=FENCED)
    hold(store, snapshot, seconds=10)
    assert 10 < standing(store).fence_seconds <= FENCED


@in_sql
def test_a_fence_runs_out_by_the_servers_clock(store: SnapshotStore, run: Run) -> None:
    snapshot = begun(store)
    hold(store, snapshot)
    run("UPDATE dbo.cdc_snapshots SET fenced_until = DATEADD(second, -1, SYSUTCDATETIME())")
    assert standing(store).fence_seconds == 0


@in_sql
def test_a_fence_after_a_kill_is_seen_by_the_next_owner_whatever_became_of_the_snapshot(
    login: Login, store: SnapshotStore, claim: Claim, set_state: SetState
) -> None:
    hold(store, begun(store))
    store.close()
    claim(2)
    for state in SnapshotState:
        set_state(state)
        with closing(SqlServerSnapshots(connection(login))) as nexts:
            assert standing(nexts).fence_seconds > 0, state


def test_another_snapshots_fence_counts_too(store: SnapshotStore, set_state: SetState) -> None:
    hold(store, begun(store))
    set_state("stopped")
    found = begun(store)
    assert standing(store).snapshot == found
    assert standing(store).fence_seconds > 0
    assert standing(store, ORDERS).fence_seconds == 0


def test_a_superseded_owners_task_holds_nothing(store: SnapshotStore, claim: Claim) -> None:
    snapshot = begun(store)
    claim(2)
    with pytest.raises(LeaseLost):
        hold(store, snapshot)
    assert standing(store).fence_seconds == 0


@in_sql
def test_an_offset_that_a_person_has_moved_holds_nothing_either(store: SnapshotStore, run: Run) -> None:
    snapshot = begun(store)
    run("UPDATE dbo.cdc_offsets SET epoch = epoch + 1")
    with pytest.raises(LeaseLost):
        hold(store, snapshot)


@pytest.mark.parametrize("state", ["waiting", "paused", "stopped", "failed", "done"])
def test_a_task_of_a_snapshot_that_no_longer_runs_holds_nothing(
    store: SnapshotStore, state: str, set_state: SetState
) -> None:
    snapshot = begun(store)
    set_state(state)
    with pytest.raises(LeaseLost):
        hold(store, snapshot)
    assert standing(store).fence_seconds == 0


def test_a_task_of_a_round_that_is_over_holds_nothing(store: SnapshotStore) -> None:
    first = begun(store)
    store.record(first.id, PERSONS, 1, None, sent(10, "5"))
    with pytest.raises(LeaseLost):
        hold(store, first)
    second = store.begin(first.id, PERSONS, 1)
    assert second is not None
    with pytest.raises(LeaseLost):
        hold(store, first)
    hold(store, second)


def test_a_round_that_is_counted_while_its_chunks_are_out_has_ended_and_can_be_recorded(store: SnapshotStore) -> None:
    """As when the shape of the table was changed meanwhile."""
    first = begun(store)
    hold(store, first)
    assert store.begin(first.id, PERSONS, 1) is not None
    with pytest.raises(LeaseLost):
        hold(store, first)
    assert store.record(first.id, PERSONS, 1, first.done, sent(10, "5")) is RUNNING
    found = standing(store)
    assert found.snapshot is not None
    assert (found.snapshot.done, found.snapshot.rows, found.fence_seconds) == (("5",), 10, 0)


@in_sql
def test_a_round_whose_counting_was_not_answered_can_be_recorded(
    monkeypatch: pytest.MonkeyPatch, store: SnapshotStore
) -> None:
    assert isinstance(store, SqlServerSnapshots)
    first = begun(store)
    ask = store._connection.result_sets

    def unanswered(*statement: object) -> object:
        ask(*statement)  # type: ignore[arg-type]
        raise ConnectionLost("cut")

    with monkeypatch.context() as cut:
        cut.setattr(store._connection, "result_sets", unanswered)
        with pytest.raises(ConnectionLost):
            store.begin(first.id, PERSONS, 1)
    assert store.record(first.id, PERSONS, 1, None, sent(10, "5")) is RUNNING


@pytest.mark.parametrize("lowers", [True, False])
def test_a_fence_is_lowered_only_when_everything_is_settled(store: SnapshotStore, lowers: bool) -> None:
    snapshot = begun(store)
    hold(store, snapshot)
    store.record(snapshot.id, PERSONS, 1, None, sent(10, "5", lowers=lowers))
    assert (standing(store).fence_seconds == 0) is lowers


@in_sql
def test_tasks_that_hold_at_the_same_moment_all_succeed(login: Login, store: SnapshotStore) -> None:
    snapshot = begun(store)
    together = threading.Barrier(4)

    def holds(seconds: int) -> None:
        with closing(SqlServerSnapshots(connection(login))) as fence:
            together.wait(60)
            for number in range(10):
                hold(fence, snapshot, seconds=seconds + number)
                standing(fence)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(holds, (100, 200, 300, 400)))
    assert 300 < standing(store).fence_seconds <= 409


@in_sql
def test_of_a_hold_and_a_claim_at_the_same_moment_the_hold_is_seen_or_refused(
    login: Login, store: SnapshotStore, offsets: SqlServerOffsets, run: Run
) -> None:
    """The next owner looks at the fence after its claim. Nothing may be raised behind its back."""
    for epoch in range(1, 21):
        run("UPDATE dbo.cdc_snapshots SET state = N'stopped', fenced_until = NULL")
        snapshot = begun(store, epoch)
        together = threading.Barrier(2)

        def holds(epoch: int = epoch, snapshot: Snapshot = snapshot, together: threading.Barrier = together) -> bool:
            with closing(SqlServerSnapshots(connection(login))) as fence:
                standing(fence)
                together.wait(60)
                try:
                    hold(fence, snapshot, epoch)
                except LeaseLost:
                    return False
                return True

        with ThreadPoolExecutor(1) as pool:
            holding = pool.submit(holds)
            together.wait(60)
            offsets.claim(PERSONS, epoch + 1)
            fenced = standing(store).fence_seconds > 0
            assert holding.result(60) is fenced


# recording


def test_what_was_recorded_is_loaded_with_all_its_parts(store: SnapshotStore) -> None:
    snapshot = begun(store)
    key = ("ž'🐎", "-1.50", "", "2026-01-01T00:00:00.1234567", "0x" + "ab" * 400)
    assert store.record(snapshot.id, PERSONS, 1, None, Progress(key, 3, 2**40)) is RUNNING
    found = standing(store).snapshot
    assert found is not None
    assert (found.done, found.chunks, found.rows, found.state) == (key, 3, 2**40, RUNNING)


@in_sql
@pytest.mark.parametrize("state", [DONE, FAILED])
def test_one_that_is_over_stands_no_longer(store: SnapshotStore, run: Run, state: SnapshotState) -> None:
    snapshot = begun(store)
    progress = Progress(("9",), 2, 20, state, "x" * 3000 if state is FAILED else None)
    assert store.record(snapshot.id, PERSONS, 1, None, progress) is state
    assert standing(store) == StoredSnapshots()
    assert run("SELECT state, LEN(error) FROM dbo.cdc_snapshots") == [(state.value, 2000 if state is FAILED else None)]


@pytest.mark.parametrize("seen", [None, ("4",), ("A",), ("a ",), ("a", "")])
def test_progress_from_another_place_than_the_stored_one_is_refused(
    store: SnapshotStore, seen: tuple[str, ...] | None
) -> None:
    snapshot = begun(store)
    store.record(snapshot.id, PERSONS, 1, None, sent(10, "a"))
    store.begin(snapshot.id, PERSONS, 1)
    with pytest.raises(LeaseLost):
        store.record(snapshot.id, PERSONS, 1, seen, sent(20, "b"))
    found = standing(store).snapshot
    assert found is not None
    assert (found.done, found.rows) == (("a",), 10)


@in_sql
def test_a_superseded_owner_records_nothing(store: SnapshotStore, run: Run, claim: Claim) -> None:
    snapshot = begun(store)
    hold(store, snapshot)
    claim(2)
    with pytest.raises(LeaseLost):
        store.record(snapshot.id, PERSONS, 1, None, sent(10, "5"))
    assert standing(store).fence_seconds > 0
    assert run("SELECT done, row_count FROM dbo.cdc_snapshots") == [(None, 0)]


@in_sql
def test_a_superseded_owners_late_record_changes_nothing_of_the_next_owners_round(
    login: Login, store: SnapshotStore, claim: Claim
) -> None:
    snapshot = begun(store)
    claim(2)
    with closing(SqlServerSnapshots(connection(login))) as nexts:
        again = nexts.begin(snapshot.id, PERSONS, 2)
        assert again is not None
        hold(nexts, again, 2)
        with pytest.raises(LeaseLost):
            store.record(snapshot.id, PERSONS, 1, None, sent(10, "5"))
        assert nexts.record(snapshot.id, PERSONS, 2, None, sent(7, "3", lowers=False)) is RUNNING
        assert standing(nexts).fence_seconds > 0


@in_sql
@pytest.mark.parametrize("state", [PAUSED, STOPPED])
def test_what_a_person_has_set_during_a_round_wins_and_the_progress_is_kept(
    store: SnapshotStore, run: Run, state: SnapshotState, set_state: SetState
) -> None:
    snapshot = begun(store)
    hold(store, snapshot)
    set_state(state)
    assert store.record(snapshot.id, PERSONS, 1, None, sent(10, "5")) is state
    assert standing(store) == StoredSnapshots()
    assert run("SELECT state, done, row_count FROM dbo.cdc_snapshots") == [(state.value, '["5"]', 10)]


@pytest.mark.parametrize("state", [PAUSED, STOPPED])
def test_but_not_over_the_end_of_the_snapshot(store: SnapshotStore, state: SnapshotState, set_state: SetState) -> None:
    snapshot = begun(store)
    set_state(state)
    assert store.record(snapshot.id, PERSONS, 1, None, sent(10, "5", state=DONE)) is DONE


@pytest.mark.parametrize(("state", "then"), [(PAUSED, FAILED), (STOPPED, STOPPED)])
def test_one_that_was_stopped_does_not_fail_any_more(
    store: SnapshotStore, set_state: SetState, state: SnapshotState, then: SnapshotState
) -> None:
    snapshot = begun(store)
    set_state(state)
    assert store.record(snapshot.id, PERSONS, 1, None, sent(0, state=FAILED)) is then


def test_one_that_was_paused_and_resumed_in_a_round_goes_on_after_what_was_recorded(
    store: SnapshotStore, set_state: SetState
) -> None:
    snapshot = begun(store)
    set_state("waiting")
    assert store.record(snapshot.id, PERSONS, 1, None, sent(10, "5")) is WAITING
    again = store.begin(snapshot.id, PERSONS, 1)
    assert again is not None
    assert (again.done, again.state) == (("5",), RUNNING)


# lost answers


class Losing(Connection):
    """A connection that loses the answer of the next statement that changes something."""

    loses = False

    def execute(self, sql: str, parameters: Sequence[object] = ()) -> int:
        changed = super().execute(sql, parameters)
        if self.loses:
            self.loses = False
            self.close()
            raise ConnectionLost("the answer was lost")
        return changed


@in_sql
def test_a_record_whose_answer_was_lost_is_repeated_and_counts_once(
    login: Login, store: SnapshotStore, run: Run
) -> None:
    opened = Losing(SqlAddress(login.host, login.port, None, login.database, login.user, SecretStr(login.password)))
    with closing(SqlServerSnapshots(opened)) as losing:
        snapshot = begun(losing)
        for progress in (sent(10, "5"), sent(10, "5", state=FAILED)):
            opened.loses = True
            with pytest.raises(ConnectionLost):
                losing.record(snapshot.id, PERSONS, 1, snapshot.done, progress)
            [before] = run("SELECT state, done, row_count, rounds FROM dbo.cdc_snapshots")
            assert losing.record(snapshot.id, PERSONS, 1, snapshot.done, progress) is progress.state
            assert run("SELECT state, done, row_count, rounds FROM dbo.cdc_snapshots") == [before]
            if progress.state is RUNNING:
                again = losing.begin(snapshot.id, PERSONS, 1)
                assert again is not None
                snapshot = again


@in_sql
@pytest.mark.parametrize("key", [("5",), ()])
def test_a_record_that_arrives_again_in_the_next_round_lowers_no_fence(
    store: SnapshotStore, key: tuple[str, ...]
) -> None:
    """As one that the server had not begun to work on when its answer was given up; also of a round that sent nothing."""
    assert isinstance(store, SqlServerSnapshots)
    first = begun(store)
    store.record(first.id, PERSONS, 1, None, sent(10, *key))
    second = store.begin(first.id, PERSONS, 1)
    assert second is not None
    hold(store, second)
    store._rounds[first.id] = first.round
    with pytest.raises(LeaseLost):
        store.record(first.id, PERSONS, 1, None, sent(10, *key))
    assert standing(store).fence_seconds > 0


@in_sql
def test_a_snapshot_whose_beginning_was_not_answered_is_begun_again(login: Login, store: SnapshotStore) -> None:
    first = begun(store)
    again = store.begin(first.id, PERSONS, 1)
    assert again is not None
    hold(store, again)
    with pytest.raises(LeaseLost):
        hold(store, first)


# the store itself


@in_sql
def test_making_it_twice_keeps_every_row(login: Login, store: SnapshotStore) -> None:
    snapshot = waiting(store)
    store.ensure()
    with closing(SqlServerSnapshots(connection(login))) as other:
        other.ensure()
        assert standing(other).snapshot == snapshot


def test_a_store_that_does_not_exist_has_nothing(login: Login) -> None:
    with closing(SqlServerSnapshots(connection(login))) as absent:
        assert absent.standings([PERSONS, ORDERS]) == {PERSONS: StoredSnapshots(), ORDERS: StoredSnapshots()}


@in_sql
def test_somebody_who_holds_the_table_is_waited_for_a_second_only(login: Login, store: SnapshotStore) -> None:
    snapshot = begun(store)
    with login.connect() as opened, opened.cursor() as cursor:
        opened.autocommit(False)
        cursor.execute("UPDATE dbo.cdc_snapshots SET error = N'looking'")
        with pytest.raises(TransientError, match="1222"):
            hold(store, snapshot)
        with pytest.raises(TransientError, match="1222"):
            store.record(snapshot.id, PERSONS, 1, None, sent(10, "5"))
        opened.rollback()
    hold(store, snapshot)


@in_sql
def test_a_row_that_somebody_deleted_is_nobodys_round(store: SnapshotStore, run: Run) -> None:
    snapshot = begun(store)
    run("DELETE FROM dbo.cdc_snapshots")
    assert standing(store) == StoredSnapshots()
    with pytest.raises(LeaseLost):
        hold(store, snapshot)
    with pytest.raises(LeaseLost):
        store.record(snapshot.id, PERSONS, 1, None, sent(10, "5"))
    assert store.begin(snapshot.id, PERSONS, 1) is None


# rights


@pytest.fixture
def limited(login: Login, offsets: SqlServerOffsets, run: Run) -> Iterator[SqlServerSnapshots]:
    """The store of a login that may use the offsets and nothing else."""
    user = f"limited_{login.database}"
    run(f"CREATE LOGIN {user} WITH PASSWORD = N'Limited-Password-1'")
    run(f"CREATE USER limited FOR LOGIN {user}")
    run("GRANT SELECT, INSERT, UPDATE ON OBJECT::dbo.cdc_offsets TO limited")
    with closing(SqlServerSnapshots(connection(replace(login, user=user, password="Limited-Password-1")))) as made:
        yield made


def test_a_login_that_may_neither_make_nor_use_it_keeps_its_streams(limited: SqlServerSnapshots) -> None:
    with pytest.raises(PermanentError) as refused:
        limited.ensure()
    assert refused.value.hint == MAKE_SNAPSHOTS
    assert standing(limited) == StoredSnapshots()


@in_sql
def test_a_store_that_somebody_else_made_is_used_once_it_was_granted(
    store: SnapshotStore, limited: SqlServerSnapshots, run: Run
) -> None:
    snapshot = waiting(store)
    with pytest.raises(PermanentError) as refused:
        limited.ensure()
    assert refused.value.hint in (MAKE_SNAPSHOTS, USE_SNAPSHOTS)
    assert standing(limited) == StoredSnapshots()
    run("GRANT SELECT, INSERT, UPDATE ON OBJECT::dbo.cdc_snapshots TO limited")
    limited.ensure()
    began = limited.begin(snapshot.id, PERSONS, 1)
    assert began is not None
    hold(limited, began)
    assert standing(limited).fence_seconds > 0


@in_sql
def test_a_login_that_loses_its_right_does_not_take_the_fence_for_lowered(
    store: SnapshotStore, limited: SqlServerSnapshots, run: Run
) -> None:
    run("GRANT SELECT, INSERT, UPDATE ON OBJECT::dbo.cdc_snapshots TO limited")
    hold(store, begun(store))
    assert standing(limited).fence_seconds > 0
    run("REVOKE SELECT ON OBJECT::dbo.cdc_snapshots FROM limited")
    with pytest.raises(PermanentError) as refused:
        standing(limited)
    assert refused.value.hint == USE_SNAPSHOTS
