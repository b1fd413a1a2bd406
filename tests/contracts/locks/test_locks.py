"""The promises of ingester/locks.py, kept by the fake that the loop's tests use and by every kind of lock that can be configured."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from common.errors import LeaseLost
from ingester.local.locks import AGAIN_SECONDS
from ingester.locks import Lease, Locks
from tests.contracts.locks.conftest import OTHER, SHARED, TABLE, Place

shared = pytest.mark.parametrize("place", SHARED, indirect=True)
"""Locks that another process sees."""


def taken(locks: Locks, name: str = TABLE) -> Lease:
    lease = locks.acquire(name)
    assert lease is not None
    return lease


def test_a_held_lock_is_not_handed_out_again_until_it_is_released(place: Place) -> None:
    locks = place.ingester()
    lease = taken(locks)
    assert locks.acquire(TABLE) is None
    locks.release(lease)
    assert locks.acquire(TABLE) is not None


def test_each_acquisition_has_a_larger_epoch_even_within_one_tick(place: Place) -> None:
    locks = place.ingester()
    epochs = []
    for _ in range(3):
        lease = taken(locks)
        epochs.append(lease.epoch)
        locks.release(lease)
    assert epochs == sorted(set(epochs))


def test_epochs_grow_over_a_restart(place: Place) -> None:
    before = place.ingester()
    first = taken(before)
    before.release(first)
    place.clock.ahead += 0.002
    assert taken(place.ingester()).epoch > first.epoch


def test_tables_do_not_share_a_lock(place: Place) -> None:
    locks = place.ingester()
    taken(locks)
    taken(locks, OTHER)


@pytest.mark.parametrize("table", ["a b", "a'b", "a%sb", "[a.b]", "a#?&=b", "žluť 🐎", "A", "a", "x" * 300])
def test_odd_names_are_locks_of_their_own(place: Place, table: str) -> None:
    locks, name = place.ingester(), f"server/database/dbo.{table}.lock"
    taken(locks, "server/database/dbo.b.lock")
    assert locks.held([name]) == frozenset()
    lease = taken(locks, name)
    assert locks.held([name, OTHER]) == {name}
    assert locks.acquire(name) is None
    assert locks.renew(lease).epoch == lease.epoch


def test_held_names_those_locks_that_somebody_has(place: Place) -> None:
    locks = place.ingester()
    assert locks.held([TABLE, OTHER]) == frozenset()
    lease = taken(locks)
    assert locks.held([TABLE, OTHER]) == {TABLE}
    assert locks.held([]) == frozenset()
    locks.release(lease)
    assert locks.held([TABLE, OTHER]) == frozenset()


def test_an_old_lease_gives_back_nothing(place: Place) -> None:
    locks = place.ingester()
    old = taken(locks)
    locks.release(old)
    locks.release(old)
    taken(locks)
    locks.release(old)
    assert locks.acquire(TABLE) is None


@shared
def test_another_ingester_gets_a_lock_only_when_it_is_given_back(place: Place) -> None:
    one, two = place.ingester(), place.ingester()
    lease = taken(one)
    assert two.acquire(TABLE) is None
    assert two.held([TABLE]) == {TABLE}
    one.release(lease)
    assert taken(two).epoch > lease.epoch


@shared
def test_of_many_that_ask_at_once_one_gets_it(place: Place) -> None:
    ingesters = [place.ingester() for _ in range(6)]
    with ThreadPoolExecutor(6) as pool:
        leases = list(pool.map(lambda locks: locks.acquire(TABLE), ingesters))
    assert sum(lease is not None for lease in leases) == 1


@shared
def test_a_renewed_lease_keeps_its_epoch_and_ends_later_if_it_ends(place: Place) -> None:
    locks = place.ingester()
    lease = taken(locks)
    place.clock.ahead += 3
    renewed = locks.renew(lease)
    assert renewed.epoch == lease.epoch
    assert (renewed.ends_at is None) == (lease.ends_at is None) == (locks.renew_seconds is None)
    if renewed.ends_at is not None and lease.ends_at is not None:
        assert renewed.ends_at >= lease.ends_at + 3


@shared
def test_a_dead_owner_loses_its_lock_a_live_one_does_not(place: Place) -> None:
    dead, live, standby = place.ingester(), place.ingester(), place.ingester()
    lost, kept = taken(dead), taken(live, OTHER)
    place.expire(lambda: live.renew(kept))
    assert standby.acquire(OTHER) is None
    assert standby.held([TABLE, OTHER]) == {OTHER}
    won = taken(standby)
    assert won.epoch > lost.epoch
    with pytest.raises(LeaseLost, match=r"dbo\.Persons\.lock"):
        dead.renew(lost)
    dead.release(lost)
    dead.lost(lost)
    assert live.acquire(TABLE) is None
    assert standby.renew(won).epoch == won.epoch


@shared
def test_a_lock_that_was_given_back_cannot_be_renewed(place: Place) -> None:
    locks = place.ingester()
    lease = taken(locks)
    locks.release(lease)
    with pytest.raises(LeaseLost):
        locks.renew(lease)


@shared
def test_a_lock_lost_to_a_newer_owner_may_be_had_again_later(place: Place) -> None:
    locks = place.ingester()
    locks.lost(taken(locks))
    assert locks.acquire(TABLE) is not None


@pytest.mark.parametrize("place", ["local"], indirect=True)
def test_a_local_lock_lost_to_a_newer_owner_is_not_fought_over_and_taken_again_after_a_pause(place: Place) -> None:
    locks = place.ingester()
    lost = taken(locks)
    locks.lost(lost)
    place.clock.ahead += AGAIN_SECONDS - 1
    assert locks.acquire(TABLE) is None
    place.clock.ahead += 2
    assert taken(locks).epoch > lost.epoch
