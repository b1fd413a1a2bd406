"""How long a lock lasts, whatever the wall clock says."""

from __future__ import annotations

import pytest

from common.servicebus.lock_life import LONGEST, SHORTEST, LockLife, clock_ahead, hold


@pytest.mark.parametrize(("length", "held"), [(60, 20), (30, 15), (5, 2.5), (3, 2), (300, 20), (0, 0)])
def test_a_lock_is_renewed_at_half_its_length_within_bounds(length: float, held: float) -> None:
    assert hold(length) == held


def test_a_lock_lasts_from_when_it_was_taken_and_again_from_when_its_renewal_was_asked_for() -> None:
    lock = LockLife.taken(60.0, 1000.0)
    assert (lock.left(1010.0), lock.due(1010.0), lock.due(1020.0)) == (50.0, False, True)
    lock.renewed(59.0, 1020.0)
    assert (lock.left(1022.0), lock.due(1022.0)) == (57.0, False)
    assert lock.left(1200.0) < 0


@pytest.mark.parametrize("ahead", [58.0, 60.0, 3600.0])
def test_a_lock_that_seems_to_be_over_is_renewed_before_anything_is_sent(ahead: float) -> None:
    """The clock may be ahead, or this process may have slept since it got the lock: only the service knows which."""
    lock = LockLife.taken(60.0 - ahead, 1000.0)
    assert lock.left(1000.0) <= 0
    assert lock.due(1000.0)
    lock.renewed(60.0 - ahead, 1000.0)
    assert lock.left(1001.0) == SHORTEST - 1
    assert not lock.due(1001.0)


def test_no_lock_is_believed_to_last_for_longer_than_locks_do() -> None:
    assert LockLife.taken(86_400.0, 0.0).left(0.0) == LONGEST


@pytest.mark.parametrize(
    ("remaining", "ahead"), [(60.0, 0.0), (4.0, 0.0), (300.0, 0.0), (-55.0, 60.0), (-3540.0, 3545.0), (360.0, -60.0)]
)
def test_what_no_lock_lasts_is_the_difference_of_the_clocks(remaining: float, ahead: float) -> None:
    assert clock_ahead(remaining) == ahead
