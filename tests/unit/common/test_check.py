"""What `dstream check` makes of a clock and of numbers, and that topics are told as they come."""

from __future__ import annotations

import threading
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from common.check import Finding, Outcome
from common.errors import TransientError
from common.servicebus import check as check_entities
from common.servicebus.check import topic_findings
from common.servicebus.check_clock import judge_clock, seconds_ahead
from common.servicebus.check_connections import judge_connections
from common.servicebus.management import AT_ONCE

LOCK = timedelta(minutes=1)


def test_the_clock_is_compared_with_the_date_of_an_answer() -> None:
    headers = {"Date": "Sun, 22 Nov 2026 08:17:06 GMT"}
    assert seconds_ahead(headers, 1795335426.0 + 12.5) == 12.5
    assert seconds_ahead({}, 0.0) is seconds_ahead({"Date": "soon"}, 0.0) is None


@pytest.mark.parametrize(
    ("ahead", "lock", "outcomes"),
    [
        (None, LOCK, []),
        (4.9, LOCK, []),
        (-4.9, LOCK, []),
        (6.0, LOCK, [Outcome.WARN]),
        (-90.0, LOCK, [Outcome.WARN]),
        (60.0, LOCK, [Outcome.FAIL]),
        (90.0, None, [Outcome.WARN]),
    ],
)
def test_a_clock_ahead_by_more_than_a_lock_fails(
    ahead: float | None, lock: timedelta | None, outcomes: list[Outcome]
) -> None:
    assert [found.outcome for found in judge_clock(ahead, lock)] == outcomes


def connections(*, topics: int = 20, sessions: int = 8, workers: int = 4, shared: bool = True) -> Finding:
    return judge_connections(topics=topics, most_open=100, sessions=sessions, parked=16, workers=workers, shared=shared)


def test_connections_are_topics_and_sessions_times_workers() -> None:
    few = connections()
    assert few.outcome is Outcome.OK
    assert "up to 112 " in few.text
    assert "624 while topics are unavailable" in few.text
    assert "room for 8 routers" in few.text
    apart = connections(shared=False)
    assert "up to 80 " in apart.text
    assert "544 while topics are unavailable" in apart.text


def test_links_to_topics_are_counted_as_far_as_they_stay_open() -> None:
    assert "up to 432 " in connections(topics=3_000).text  # 100 links and 8 sessions, of each of 4 workers


def test_sessions_parked_in_an_outage_are_connections_too() -> None:
    many = connections(workers=16)
    assert many.outcome is Outcome.WARN
    assert "up to 448 " in many.text
    assert "2,496 while topics are unavailable" in many.text
    assert "4,992" in many.text
    assert "router.sessions" in (many.hint or "")


def test_topics_are_told_before_the_last_has_been_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    told, late = threading.Event(), list[str]()

    class Missing:
        def __init__(self, *given: Any) -> None:
            """Asks nobody."""

        def topic(self, name: str) -> None:
            if name != "t0" and not told.wait(30):
                late.append(name)

        def close(self) -> None:
            """Nothing is open."""

    monkeypatch.setattr(check_entities, "Entities", Missing)
    monkeypatch.setattr(check_entities, "trouble_sending", lambda bus, name: None)
    names = [f"t{number}" for number in range(2 * AT_ONCE)]
    bus = cast(Any, SimpleNamespace(address=None))
    found = topic_findings(bus, names, subscriptions=[], provision="create", management_endpoint=None, queue=None)
    assert next(found).subject == "topic t0"
    told.set()
    assert [each.subject for each in found] == [f"topic {name}" for name in names[1:]]
    assert late == []


def test_a_namespace_that_cannot_be_reached_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    away = TransientError("no answer")
    missing = SimpleNamespace(topic=lambda name: None, close=lambda: None)
    monkeypatch.setattr(check_entities, "Entities", lambda *given: missing)
    monkeypatch.setattr(check_entities, "trouble_sending", lambda bus, name: away)
    bus = cast(Any, SimpleNamespace(address=None))
    found = topic_findings(
        bus, ["a", "b", "c"], subscriptions=[], provision="create", management_endpoint=None, queue=None
    )
    assert [(each.outcome, each.subject) for each in found][:2] == [(Outcome.FAIL, "topics"), (Outcome.OK, "topic a")]
