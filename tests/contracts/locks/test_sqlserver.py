"""What is special about application locks: one session holds them all, and the epoch is the offset's own."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from common.clock import unix
from common.errors import LeaseLost, PermanentError, TransientError
from common.names import TableName
from dstream.emulators import Login
from ingester.local.locks import LocalLocks
from ingester.sqlserver.locks import LEASE_SECONDS, SqlServerLocks, resource
from ingester.sqlserver.offsets import SqlServerOffsets
from tests.contracts.locks.conftest import OTHER, TABLE, Clock, end_session, sqlserver_locks

PERSONS = TableName("dbo", "Persons")


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def locks(login: Login, clock: Clock) -> Iterator[SqlServerLocks]:
    made = sqlserver_locks(login, clock)
    made.ensure()
    yield made
    made.close()


def test_the_end_of_the_session_is_the_end_of_every_lease(locks: SqlServerLocks, login: Login, clock: Clock) -> None:
    one, two = locks.acquire(TABLE), locks.acquire(OTHER)
    assert one is not None
    assert two is not None
    end_session(login, locks)
    for lease in (one, two):
        with pytest.raises(LeaseLost, match="session has ended"):
            locks.renew(lease)
    again = locks.acquire(TABLE)
    assert again is not None
    assert again.epoch > one.epoch
    clock.ahead += 2
    assert locks.renew(again).epoch == again.epoch


def test_after_a_question_that_failed_nothing_is_held_there_either(locks: SqlServerLocks, login: Login) -> None:
    lease = locks.acquire(TABLE)
    assert lease is not None
    end_session(login, locks)
    with pytest.raises(TransientError):
        locks.held([TABLE])
    assert locks.held([TABLE]) == frozenset()
    locks.release(lease)
    with pytest.raises(LeaseLost):
        locks.renew(lease)


def test_a_lease_is_as_long_as_the_session_is_known_to_live(
    locks: SqlServerLocks, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = locks.acquire(TABLE), locks.acquire(OTHER)
    assert one is not None
    assert two is not None
    asked: list[str] = []
    ask = locks._ask

    def counted(sql: str, parameters: Sequence[object]) -> list[tuple[Any, ...]]:
        asked.append(sql)
        return ask(sql, parameters)

    monkeypatch.setattr(locks, "_ask", counted)
    clock.ahead += 5
    before = clock()
    until = locks.renew(one).ends_at
    assert until is not None
    assert before + LEASE_SECONDS <= until <= clock() + LEASE_SECONDS
    assert locks.renew(two).ends_at == until
    assert len(asked) == 1  # one session, one question


def test_the_epoch_is_above_every_one_that_was_stored_whatever_the_kind_of_lock(login: Login) -> None:
    locks = sqlserver_locks(login, Clock())
    offsets = SqlServerOffsets(locks._connection)
    before = LocalLocks(unix).acquire(TABLE)
    assert before is not None
    offsets.claim(PERSONS, before.epoch)
    lease = locks.acquire(TABLE)
    assert lease is not None
    assert lease.epoch == before.epoch + 1
    assert offsets.claim(PERSONS, lease.epoch).position is None
    with pytest.raises(LeaseLost):
        offsets.claim(PERSONS, before.epoch)
    time.sleep(0.003)
    after = LocalLocks(unix).acquire(TABLE)
    assert after is not None
    assert after.epoch > lease.epoch
    locks.close()


def test_a_lock_that_is_no_tables_has_no_epoch(locks: SqlServerLocks) -> None:
    lease = locks.acquire("server/database/ingester-0.lock")
    assert lease is not None
    assert lease.epoch == 0
    assert locks.renew(lease) is not None


def test_a_lock_whose_epoch_may_not_be_raised_is_given_back(
    locks: SqlServerLocks, login: Login, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "ingester.sqlserver.sql.locks.RAISE_EPOCH", "SELECT 1 FROM dbo.there_is_no_such_table -- \0\0\0\0\0"
    )
    with pytest.raises(PermanentError):
        locks.acquire(TABLE)
    monkeypatch.undo()
    standby = sqlserver_locks(login, Clock())
    assert standby.acquire(TABLE) is not None
    standby.close()


def test_names_past_the_procedures_limit_stay_apart() -> None:
    names = {resource("x" * length) for length in range(240, 300)}
    assert len(names) == 60
    assert max(map(len, names)) <= 255
