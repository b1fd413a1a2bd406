"""What a trail means, for what real stores make only with effort; tests/contracts/operating/test_stories.py has the others."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from common.bus.browsing import Lying, Shelf
from common.message import Message
from common.names import TableName
from desk.documents.shape import Unknown
from desk.messages.places import Place
from desk.messages.searching import Sighting
from desk.messages.trail import Destination, OnTheBus, Trail
from desk.messages.verdicts import story
from ingester.operating.finding import Captured, Moved, TableLook, Treated
from ingester.sqlserver.position import LogPosition, Lsn

PERSONS = TableName("dbo", "Persons")
POSITION = LogPosition(Lsn(b"\x01" * 10), 1, b"\x02" * 10, 2)
LOOK = TableLook(PERSONS, low=LogPosition.before(POSITION.lsn), offset=POSITION, offset_words="after it")
CAPTURED = Captured(PERSONS, "id", "Insert", "01" * 10, "2026-11-21T10:23:45.457Z", POSITION, Treated.SENT)
BUS: Any = "bus"
SENT = Trail(
    "id",
    "dbo.Persons",
    "change",
    lsn="01" * 10,
    commit_time="2026-11-21T10:23:45.457Z",
    look=LOOK,
    captured=CAPTURED,
    sent=True,
    destinations=(Destination("default", "persons.events", "topic/persons.events/sub1"), Destination("files", "persons")),
)  # fmt: skip


def sighting(entity: str, **more: Any) -> Sighting:
    enqueued = more.pop("enqueued", datetime(2026, 11, 21, 10, 23, 47, tzinfo=UTC))
    shelf = Shelf(entity, dead=more.pop("dead", False))
    lying = Lying(Message(b"{}", "id"), 5, enqueued, **more)
    return Sighting(Place(entity, None, shelf, BUS), shelf.dead, lying)


def bus(**more: Any) -> OnTheBus:
    return OnTheBus(**more)


@pytest.mark.parametrize(
    ("trail", "verdict", "part"),
    [
        (SENT, "delivered", "default: persons.events, files: persons"),
        (replace(SENT, bus=bus(complete=False, unknown=(Unknown(what="queue", text="more"),))), "unknown", "completely"),
        (replace(SENT, bus=bus(queue=sighting("queue", state="deferred"))), "queued", "deferred"),
        (replace(SENT, bus=bus(queue=sighting("queue", delivery_count=9))), "queued", "taken it 9 times"),
        (replace(SENT, bus=bus(dead_there=(sighting("topic/t/s", dead=True, reason="TTLExpiredException"),))), "poison", "dead letters of topic/t/s"),
        (replace(SENT, bus=bus(queue=sighting("queue")), captured=replace(CAPTURED, treated=Treated.FILTERED)), "queued", "waits there"),
        (replace(SENT, route_fails="the filter of route 1 has no answer"), "unknown", "RouteFailed"),
        (replace(SENT, destinations=()), "filtered", "no route"),
        (replace(SENT, moved=Moved("before LSN 0x1", "after LSN 0x2", "now", "ada")), "before_offset", "by ada"),
        (replace(SENT, sent=None), "waiting", "no offset"),
        (replace(SENT, sent=False, captured=replace(CAPTURED, treated=Treated.STOPS, why="no such key")), "waiting", "no such key"),
        (replace(SENT, look=replace(LOOK, dropped=True)), "gap", "dropped and created again"),
        (replace(SENT, look=None, captured=None), "unknown", "SQL Server could not be asked"),
        (replace(SENT, captured=None, removed=True, sent=False), "gap", "before it was read"),
        (replace(SENT, captured=None, removed=True, sent=None), "no_trace", "never read"),
        (replace(SENT, captured=None, removed=True), "no_trace", "a gap that was skipped"),
        (replace(SENT, captured=None, removed=True, moved=Moved(None, "after LSN 0x2", "now", "ada")), "before_offset", "by ada"),
        (Trail("id", "cdc.transactions", "transaction"), "no_trace", "about a transaction"),
    ],
)  # fmt: skip
def test_verdicts(trail: Trail, verdict: str, part: str) -> None:
    found = story(trail)
    assert (found.verdict, part in found.why) == (verdict, True), found.why
    places = [step.place for step in found.steps]
    assert places[:4] == ["commit", "change_table", "ingester", "queue"]
    assert all(step.what for step in found.steps)
    assert {step.state for step in found.steps} <= {"passed", "here", "waiting", "not_yet", "never", "unknown"}
    assert len([step for step in found.steps if step.state == "here"]) <= 1


def test_the_steps_have_their_times_since_the_commit_and_never_less_than_none() -> None:
    found = story(replace(SENT, bus=bus(subscriptions=(sighting("topic/t/s"),))))
    assert [(step.place, step.state) for step in found.steps] == [
        ("commit", "passed"),
        ("change_table", "passed"),
        ("ingester", "passed"),
        ("queue", "passed"),
        ("router", "passed"),
        ("subscription", "here"),
    ]
    assert (found.steps[-1].after_seconds, found.steps[-1].sequence) == (1.543, 5)
    earlier = sighting("topic/t/s", enqueued=datetime(2026, 11, 21, 10, 23, 45, tzinfo=UTC))
    assert story(replace(SENT, bus=bus(subscriptions=(earlier,)))).steps[-1].after_seconds == 0.0


def test_delivered_without_a_sighting_ends_with_topics_and_what_nobody_knows_of_their_subscribers() -> None:
    steps = [(step.place, step.state) for step in story(SENT).steps]
    assert steps[4:] == [("router", "passed"), ("topic", "passed"), ("subscription", "unknown"), ("topic", "passed")]
