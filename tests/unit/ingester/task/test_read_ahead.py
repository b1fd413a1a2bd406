from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from common.errors import TransientError
from ingester.position import Position
from ingester.source import Page, PageQuery
from ingester.sqlserver.position import LogPosition, in_the_log
from ingester.task.read_ahead import ReadAhead
from tests.fakes.ingester import PERSONS, FakeSource, instance, lsn, position

UPTO = LogPosition.end_of(lsn(9))
START: Position = LogPosition.before(lsn(1))
PATIENCE = 10.0


class Counted(FakeSource):
    """`read`: released once a page."""

    def __init__(self) -> None:
        super().__init__(rows={instance().name: [position(number) for number in range(1, 7)]})
        self.read = threading.Semaphore(0)
        self.closed = threading.Event()
        self.after_page = self.read.release

    def wait_for_a_page(self) -> None:
        assert self.read.acquire(timeout=PATIENCE)

    def close(self) -> None:
        self.closed.set()


@pytest.fixture
def inner() -> Counted:
    return Counted()


@pytest.fixture
def ahead(inner: Counted) -> Iterator[ReadAhead]:
    source = ReadAhead(inner)
    yield source
    source.close()


def page(source: ReadAhead, after: Position = START, upto: Position = UPTO, rows: int = 2) -> Page:
    return source.page(PageQuery(instance(PERSONS), after=after, upto=upto, rows=rows))


def numbers(found: Page) -> list[int]:
    return [int.from_bytes(in_the_log(change.position).lsn.value, "big") for change in found.changes]


def test_the_next_page_is_read_before_it_is_asked_for(inner: Counted, ahead: ReadAhead) -> None:
    first = page(ahead)
    inner.wait_for_a_page()
    inner.wait_for_a_page()
    assert first.end is not None
    assert numbers(page(ahead, first.end)) == [3, 4]
    inner.wait_for_a_page()
    assert inner.pages == 3


def test_pages_follow_each_other_to_the_end_of_the_window(ahead: ReadAhead) -> None:
    found, after = [], START
    while (read := page(ahead, after)).end is not None:
        found += numbers(read)
        after = read.end
    assert found == [1, 2, 3, 4, 5, 6]


def test_nothing_is_read_past_a_page_that_was_not_full(inner: Counted, ahead: ReadAhead) -> None:
    page(ahead, rows=100)
    ahead.states([])  # in turn: after whatever was begun
    assert inner.pages == 1


def test_nothing_is_read_past_the_windows_end(inner: Counted, ahead: ReadAhead) -> None:
    page(ahead, upto=position(2))
    ahead.states([])
    assert inner.pages == 1


def test_a_failed_page_is_told_to_who_asks_for_it_and_read_again_after_that(inner: Counted, ahead: ReadAhead) -> None:
    def fail_next() -> None:
        inner.after_page = None
        inner.fail = TransientError("gone")

    inner.after_page = fail_next
    first = page(ahead)
    assert first.end is not None
    with pytest.raises(TransientError, match="gone"):
        page(ahead, first.end)
    assert numbers(page(ahead, first.end)) == [3, 4]


def test_a_page_that_nobody_asks_for_is_dropped(inner: Counted, ahead: ReadAhead) -> None:
    page(ahead)
    inner.wait_for_a_page()
    inner.wait_for_a_page()
    assert numbers(page(ahead, position(4))) == [5, 6]


def test_a_page_of_another_window_is_not_taken_for_it(inner: Counted, ahead: ReadAhead) -> None:
    first = page(ahead)
    assert first.end is not None
    assert numbers(page(ahead, first.end, upto=position(3))) == [3]


def test_closing_closes_the_connection_once_nothing_is_read_any_more(inner: Counted) -> None:
    source = ReadAhead(inner)
    page(source)
    source.close()
    assert inner.closed.wait(PATIENCE)
    assert inner.pages == 2
