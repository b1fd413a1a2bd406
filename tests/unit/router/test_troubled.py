"""Failures of a session are counted in a row, and forgotten when it is well or was quiet for long."""

from __future__ import annotations

from router.troubled import FORGOTTEN, Troubled


def test_failures_count_in_a_row_for_each_session() -> None:
    troubled = Troubled()
    assert [troubled.failed("a", 0.0), troubled.failed("b", 0.0), troubled.failed("a", 1.0)] == [1, 1, 2]
    troubled.well("a")
    assert [troubled.failed("a", 2.0), troubled.failed("b", 2.0)] == [1, 2]


def test_what_was_long_ago_is_another_trouble() -> None:
    troubled = Troubled()
    troubled.failed("a", 0.0)
    assert troubled.failed("a", FORGOTTEN) == 1
