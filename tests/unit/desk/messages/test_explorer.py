"""Pages, filters and single messages over a fake browser: order, cursors, bounds, and what is asked of the broker."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from common.bus.browsing import Lying, Shelf
from common.errors import ConfigurationError, EntityMissing, TransientError
from common.message import Message as Carried
from desk.desk import NotFound
from desk.documents.messages import MessageFilter
from desk.messages.browsers import Browsers
from desk.messages.explorer import Explorer
from desk.messages.places import Place
from tests.fakes.browsing import FakeShelves

QUEUE = Shelf("ingest-queue")
START = datetime(2026, 11, 23, tzinfo=UTC)


class OneQueue:
    """Places with the ingest queue alone."""

    def of(self, entity: str) -> Place:
        bus: Any = "bus"
        return Place(entity, None, QUEUE, bus)


def lying(sequence: int, **more: Any) -> Lying:
    """One a second."""
    properties = {"table": "Persons" if sequence % 10 else "Orders", "schema": "dbo", "operation": "Insert"}
    message = Carried(
        b'{"data":{}}', f"id-{sequence}", session_id=f"s{sequence % 3}", application_properties=properties
    )
    return Lying(message, sequence, START + timedelta(seconds=sequence), **more)


def shelves(sequences: Iterable[int], **more: Any) -> FakeShelves:
    return FakeShelves({QUEUE: [lying(each) for each in sequences]}, **more)


def explorer(held: FakeShelves) -> Explorer:
    places: Any = OneQueue
    return Explorer(places, Browsers(lambda bus: held, clock=held.clock), clock=held.clock)


def all_of(held: FakeShelves, *, most: int = 7, newest_first: bool = False, **chosen: Any) -> list[int]:
    """Every page, in turn."""
    found, after = list[int](), None
    made = explorer(held)
    for _ in range(10_000):
        page = made.page(
            "queue", dead=False, chosen=MessageFilter(**chosen), after=after, most=most, newest_first=newest_first
        )
        found += [each.sequence for each in page.items]
        assert len(page.items) <= most
        if (after := page.next) is None:
            return found
    raise AssertionError("no end")


GAPS = [*range(5, 60), *range(4_000, 4_020), 100_000, *range(2_000_000, 2_000_300)]


@pytest.mark.parametrize("most", [1, 7, 250, 500])
def test_pages_follow_each_other_without_a_gap_or_a_message_twice(most: int) -> None:
    assert all_of(shelves(GAPS), most=most) == GAPS
    assert all_of(shelves(GAPS), most=most, newest_first=True) == GAPS[::-1]
    assert all_of(shelves([]), most=most) == all_of(shelves([]), most=most, newest_first=True) == []
    assert all_of(shelves([1]), most=most) == all_of(shelves([1]), most=most, newest_first=True) == [1]


def test_the_newest_first_page_of_a_large_queue_takes_few_requests() -> None:
    held = shelves(range(5_000_000, 5_020_000))
    page = explorer(held).page("queue", dead=False, chosen=MessageFilter(), after=None, most=50, newest_first=True)
    assert [each.sequence for each in page.items] == list(range(5_019_999, 5_019_949, -1))
    assert held.requests < 50


def test_a_filter_ends_a_page_after_two_seconds_and_goes_on_from_there() -> None:
    held = shelves(range(1, 5_001), page_seconds=0.5)
    page = explorer(held).page("queue", dead=False, chosen=MessageFilter(text="nowhere"), after=None, most=10)
    assert (page.items, page.next) == ([], f">{page.examined + 1}")
    assert 0 < page.examined <= 5 * 250
    assert all_of(held, most=10, message_id="id-4999") == [4999]
    assert all_of(held, most=10, message_id="id-4", newest_first=True) == [4]


@pytest.mark.parametrize("newest_first", [False, True])
@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        ({"table": "dbo.orders"}, range(10, 3_001, 10)),
        ({"table": "PERSONS", "operation": "delete"}, []),
        ({"session_id": "s1", "table": "Orders", "operation": "insert"}, range(10, 3_001, 30)),
        ({"message_id": "id-77"}, [77]),
        ({"event_id": "id-77"}, [77]),
        ({"since": START + timedelta(seconds=2_990)}, range(2_990, 3_001)),
        ({"until": START + timedelta(seconds=11)}, range(1, 11)),
        (
            {
                "since": START + timedelta(seconds=1_500),
                "until": (START + timedelta(seconds=1_600)).replace(tzinfo=None),
            },
            range(1_500, 1_600),
        ),
        ({"reason": "Refused"}, []),
    ],
)
def test_filters(chosen: dict[str, Any], expected: Iterable[int], newest_first: bool) -> None:
    found = all_of(shelves(range(1, 3_001)), most=100, newest_first=newest_first, **chosen)
    assert found == sorted(expected, reverse=newest_first)


def test_a_time_is_found_by_halving() -> None:
    held = shelves(range(1_000, 21_000))
    since = START + timedelta(seconds=18_000)
    page = explorer(held).page("queue", dead=False, chosen=MessageFilter(since=since), after=None, most=20)
    assert [each.sequence for each in page.items] == list(range(18_000, 18_020))
    assert held.requests < 60


def test_dead_letters_keep_their_times_so_all_are_looked_at() -> None:
    dead = [replace(lying(number), enqueued=START - timedelta(seconds=number)) for number in range(1, 600)]
    held = FakeShelves({replace(QUEUE, dead=True): dead})
    since = START - timedelta(seconds=3)
    page = explorer(held).page("queue", dead=True, chosen=MessageFilter(since=since), after=None, most=50)
    assert [each.sequence for each in page.items] == [1, 2, 3]
    assert (page.examined, page.next) == (599, None)


def test_trouble_on_the_way_keeps_what_was_found() -> None:
    held = shelves(range(1, 1_001))
    held.fails = {2: TransientError("the link broke", hint="wait")}
    page = explorer(held).page("queue", dead=False, chosen=MessageFilter(), after=None, most=500)
    assert [each.sequence for each in page.items] == list(range(1, 501))
    held = shelves(range(1, 1_001))
    held.fails = {3: TransientError("the link broke", hint="wait")}
    page = explorer(held).page("queue", dead=False, chosen=MessageFilter(text="nowhere"), after=None, most=250)
    assert (page.next, page.unknown[0].text, page.unknown[0].remedy) == (">751", "the link broke", "wait")
    held.fails = {held.requests: TransientError("no answer")}
    with pytest.raises(TransientError, match="no answer"):
        explorer(held).page("queue", dead=False, chosen=MessageFilter(), after=None, most=1)


def test_a_missing_entity_and_a_bad_cursor_are_named() -> None:
    held = shelves([1])
    held.fails = {0: EntityMissing("looking at ingest-queue: it does not exist")}
    with pytest.raises(NotFound, match="does not exist"):
        explorer(held).page("queue", dead=False, chosen=MessageFilter(), after=None, most=1)
    for after in ("", "7", ">", "<-1", f">{2**63}", "x" * 1000, ">1\n"):
        with pytest.raises(ConfigurationError, match="not given out"):
            explorer(held).page("queue", dead=False, chosen=MessageFilter(), after=after, most=1)


def test_one_message_is_found_by_its_number_and_not_its_neighbour() -> None:
    held = shelves([4, 9])
    made = explorer(held)
    assert made.message("queue", dead=False, sequence=9).message_id == "id-9"
    for number in (5, 10, 0, -1, 2**70):
        with pytest.raises(NotFound, match=f"message {number} in queue"):
            made.message("queue", dead=False, sequence=number)


def test_browsers_are_kept_open_for_a_minute_and_closed_with_the_rest() -> None:
    held = shelves([1])
    made = explorer(held)
    for _ in range(3):
        made.message("queue", dead=False, sequence=1)
    assert (held.opened, held.closed) == (1, 0)
    held.clock.now += 61
    made.message("queue", dead=False, sequence=1)
    assert (held.opened, held.closed) == (2, 1)
    made.close()
    assert held.closed == 3
