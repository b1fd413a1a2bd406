"""The place of a change in its transaction: what is remembered from page to page, and when the changes before must be counted."""

from __future__ import annotations

from ingester.sqlserver.change_table import ChangeTable
from ingester.sqlserver.pairing import Places, Tally
from ingester.sqlserver.position import LogPosition, Lsn
from tests.fakes.ingester import PERSONS


def lsn(number: int) -> Lsn:
    return Lsn(number.to_bytes(10, "big"))


def at(transaction: int, number: int) -> LogPosition:
    return LogPosition(lsn(transaction), number, bytes(10), 2)


def rows(*positions: LogPosition) -> list[LogPosition]:
    return [*positions]


def table(name: str = "dbo_Persons") -> ChangeTable:
    return ChangeTable(name, PERSONS, LogPosition.before(lsn(1)), (), change_table=f"{name}_CT")


def test_nothing_is_counted_where_a_page_begins_between_transactions() -> None:
    for border in (LogPosition.before(lsn(3)), LogPosition.end_of(lsn(3))):
        assert Places().known(table(), border) == Tally(border, 0)


def test_nor_where_the_page_before_ended_and_behind_it_only_what_is_new() -> None:
    places = Places()
    assert places.of(table(), LogPosition.before(lsn(1)), 0, rows(at(1, 1), at(1, 2), at(2, 1)), None) == [1, 2, 1]
    assert places.known(table(), at(2, 1)) == Tally(at(2, 1), 1)
    assert places.known(table(), at(2, 7)) == Tally(at(2, 1), 1)


def test_from_anywhere_else_the_transaction_is_counted_from_its_beginning() -> None:
    places = Places()
    places.of(table(), LogPosition.before(lsn(1)), 0, rows(at(1, 1), at(1, 2), at(2, 3)), None)
    for instance, after in (
        (table(), at(1, 2)),
        (table(), at(2, 2)),
        (table(), at(3, 1)),
        (table("another"), at(2, 3)),
    ):
        assert places.known(instance, after) == Tally(LogPosition.before(after.lsn), 0)


def test_each_tables_last_place_is_remembered_while_others_are_read_but_not_of_any_number_of_tables() -> None:
    places = Places()
    places.remember(table(), Tally(at(2, 5), 50))
    for number in range(63):
        places.remember(table(f"other{number}"), Tally(at(2, 1), 1))
    assert places.known(table(), at(2, 6)) == Tally(at(2, 5), 50)
    places.remember(table("one more"), Tally(at(2, 1), 1))
    assert places.known(table(), at(2, 6)).number == 0


def test_a_page_goes_on_counting_and_an_empty_one_forgets_nothing() -> None:
    places = Places()
    assert places.of(table(), at(2, 7), 7, rows(at(2, 8), at(2, 9), at(3, 1)), None) == [8, 9, 1]
    assert places.of(table(), at(3, 1), 1, [], None) == []
    assert places.known(table(), at(3, 1)).number == 1


def test_rows_between_which_others_were_read_have_their_numbers_from_the_server() -> None:
    places = Places()
    numbers = {at(2, 9): 2, at(2, 12): 5, at(3, 4): 4}
    assert places.of(table(), at(2, 7), 7, rows(*numbers), numbers) == [9, 12, 4]
    assert places.known(table(), at(3, 4)).number == 4
