"""What an ingester takes next to others: its share at once, the rest if nobody else takes it."""

from __future__ import annotations

import pytest

from ingester.driver.fair_share import PATIENCE_SECONDS, FairShare, fair

FREE = [f"t{number}" for number in range(10)]


@pytest.mark.parametrize(
    ("tables", "live", "each"), [(10, 1, 10), (10, 2, 5), (10, 3, 4), (1, 5, 1), (0, 3, 0), (7, 0, 7)]
)
def test_a_share_is_an_equal_part_rounded_up(tables: int, live: int, each: int) -> None:
    assert fair(tables, live) == each


def test_alone_it_takes_everything() -> None:
    assert FairShare().pick(FREE, mine=0, tables=10, live=1, now=0) == FREE


def test_beside_others_it_takes_its_share_and_no_more() -> None:
    share = FairShare()
    assert share.pick(FREE, mine=0, tables=10, live=2, now=0) == FREE[:5]
    assert share.pick(FREE[5:], mine=5, tables=10, live=2, now=1) == []


def test_what_others_leave_for_long_is_taken_all_the_same_and_kept() -> None:
    share = FairShare()
    left = FREE[5:]
    assert share.pick(left, mine=5, tables=10, live=2, now=0) == []
    assert share.pick(left, mine=5, tables=10, live=2, now=PATIENCE_SECONDS - 1) == []
    assert share.pick(left, mine=5, tables=10, live=2, now=PATIENCE_SECONDS) == left
    assert share.surplus(mine=10, tables=10, live=2) == 0


def test_what_was_taken_in_between_is_waited_for_anew() -> None:
    share = FairShare()
    share.pick(FREE[5:], mine=5, tables=10, live=2, now=0)
    share.pick([], mine=5, tables=10, live=2, now=20)
    assert share.pick(FREE[5:], mine=5, tables=10, live=2, now=PATIENCE_SECONDS + 10) == []


def test_one_more_ingester_gets_what_is_above_the_share() -> None:
    share = FairShare()
    assert share.surplus(mine=10, tables=10, live=1) == 0
    assert share.surplus(mine=10, tables=10, live=2) == 5
    assert share.surplus(mine=5, tables=10, live=2) == 0


def test_a_further_ingester_ends_the_generosity() -> None:
    share = FairShare()
    share.pick(FREE[5:], mine=5, tables=10, live=2, now=0)
    share.pick(FREE[5:], mine=5, tables=10, live=2, now=PATIENCE_SECONDS)
    assert share.surplus(mine=10, tables=10, live=3) == 6
