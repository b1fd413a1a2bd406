"""Streams of events: what one gets at first, and how many a client has."""

from __future__ import annotations

import asyncio

import pytest

from desk.console.http.events import Event, Events, Reader, Seen
from desk.console.refusals import Busy
from tests.fakes.desk import lively_desk


def test_the_first_state_may_be_longer_than_a_reader_may_be_behind() -> None:
    async def first() -> list[str]:
        events = Events()
        table = lively_desk(tables=1).watching.tables()[0]
        events._seen = Seen(1, {f"dbo.T{number}": table for number in range(14_000)}, "[]", "{}")
        lines, found = events.lines(events.open(None)), list[str]()
        async for line in lines:
            found.append(line)
            if "event: operations" in line:
                break
        await lines.aclose()  # type: ignore[attr-defined]
        return found

    assert len(asyncio.run(first())) == 1 + 1 + 70 + 1


def test_one_client_does_not_take_all_streams() -> None:
    async def opened() -> None:
        events = Events(most=4, most_each=3)
        own = [events.open(None, "a") for _ in range(3)]
        with pytest.raises(Busy):
            events.open(None, "a")
        events.open(None, "b")
        events.open(None, "c")
        assert events.readers == 4
        await asyncio.sleep(0)
        assert [each.queue.qsize() for each in own] == [1, 0, 0]  # the oldest of who had most is over
        events.open(None, "a")

    asyncio.run(opened())


def test_one_that_missed_more_than_it_may_be_behind_gets_the_whole() -> None:
    async def first() -> Reader:
        events = Events()
        events._seen = Seen(2, {}, "[]", "{}")
        events._kept.append((1, tuple(Event("tables", 1, "x") for _ in range(80))))
        return events.open(0)

    assert [each.data for each in asyncio.run(first()).first][:1] == ["{}"]
