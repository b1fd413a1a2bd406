from __future__ import annotations

import pytest

from ingester.position import Position
from ingester.sqlserver.position import LogPosition, Lsn
from ingester.window import choose_instance, gap, superseded, window
from tests.fakes.ingester import instance, lsn, position


def captured(number: int) -> Position:
    return LogPosition.end_of(lsn(number))


def test_a_window_ends_with_the_last_captured_transaction() -> None:
    found = window([instance(start=1)], position(3), captured(9))
    assert (found.after, found.upto, found.hands_over) == (position(3), captured(9), False)


def test_before_the_first_capture_there_is_no_window() -> None:
    assert window([instance()], None, None).upto is None


def test_the_old_instance_is_read_up_to_the_new_ones_start_and_the_new_from_there() -> None:
    old, new = instance(start=1, name="old"), instance(start=5, name="new")
    first = window([old, new], position(3), captured(9))
    assert (first.instance, first.upto, first.hands_over) == (old, LogPosition.before(lsn(5)), True)
    second = window([old, new], first.upto, captured(9))
    assert (second.instance, second.upto, second.hands_over) == (new, captured(9), False)


def test_an_instance_whose_start_capture_has_not_reached_does_not_end_the_window() -> None:
    old, new = instance(start=1, name="old"), instance(start=50, name="new")
    assert window([old, new], position(3), captured(9)).upto == captured(9)


def test_without_an_offset_the_oldest_instance_is_read_first() -> None:
    old, new = instance(start=1, name="old"), instance(start=5, name="new")
    assert choose_instance([old, new], None) == (old, new)


def test_three_instances_in_a_row_are_passed_through_one_by_one() -> None:
    instances = [instance(start=n, name=f"i{n}") for n in (1, 5, 7)]
    after: Position | None = None
    seen = []
    for _ in range(3):
        found = window(instances, after, captured(9))
        seen.append(found.instance.name)
        after = found.upto
    assert seen == ["i1", "i5", "i7"]


def test_an_offset_below_the_low_watermark_is_a_gap() -> None:
    found = gap(position(3), LogPosition.before(lsn(4)))
    assert found is not None
    assert found.low_watermark == LogPosition.before(lsn(4))


@pytest.mark.parametrize("low", [lsn(3), lsn(2), Lsn(bytes(10)), None])
def test_no_gap_is_seen_where_none_is_known(low: Lsn | None) -> None:
    assert gap(position(3), None if low is None else LogPosition.before(low)) is None


def test_without_an_offset_instances_that_start_at_one_lsn_are_one_and_the_later_is_read() -> None:
    """Cleanup brings both to one low watermark; reading the older up to the newer's start would be reading nothing, for ever."""
    older, newer = instance(start=5, name="older"), instance(start=5, name="newer")
    assert choose_instance([older, newer], None) == (newer, None)
    assert window([older, newer], None, captured(9)).hands_over is False


def test_an_instance_is_superseded_when_the_offset_has_come_to_the_next_ones_start() -> None:
    old, new = instance(start=1, name="old"), instance(start=5, name="new")
    assert superseded([old, new], None) == ()
    assert superseded([old, new], position(4)) == ()
    assert superseded([old, new], LogPosition.before(lsn(5))) == (old,)
    assert superseded([], position(4)) == ()
    assert superseded([new], position(9)) == ()


def test_the_later_instance_takes_over_even_where_cleanup_left_the_older_one_less() -> None:
    """sys.sp_cdc_cleanup_change_table moves one instance's start alone: the older one is no successor for that."""
    older, newer = instance(start=7, name="older"), instance(start=5, name="newer")
    for after in (None, position(3), position(5), position(9)):
        assert choose_instance([older, newer], after) == (newer, None)
    assert superseded([older, newer], position(9)) == (older,)


def test_an_offset_below_every_instance_is_answered_by_the_one_that_reaches_back_furthest() -> None:
    older, newer = instance(start=4, name="older"), instance(start=6, name="newer")
    assert choose_instance([older, newer], position(2)) == (older, newer)
