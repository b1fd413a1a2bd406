from __future__ import annotations

import pytest

from common.errors import PermanentError
from ingester.sqlserver.pairing import Image, pair
from tests.fakes.ingester import position


def image(number: int, operation: int, seq: int = 1, command: int = 1) -> Image:
    return Image(position(number, command, seq, operation), 0, None, ())


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
