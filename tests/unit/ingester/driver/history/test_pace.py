"""When a snapshot may go on."""

from __future__ import annotations

from math import inf

from ingester.driver.history.pace import Pace


def pace() -> Pace:
    return Pace(lambda: 0.0)


def test_without_a_rate_the_next_round_may_begin_at_once() -> None:
    one = pace()
    assert one.may_begin(0.0, -inf)
    one.round_over(10.0, begun=9.0, sent=10_000, rate=None, failed=False)
    assert one.may_begin(10.0, -inf)


def test_a_round_takes_as_long_as_its_rows_at_the_rate() -> None:
    one = pace()
    one.round_over(10.0, begun=9.0, sent=5_000, rate=1_000, failed=False)
    assert not one.may_begin(13.9, -inf)
    assert one.may_begin(14.0, -inf)


def test_failures_wait_longer_and_a_success_ends_that() -> None:
    one = pace()
    waits = []
    for _ in range(8):
        one.round_over(0.0, begun=0.0, sent=0, rate=None, failed=True)
        waits.append(next(wait for wait in range(100) if one.may_begin(float(wait), -inf)))
    assert waits == [2, 4, 8, 16, 32, 60, 60, 60]
    one.round_over(0.0, begun=0.0, sent=1, rate=None, failed=False)
    assert one.failures == 0


def test_a_namespace_that_throttles_is_left_to_live_changes_but_for_a_round_now_and_then() -> None:
    one = pace()
    one.round_over(100.0, begun=99.0, sent=10, rate=None, failed=False)
    assert not one.may_begin(120.0, 119.0)
    assert one.may_begin(130.0, 129.0)
    assert one.one_task(130.0, 129.0)
    assert not one.one_task(200.0, 129.0)
    assert one.may_begin(149.0, 119.0)
