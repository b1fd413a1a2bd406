"""Which chunks make a round, and what their results add up to."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from common.errors import PermanentError
from ingester.driver.history.rounds import chunk_rows, chunks, ended, over, tasks
from ingester.history.rows import BaseTable, RowKey
from ingester.history.snapshot import Chunk, ChunkDone, Reason, Snapshot, SnapshotState
from ingester.slices import SliceResult, Trouble
from tests.fakes.ingester import PERSONS, instance

TABLE = BaseTable(instance(), ("ID",), 1000)
RUNNING = Snapshot("s1", PERSONS.key, Reason.ASKED, SnapshotState.RUNNING, done=("10",), chunks=4, rows=40, round=7)


def key(number: int) -> RowKey:
    return (str(number),)


def a_round(*bounds: int, snapshot: Snapshot = RUNNING) -> list[Chunk]:
    return chunks(snapshot, TABLE, [key(bound) for bound in bounds], 10, exact=False)


def back(chunk: Chunk, done: ChunkDone | None, trouble: Trouble | None = None) -> SliceResult:
    return SliceResult(PERSONS, None, trouble=trouble, message="why" if trouble else "", chunk=chunk.id, done=done)


def whole(chunk: Chunk, rows: int = 10, **more: Any) -> SliceResult:
    return back(chunk, ChunkDone(chunk.upto, rows, complete=True, settled=True, **more))


def test_the_chunks_of_a_round_follow_one_another_from_the_recorded_key_on() -> None:
    out = a_round(20, 30, 40)
    assert [(chunk.after, chunk.upto) for chunk in out] == [(key(10), key(20)), (key(20), key(30)), (key(30), key(40))]
    assert [chunk.number for chunk in out] == [5, 6, 7]
    assert not any(chunk.last for chunk in out)
    assert {chunk.round for chunk in out} == {7}


def test_the_rest_of_the_table_is_always_alone() -> None:
    [rest] = a_round()
    assert (rest.after, rest.upto, rest.last) == (key(10), None, True)


def test_a_whole_round_moves_the_snapshot_to_its_end() -> None:
    out = a_round(20, 30)
    found = over(RUNNING, out, [whole(out[1]), whole(out[0])])
    assert (found.progress.done, found.progress.chunks, found.progress.rows) == (key(30), 6, 60)
    assert found.progress.state is SnapshotState.RUNNING
    assert found.progress.lowers
    assert found.sent == 20


def test_what_was_sent_behind_a_chunk_that_failed_is_not_recorded() -> None:
    out = a_round(20, 30, 40)
    failed = back(out[1], ChunkDone(settled=True), Trouble.TRANSIENT)
    found = over(RUNNING, out, [whole(out[0]), failed, whole(out[2])])
    assert (found.progress.done, found.progress.rows) == (key(20), 50)
    assert found.sent == 20
    assert found.trouble is failed


def test_a_chunk_that_came_part_of_the_way_is_recorded_that_far() -> None:
    out = a_round(20, 30)
    part = back(out[0], ChunkDone(key(13), 3, settled=True))
    found = over(RUNNING, out, [part, whole(out[1])])
    assert (found.progress.done, found.progress.chunks, found.progress.rows) == (key(13), 5, 43)


def test_the_snapshot_is_done_when_there_is_no_row_behind_the_rest() -> None:
    [rest] = a_round()
    grown = over(RUNNING, [rest], [back(rest, ChunkDone(key(19), 10, complete=True, settled=True))])
    assert (grown.progress.state, grown.progress.done) == (SnapshotState.RUNNING, key(19))
    empty = over(RUNNING, [rest], [back(rest, ChunkDone(None, 0, complete=True, ended=True, settled=True))])
    assert (empty.progress.state, empty.progress.done) == (SnapshotState.DONE, key(10))


@pytest.mark.parametrize("done", [None, ChunkDone(key(12), 2)])
def test_the_fence_stays_up_while_anything_may_still_be_sent(done: ChunkDone | None) -> None:
    out = a_round(20, 30)
    found = over(RUNNING, out, [back(out[0], done, Trouble.WORKER_LOST), whole(out[1])])
    assert not found.progress.lowers
    assert found.progress.state is SnapshotState.RUNNING


def test_a_permanent_error_ends_the_snapshot_once_all_before_it_is_recorded() -> None:
    out = a_round(20, 30)
    bad = back(out[1], ChunkDone(settled=True), Trouble.PERMANENT)
    later = over(RUNNING, out, [back(out[0], ChunkDone(settled=True), Trouble.TRANSIENT), bad])
    assert later.progress.state is SnapshotState.RUNNING
    found = over(RUNNING, out, [whole(out[0]), bad])
    assert (found.progress.state, found.progress.error, found.progress.done) == (SnapshotState.FAILED, "why", key(20))


def test_a_table_without_an_order_has_no_part_of_the_way() -> None:
    table = BaseTable(instance(), (), 1000)
    fresh = Snapshot("s1", PERSONS.key, Reason.ASKED, SnapshotState.RUNNING, attempt=2)
    [rest] = chunks(fresh, table, (), 10, exact=False)
    assert rest.attempt == 2
    found = over(fresh, [rest], [back(rest, ChunkDone(None, 400, settled=True), Trouble.TRANSIENT)])
    assert (found.progress.done, found.progress.rows, found.progress.state) == (None, 0, SnapshotState.RUNNING)
    assert found.sent == 400


def test_a_snapshot_that_cannot_begin_keeps_what_it_has() -> None:
    found = ended(RUNNING, PermanentError("no right", hint="GRANT"))
    assert (found.progress.state, found.progress.error) == (SnapshotState.FAILED, "no right (GRANT)")
    assert (found.progress.done, found.progress.rows) == (key(10), 40)


def test_chunks_of_wide_rows_and_of_slow_snapshots_are_smaller() -> None:
    assert chunk_rows(10_000, None, None) == 10_000
    assert chunk_rows(10_000, 100.0, None) == 10_000
    assert chunk_rows(10_000, 2.0**20, None) == 8
    assert chunk_rows(10_000, 2.0**40, None) == 1
    assert chunk_rows(10_000, 100.0, 500) == 500
    assert tasks(8, 10_000, None) == 8
    assert tasks(8, 500, 500) == 1
    assert tasks(8, 1_000, 4_000) == 4


def test_a_pass_keeps_to_the_rate_by_itself_and_chunks_do_so_by_their_rounds() -> None:
    fresh, heap = replace(RUNNING, done=None), replace(TABLE, order=())
    assert [chunk.rate for chunk in chunks(fresh, heap, (), 10, exact=False, rate=5)] == [5]
    assert [chunk.rate for chunk in chunks(RUNNING, TABLE, [key(20)], 10, exact=False, rate=5)] == [None]
