"""Snapshots with real processes: rows from before capture are sent while an application changes them, and workers and ingesters are killed.

The short form is one day of a house with two tables; each long form shows what a single thing does to a snapshot, or a hundred kills.
"""

from __future__ import annotations

import signal
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest

from tests.worlds.house import COLUMNS, OTHERS, PERSONS, QUIET, House, kill
from tests.worlds.world import wait_until

_LONG = 900.0
_STOPPED_SECONDS = 30.0
"""A worker that is stopped for longer than it may send on its own authority."""
_LOCKED_SECONDS = 60
_LOCKED = f"table_locked:{QUIET.table},{_LOCKED_SECONDS}"
_ROUND_CHUNKS = 2
_GLANCE = 0.002
"""Seconds between two looks whether a chunk is being sent: a fast machine sends one in a few hundredths."""

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="finds the processes in /proc")


@pytest.mark.timeout(300)
def test_rows_from_before_capture_arrive_once_although_the_ingester_is_killed_in_the_middle(tmp_path: Path) -> None:
    paced = 'mode = "initial"\nchunk_rows = 500\nmax_rows_per_second = 4000'
    with House(tmp_path, rows=6_000, snapshot=paced) as house:
        house.begin()
        house.start_ingester()
        house.await_rows(PERSONS, 2_000)
        wait_until(lambda: bool(house.snapshot_of(PERSONS)["fenced"]), "a chunk is being sent", every=_GLANCE)
        house.kill_ingester()
        before = house.snapshot_of(PERSONS)
        asked = house.asked(QUIET, "--where", "Id BETWEEN 11 AND 20")
        house.lower_the_fence()  # nothing of the dead one is left, so the test need not wait until it has run out
        house.start_ingester()
        for snapshot in house.snapshots():
            house.await_state(snapshot, "done")
        house.settle_down()
        house.arrived()
        copies = house.judge([PERSONS, OTHERS, QUIET])
        assert before["state"] == "running"
        assert 2_000 <= before["rows"] < 6_000
        assert [copy.again for copy in copies.values()] == [0, 0, 0]
        assert copies[PERSONS].last == [before["id"]]
        assert len(copies[QUIET].reads[asked]) == 10


@dataclass
class Killing:
    """So many kills while one snapshot runs, each after it has gone on, or soon after the kill before.

    `done`: what each was, and where: `mid-round` while a chunk might be sent.
    """

    house: House
    random: Random
    done: list[str] = field(default_factory=list)

    def run(self, kills: int) -> None:
        for number in range(kills):
            if number % 4 or number == 0:
                self._await_progress()
            if self.random.random() < 0.5:
                wait_until(lambda: bool(self._snapshot()["fenced"]), "a chunk is being sent", every=_GLANCE)
                time.sleep(self.random.uniform(0, 0.3))
            else:
                time.sleep(self.random.uniform(0, 1.5))
            assert self._snapshot()["state"] == "running", f"over after {number} kills: {self._snapshot()}"
            self._strike(self._how(number))

    def _how(self, number: int) -> Callable[[], str]:
        if number % 10 == 9:
            return self._stop_a_worker
        return self._kill_ingester if number % 4 == 1 else self._kill_worker

    def _strike(self, how: Callable[[], str]) -> None:
        snapshot = self._snapshot()
        said = f"{how()}, {'mid-round' if snapshot['fenced'] else 'between rounds'}"
        self.done.append(said)
        print(f"{len(self.done):4} {time.strftime('%X')} {snapshot['rows']:7} rows: {said}", flush=True)

    def _snapshot(self) -> dict[str, object]:
        return self.house.snapshot_of(PERSONS)

    def _await_progress(self) -> None:
        rounds = self._snapshot()["rows"]
        wait_until(lambda: self.house.alive() and self._snapshot()["rows"] != rounds, "it goes on", 180)

    def _kill_ingester(self) -> str:
        self.house.kill_ingester()
        self.house.start_ingester()
        return "the whole ingester"

    def _worker(self) -> int:
        """Waits for one while all have just begun to start."""
        wait_until(lambda: self.house.alive() and bool(self.house.workers()), "there is a worker")
        return self.random.choice(self.house.workers())

    def _kill_worker(self) -> str:
        kill(self._worker(), signal.SIGKILL)
        return "a worker"

    def _stop_a_worker(self) -> str:
        worker = self._worker()
        kill(worker, signal.SIGSTOP)
        time.sleep(_STOPPED_SECONDS)
        kill(worker, signal.SIGCONT)
        return f"a worker stopped for {_STOPPED_SECONDS:.0f} s"


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_a_snapshot_is_right_after_a_hundred_kills(tmp_path: Path, kills: int, seed: int) -> None:
    """Without duplicate detection, so that everything that is sent again is counted."""
    chunk, rows = 500, 2_000 * kills
    paced = f'mode = "initial"\nchunk_rows = {chunk}\nmax_rows_per_second = {_ROUND_CHUNKS * chunk}'
    with House(tmp_path, rows=rows, snapshot=paced, tasks=_ROUND_CHUNKS, duplicates=False, seed=seed) as house:
        house.begin()
        house.start_ingester()
        begun = time.monotonic()
        killing = Killing(house, Random(seed))
        killing.run(kills)
        house.await_state(house.snapshot_of(PERSONS)["id"], "done", _LONG)
        seconds = time.monotonic() - begun
        house.settle_down()
        house.arrived(_LONG)
        copy = house.judge([PERSONS, OTHERS])[PERSONS]
        sent = Counter(killing.done)
        print(*(f"{count:5} {what}" for what, count in sorted(sent.items())), sep="\n")
        print(f"{rows} rows, {kills} kills, {seconds:.0f} s, {copy.again} rows again, {len(copy.changes)} changes")
        snapshot = house.snapshot_of(PERSONS)
        assert copy.again <= kills * _ROUND_CHUNKS * chunk
        assert list(copy.reads) == [snapshot["id"]]
        assert set(copy.last) == {snapshot["id"]}


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_a_gap_is_announced_and_the_rows_follow(tmp_path: Path) -> None:
    with House(tmp_path, rows=2_000, snapshot='mode = "initial"', more='on_gap = "snapshot"') as house:
        house.begin()
        house.start_ingester()
        wait_until(lambda: len(house.snapshots()) == 3, "snapshots of all tables")
        first = set(house.snapshots())
        for snapshot in first:
            house.await_state(snapshot, "done")
        assert house.ingester.stop() == 0
        time.sleep(3)
        house.settle_down()
        _clean_up(house)
        house.start_ingester()
        wait_until(lambda: house.alive() and len(house.copy(PERSONS).gaps) == 1, "the gap event")
        house.await_rows(PERSONS, len(house.table(PERSONS)))
        wait_until(lambda: len(house.copy(PERSONS).last) == 2, "the last row", 60)
        received = house.subscriber.received()[PERSONS]
        copy = house.copy(PERSONS)
        assert len(received) == len(copy.types)
        at = copy.types.index("Gap")
        assert copy.gaps[0]["From"] < copy.gaps[0]["To"]
        assert set(copy.types[at + 1 :]) == {"Read"}
        assert copy.types[at + 1 :].count("Read") == len(house.table(PERSONS))
        # what was deleted in the gap is known from the rows that did not come; everything else is as it is in the table
        held = house.table(PERSONS)
        assert {id: row for id, row in copy.rows.items() if id in held} == held


