"""Moving an offset while an ingester commits or claims it: never both, and an old owner never wins."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from typing import TypeVar

import pytest

from common.errors import LeaseLost
from ingester.operating.offset_desk import MoveOrder
from ingester.sqlserver.offsets import SqlServerOffsets
from ingester.sqlserver.operating.desk import SqlServerDesk
from ingester.sqlserver.position import LogPosition, Lsn, in_words
from tests.contracts.operating.conftest import PERSONS, Desk

ROUNDS = 25
BACK = LogPosition.before(Lsn(bytes(9) + b"\x01"))


_T = TypeVar("_T")


def at_once(together: threading.Barrier, call: Callable[[], _T]) -> _T:
    together.wait(60)
    return call()


def at(number: int) -> LogPosition:
    return LogPosition.end_of(Lsn(number.to_bytes(10, "big")))


def test_an_owner_that_commits_all_the_time_is_stopped_by_one_move_and_moves_nothing_afterwards(desk: Desk) -> None:
    committed = threading.Semaphore(0)
    with desk.owner() as owner, closing(SqlServerDesk(desk.connection())) as store:

        def commits() -> int:
            seen: LogPosition | None = None
            for number in range(1_000, 1_000_000):
                try:
                    owner.offsets.commit(PERSONS, owner.lease.epoch, seen=seen, position=at(number))
                except LeaseLost:
                    return number
                seen = at(number)
                committed.release()
            raise AssertionError("never refused")

        with ThreadPoolExecutor(1) as pool:
            running = pool.submit(commits)
            for _ in range(20):
                assert committed.acquire(timeout=60)
            assert store.move(MoveOrder(PERSONS, owner.lease.epoch, BACK, None, None))
            refused = running.result(60)
        stored = store.stored()[PERSONS.key]
        assert stored.position == BACK
        assert stored.epoch == owner.lease.epoch + 1
        [move] = store.moves(PERSONS, 10)
        assert move.begun == in_words(at(refused - 1)), "the move begins at the last commit that was accepted"


def test_a_claim_at_the_same_moment_either_prevents_the_move_or_begins_where_it_led(desk: Desk) -> None:
    made = 0
    with (
        closing(SqlServerOffsets(desk.connection())) as offsets,
        closing(SqlServerDesk(desk.connection())) as store,
        ThreadPoolExecutor(2) as pool,
    ):
        offsets.ensure()
        offsets.claim(PERSONS, 1)
        epoch, here = 1, at(1)
        offsets.commit(PERSONS, 1, seen=None, position=here)
        for number in range(2, ROUNDS):
            together = threading.Barrier(2)
            order = MoveOrder(PERSONS, epoch, at(number), None, None)
            claiming = pool.submit(at_once, together, partial(offsets.claim, PERSONS, epoch + 1_000))
            moving = pool.submit(at_once, together, partial(store.move, order))
            moved = moving.result(60)
            here = at(number) if moved else here
            made += moved
            assert claiming.result(60).position == here
            epoch += 1_000
            assert store.stored()[PERSONS.key].epoch == epoch
        assert len(store.moves(PERSONS, 1_000)) == made


@pytest.mark.parametrize("epoch", [None, 7])
def test_a_move_that_was_planned_on_another_epoch_changes_nothing(desk: Desk, epoch: int | None) -> None:
    with desk.owner() as owner, closing(SqlServerDesk(desk.connection())) as store:
        assert not store.move(MoveOrder(PERSONS, epoch, BACK, None, None))
        assert owner.offsets.load(PERSONS, owner.lease.epoch) is None
        assert store.moves(None, 10) == []
