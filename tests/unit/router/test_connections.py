"""How many connections a router makes, compared with what its bus accepts."""

from __future__ import annotations

from common.check import Finding, Outcome
from router.connections import judge_connections


def connections(*, topics: int = 20, sessions: int = 8, workers: int = 4, shared: bool = True) -> Finding:
    return judge_connections(
        5_000, topics=topics, most_open=100, slots=sessions, parked=16, workers=workers, shared=shared
    )


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
    assert "router.slots" in (many.hint or "")
