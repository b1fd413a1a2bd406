from __future__ import annotations

from common.message import Message
from ingester.task.page_size import BATCHES, PROPERTIES_BYTES, SAMPLE_ROWS, learnt, page_rows

STANDARD, PREMIUM = 256 * 1024, 1024 * 1024


def of(size: int, count: int = 1) -> list[Message]:
    return [Message(b"x" * size, "id")] * count


def test_the_first_page_of_a_table_is_a_sample() -> None:
    assert page_rows(2000, None, STANDARD) == SAMPLE_ROWS
    assert page_rows(7, None, STANDARD) == 7


def test_a_page_is_a_few_full_batches_of_what_rows_were_encoded_to() -> None:
    row = learnt(None, of(10_000))
    assert row == 10_000 + PROPERTIES_BYTES
    assert page_rows(2000, row, STANDARD) == BATCHES * STANDARD // row
    assert page_rows(2000, row, PREMIUM) == BATCHES * PREMIUM // row


def test_narrow_rows_are_bounded_by_the_setting_and_wide_ones_come_one_at_a_time() -> None:
    assert page_rows(2000, learnt(None, of(100)), STANDARD) == 2000
    assert page_rows(2000, learnt(None, of(5_000_000)), STANDARD) == 1


def test_wider_rows_count_at_once_and_narrower_ones_by_and_by() -> None:
    narrow, wide = 100.0 + PROPERTIES_BYTES, 10_000.0 + PROPERTIES_BYTES
    assert learnt(narrow, of(10_000)) == wide
    assert learnt(wide, of(100)) == (wide + narrow) / 2


def test_an_empty_page_teaches_nothing() -> None:
    assert learnt(700.0, []) == 700.0
    assert learnt(None, []) is None
