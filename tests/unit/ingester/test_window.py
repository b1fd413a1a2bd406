from __future__ import annotations

import pytest

from common.errors import PermanentError
from ingester.position import Lsn, Position
from ingester.window import Image, choose_instance, gap, pair, superseded, window
from tests.fakes.ingester import instance, lsn, position


def image(number: int, operation: int, seq: int = 1, command: int = 1) -> Image:
    return Image(position(number, command, seq, operation), 0, None, ())


def test_a_window_ends_with_the_last_captured_transaction() -> None:
    found = window([instance(start=1)], position(3), lsn(9))
    assert (found.after, found.upto, found.hands_over) == (position(3), Position.end_of(lsn(9)), False)


def test_before_the_first_capture_there_is_no_window() -> None:
    assert window([instance()], None, None).upto is None


def test_the_old_instance_is_read_up_to_the_new_ones_start_and_the_new_from_there() -> None:
    old, new = instance(start=1, name="old"), instance(start=5, name="new")
    first = window([old, new], position(3), lsn(9))
    assert (first.instance, first.upto, first.hands_over) == (old, Position.before(lsn(5)), True)
    second = window([old, new], first.upto, lsn(9))
    assert (second.instance, second.upto, second.hands_over) == (new, Position.end_of(lsn(9)), False)


def test_an_instance_whose_start_capture_has_not_reached_does_not_end_the_window() -> None:
    old, new = instance(start=1, name="old"), instance(start=50, name="new")
    assert window([old, new], position(3), lsn(9)).upto == Position.end_of(lsn(9))


def test_without_an_offset_the_oldest_instance_is_read_first() -> None:
    old, new = instance(start=1, name="old"), instance(start=5, name="new")
    assert choose_instance([old, new], None) == (old, new)


def test_three_instances_in_a_row_are_passed_through_one_by_one() -> None:
    instances = [instance(start=n, name=f"i{n}") for n in (1, 5, 7)]
    after: Position | None = None
    seen = []
    for _ in range(3):
        found = window(instances, after, lsn(9))
        seen.append(found.instance.name)
        after = found.upto
    assert seen == ["i1", "i5", "i7"]


def test_an_offset_below_the_low_watermark_is_a_gap() -> None:
    found = gap(position(3), lsn(4))
    assert found is not None
    assert found.low_watermark == lsn(4)


@pytest.mark.parametrize("low", [lsn(3), lsn(2), Lsn(bytes(10)), None])
def test_no_gap_is_seen_where_none_is_known(low: Lsn | None) -> None:
    assert gap(position(3), low) is None


def test_an_updates_two_rows_are_one_change() -> None:
    rows = [image(1, 2), image(2, 3), image(2, 4), image(3, 1)]
    assert [(p.before, p.row) for p in pair(rows, full=False)] == [
        (None, rows[0]),
        (rows[1], rows[2]),
        (None, rows[3]),
    ]


def test_a_before_image_at_a_pages_end_is_left_for_the_next_page() -> None:
    rows = [image(1, 2), image(2, 3)]
    assert [p.row for p in pair(rows, full=True)] == [rows[0]]


def test_a_delete_and_an_insert_of_a_key_update_stay_two_changes_in_order() -> None:
    rows = [image(1, 1, command=1), image(1, 2, command=2)]
    assert [p.row for p in pair(rows, full=False)] == rows


@pytest.mark.parametrize("rows", [[image(2, 3), image(2, 4, seq=2)], [image(2, 3), image(3, 2)], [image(2, 3)]])
def test_a_before_image_without_its_after_image_is_refused(rows: list[Image]) -> None:
    with pytest.raises(PermanentError, match="no after image"):
        pair(rows, full=False)


def test_without_an_offset_instances_that_start_at_one_lsn_are_one_and_the_later_is_read() -> None:
    """Cleanup brings both to one low watermark; reading the older up to the newer's start would be reading nothing, for ever."""
    older, newer = instance(start=5, name="older"), instance(start=5, name="newer")
    assert choose_instance([older, newer], None) == (newer, None)
    assert window([older, newer], None, lsn(9)).hands_over is False


def test_an_instance_is_superseded_when_the_offset_has_come_to_the_next_ones_start() -> None:
    old, new = instance(start=1, name="old"), instance(start=5, name="new")
    assert superseded([old, new], None) == ()
    assert superseded([old, new], position(4)) == ()
    assert superseded([old, new], Position.before(lsn(5))) == (old,)
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
