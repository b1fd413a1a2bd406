"""How long callers wait after failures."""

from __future__ import annotations

import pytest

from common.retry import Backoff, jittered


def test_the_ceiling_grows_with_each_failure_up_to_the_longest_wait() -> None:
    backoff = Backoff(first=0.5, factor=2.0, longest=5.0)
    assert [backoff.ceiling(attempt) for attempt in range(1, 7)] == [0.5, 1.0, 2.0, 4.0, 5.0, 5.0]


def test_the_delay_is_the_share_of_the_ceiling_that_chance_gives() -> None:
    backoff = Backoff(first=1.0, longest=8.0)
    shares = iter((0.0, 0.25, 0.999))
    assert [backoff.delay(3, lambda: next(shares)) for _ in range(3)] == [0.0, 1.0, 3.996]


def test_an_endless_outage_does_not_overflow() -> None:
    assert Backoff(longest=30.0).ceiling(1_000_000) == 30.0


@pytest.mark.parametrize(
    ("first", "factor", "longest"), [(0.0, 2.0, 1.0), (1.0, 0.5, 2.0), (2.0, 2.0, 1.0), (-1.0, 2.0, 1.0)]
)
def test_a_back_off_that_makes_no_sense_is_refused(first: float, factor: float, longest: float) -> None:
    with pytest.raises(ValueError):
        Backoff(first, factor, longest)


@pytest.mark.parametrize(("chance", "wait"), [(0.0, 10.0), (0.5, 7.5), (1.0, 5.0)])
def test_a_fixed_pace_is_never_slower_than_promised_and_not_the_same_for_all(chance: float, wait: float) -> None:
    assert jittered(10.0, 0.5, lambda: chance) == wait