def _clean_up(house: House) -> None:
    """As the cleanup job, after the retention has passed for everything that was committed."""
    wait_until(lambda: _captured(house), "capture has everything")
    for table in (PERSONS, OTHERS):
        house.execute(
            "DECLARE @now BINARY(10) = sys.fn_cdc_get_max_lsn(); EXEC sys.sp_cdc_cleanup_change_table "
            f"@capture_instance = N'{table.schema}_{table.table}', @low_water_mark = @now, @threshold = 100000"
        )


def _captured(house: House) -> bool:
    made = house.applications[PERSONS].committed[-1].version
    change_table = f"cdc.[{PERSONS.schema}_{PERSONS.table}_CT]"
    newest = house.execute(f"SELECT MAX(Version) FROM {change_table}")
    return newest is not None and newest[0] is not None and int(newest[0]) >= made


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_a_person_pauses_resumes_and_stops_and_nothing_stays_locked(tmp_path: Path) -> None:
    paced = "chunk_rows = 500\nmax_rows_per_second = 1000"
    with House(tmp_path, rows=10_000, snapshot=paced) as house:
        house.begin()
        house.start_ingester()
        first = house.asked(PERSONS)
        house.await_rows(PERSONS, 2_000)
        house.dstream("snapshot", "pause", first)
        wait_until(lambda: not house.snapshots()[first]["fenced"], "its round is over")
        paused = house.snapshots()[first]
        _nothing_is_locked(house)
        time.sleep(5)
        assert (paused["state"], house.snapshots()[first]["rows"]) == ("paused", paused["rows"])
        house.dstream("snapshot", "resume", first)
        began = time.monotonic()
        house.await_state(first, "done")
        rate = (house.snapshots()[first]["rows"] - paused["rows"]) / (time.monotonic() - began)
        print(f"{rate:.0f} rows a second where 1000 are allowed")
        assert rate <= 1_100
        second = house.asked(PERSONS)
        wait_until(lambda: house.alive() and house.snapshots()[second]["rows"] >= 1_000, "it has begun")
        house.dstream("snapshot", "stop", second)
        wait_until(lambda: not house.snapshots()[second]["fenced"], "its round is over")
        house.settle_down()
        house.arrived()
        copy = house.judge([PERSONS], [OTHERS])[PERSONS]
        stopped = house.snapshots()[second]
        assert stopped["state"] == "stopped"
        assert stopped["rows"] <= len(copy.reads[second]) < 10_000
        assert copy.last == [first]
        assert copy.again == 0


