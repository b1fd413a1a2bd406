"""What `dstream check` makes of a clock and of numbers, and that topics are told as they come."""

from __future__ import annotations

import threading
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from common.azure_amqp.address import ServiceBusAddress
from common.check import NOT_KNOWN, Outcome, fail, ok
from common.errors import TransientError
from common.servicebus import check as check_entities
from common.servicebus.check import topic_findings
from common.servicebus.check_clock import judge_clock, seconds_ahead
from common.servicebus.management import AT_ONCE

LOCK = timedelta(minutes=1)


def test_a_sentence_of_a_server_loses_its_full_stop_before_the_remedy() -> None:
    said = str(fail("CDC", "error 4060: Cannot open database. The login failed.", "check its name", fix=NOT_KNOWN))
    assert said == "fail  CDC: error 4060: Cannot open database. The login failed: check its name"
    assert str(ok("CDC", "enabled.")) == "ok    CDC: enabled."


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
    bus = cast(Any, SimpleNamespace(address=ServiceBusAddress("bus", True, None, None)))
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
    bus = cast(Any, SimpleNamespace(address=ServiceBusAddress("bus", True, None, None)))
    found = topic_findings(
        bus, ["a", "b", "c"], subscriptions=[], provision="create", management_endpoint=None, queue=None
    )
    assert [(each.outcome, each.subject) for each in found][:2] == [(Outcome.FAIL, "topics"), (Outcome.OK, "topic a")]
