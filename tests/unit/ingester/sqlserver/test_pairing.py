from __future__ import annotations

import pytest

from common.errors import PermanentError
from ingester.sqlserver.pages.place import mask_of, operation_of, position_of, positions
from ingester.sqlserver.pairing import pair
from ingester.sqlserver.position import LogPosition, Lsn
from tests.fakes.ingester import position


def image(number: int, operation: int, seq: int = 1, command: int = 1) -> LogPosition:
    return position(number, command, seq, operation)


def test_a_place_is_the_bytes_of_its_parts() -> None:
    one, other = bytes(range(10)), bytes(range(10, 20))
    place = one + bytes([0, 1, 2, 3]) + other + bytes([0, 0, 0, 4]) + b"\x05\x01"
    expected = LogPosition(Lsn(one), 0x010203, other, 4)
    assert positions([(place, "value"), (place[:-2],)]) == [expected, expected]
    assert position_of(one, 0x010203, other, 4) == expected
    assert (operation_of(place), mask_of(place), mask_of(place, 1)) == (4, b"\x05\x01", b"\x01")
    before = one + b"\xff\xff\xff\xff" + place[14:]
    assert positions([(before,)]) == [LogPosition(Lsn(one), -1, other, 4)]


def test_numbers_with_their_lowest_byte_first_are_refused_and_never_guessed() -> None:
    with pytest.raises(PermanentError, match="bytes of a position in the log have a layout"):
        positions([(bytes(24) + b"\2\0\0\0\7",)])


@pytest.mark.parametrize("missing", range(4))
def test_a_row_without_a_part_of_its_position_is_refused(missing: int) -> None:
    parts: list[object] = [bytes(10), 1, bytes(10), 2]
    with pytest.raises(PermanentError, match="without their position"):
        position_of(*(None if at == missing else part for at, part in enumerate(parts)))
    with pytest.raises(PermanentError, match="without their position"):
        positions([(bytes(29), 1), (None, 1)])


def test_an_updates_two_rows_are_one_change() -> None:
    rows = [image(1, 2), image(2, 3), image(2, 4), image(3, 1)]
    assert pair(rows, full=False) == [(None, 0), (1, 2), (None, 3)]


def test_a_before_image_at_a_pages_end_is_left_for_the_next_page() -> None:
    rows = [image(1, 2), image(2, 3)]
    assert pair(rows, full=True) == [(None, 0)]


def test_a_delete_and_an_insert_of_a_key_update_stay_two_changes_in_order() -> None:
    rows = [image(1, 1, command=1), image(1, 2, command=2)]
    assert pair(rows, full=False) == [(None, 0), (None, 1)]


@pytest.mark.parametrize("rows", [[image(2, 3), image(2, 4, seq=2)], [image(2, 3), image(3, 2)], [image(2, 3)]])
def test_a_before_image_without_its_after_image_is_refused(rows: list[LogPosition]) -> None:
    with pytest.raises(PermanentError, match="no after image"):
        pair(rows, full=False)