def _nothing_is_locked(house: House) -> None:
    """Somebody else gets the whole table at once, and no other session has locked anything of it."""
    with house.login.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SET LOCK_TIMEOUT 0")
        house.applications[PERSONS].halt()
        try:
            cursor.execute("BEGIN TRANSACTION")
            cursor.execute(f"SELECT COUNT(*) FROM {PERSONS.quoted} WITH (TABLOCKX, HOLDLOCK) WHERE Id < 0")
            cursor.fetchall()
            cursor.execute(
                "SELECT COUNT(*) FROM sys.dm_tran_locks WHERE resource_type = N'OBJECT' AND request_session_id <> @@SPID "
                f"AND resource_associated_entity_id = OBJECT_ID(N'{PERSONS.key}')"
            )
            assert cursor.fetchone()[0] == 0
            cursor.execute("ROLLBACK TRANSACTION")
        finally:
            house.applications[PERSONS].go_on()


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_a_table_that_an_application_locks_for_a_minute_stops_nothing_else(tmp_path: Path) -> None:
    paced = "chunk_rows = 500\nmax_rows_per_second = 2000"
    with House(tmp_path, rows=200, others=20_000, snapshot=paced, rate=10, faults=[_LOCKED]) as house:
        house.begin()
        house.start_ingester()
        wait_until(lambda: house.alive() and len(house.copy(PERSONS).changes) > 10, "changes arrive")
        quiet = house.asked(QUIET)
        house.await_rows(QUIET, 2_000)
        house.emulators.begin_faults()
        locked = time.monotonic()
        wait_until(lambda: house.alive() and "another session holds rows" in house.ingester.tail(5), "its chunk waits")
        began, rows = time.time(), house.snapshots()[quiet]["rows"]
        other = house.asked(PERSONS)
        house.await_state(other, "done", 50)
        assert time.monotonic() - locked < _LOCKED_SECONDS
        assert house.snapshots()[quiet]["rows"] == rows
        lags = house.lags(PERSONS, began) + house.lags(OTHERS, began)
        print(f"{len(lags)} changes meanwhile, median {statistics.median(lags):.2f} s, most {max(lags):.2f} s")
        assert len(lags) > 100
        assert max(lags) < 20
        house.await_state(quiet, "done")
        house.settle_down()
        house.arrived()
        copies = house.judge([PERSONS, QUIET], [OTHERS])
        assert len(copies[PERSONS].reads[other]) > 0


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_on_a_namespace_that_throttles_live_changes_go_first(tmp_path: Path) -> None:
    with House(tmp_path, rows=3_000, others=500, snapshot="chunk_rows = 1000", credits=300, rate=5) as house:
        house.begin()
        house.start_ingester()
        wait_until(lambda: house.alive() and len(house.copy(OTHERS).changes) > 50, "changes arrive")
        before = time.time()
        time.sleep(15)
        began = time.time()
        asked = house.asked(PERSONS)
        house.await_state(asked, "done", 600)
        seconds = time.time() - began
        house.settle_down()
        house.arrived(300)
        house.judge([PERSONS], [OTHERS])
        same, other = house.lags(PERSONS, began), house.lags(OTHERS, began)
        alone = house.lags(OTHERS, before, began)
        for name, lags in (("without", alone), ("the same table", same), ("another", other)):
            print(f"{name}: {len(lags)} changes, median {statistics.median(lags):.2f} s, most {max(lags):.2f} s")
        print(f"3000 rows in {seconds:.0f} s")
        assert statistics.median(other) < 10
        assert statistics.median(same) < 10


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_a_snapshot_to_another_topic_leaves_the_tables_own_alone(tmp_path: Path) -> None:
    with House(tmp_path, rows=3_000, snapshot="chunk_rows = 500") as house:
        house.begin()
        house.start_ingester()
        topic = "audit.persons"
        asked = house.asked(PERSONS, "--where", "Id % 2 = 0", "--to", topic)
        side = house.subscribe(PERSONS, topic)
        house.await_state(asked, "done")
        house.settle_down()
        house.arrived()
        sent = house.snapshots()[asked]["rows"]
        wait_until(lambda: len(side.received()[PERSONS]) >= sent, "its rows have arrived")
        there = house.copy(PERSONS, side)
        assert set(there.types) == {"Read"}
        assert len(there.reads[asked]) == sent == len(there.rows)
        assert all(id % 2 == 0 and tuple(sorted(row)) == tuple(sorted(COLUMNS)) for id, row in there.rows.items())
        here = house.copy(PERSONS)
        assert here.reads == {}
        assert here.changes == [each.identity for each in house.applications[PERSONS].committed]
