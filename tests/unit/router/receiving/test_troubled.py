"""Failures of a session are counted in a row, and forgotten when it is well or was quiet for long."""

from __future__ import annotations

from router.receiving.troubled import FORGOTTEN, LASTING, Troubled


def test_failures_count_in_a_row_for_each_session() -> None:
    troubled = Troubled()
    assert [troubled.failed("a", 0.0), troubled.failed("b", 0.0), troubled.failed("a", 1.0)] == [1, 1, 2]
    assert [troubled.well("a"), troubled.well("c")] == [2, 0]
    assert [troubled.failed("a", 2.0), troubled.failed("b", 2.0)] == [1, 2]


def test_what_was_long_ago_is_another_trouble() -> None:
    troubled = Troubled()
    troubled.failed("a", 0.0)
    assert troubled.failed("a", FORGOTTEN) == 1


def test_sessions_fail_again_and_again_from_the_second_failure_on_until_they_are_well_or_gone() -> None:
    troubled = Troubled()
    for session, now in (("a", 0.0), ("b", 0.0), ("b", 1.0), ("c", 0.0), ("c", 10.0)):
        troubled.failed(session, now)
    assert troubled.failing(11.0) == 2
    troubled.well("b")
    assert troubled.failing(11.0) == 1
    assert troubled.failing(10.0 + LASTING) == 0
