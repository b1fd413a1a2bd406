"""What is sent for a dead letter, what is left, and whether it would overtake."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from common.bus.browsing import Lying
from common.errors import TransientError
from common.message import Message, Opaque
from desk.dead_letters.choosing import ref_of
from desk.dead_letters.copying import Target, copy_of, new_id, why_not
from desk.dead_letters.journal import Note
from desk.dead_letters.order import Order
from desk.dead_letters.replaying import remembered
from ingester.operating.newer import ChangeRef, Newer, Sent

QUEUE = Target("ingest-queue", "the queue ingest-queue", sessions=True, window=timedelta(minutes=10))


def lying(number: int = 1, **told: str | int | bool) -> Lying:
    at = f"{number:020x}"
    metadata = {"Schema": "dbo", "TableName": "Persons", "LSN": at, "SeqVal": at, "OperationID": 4, "CommandID": 1}
    body = json.dumps({"data": {}, "metadata": metadata}).encode()
    return Lying(Message(body, f"event-{number}", "s", application_properties=told), sequence=number, reason="Refused")


def test_the_same_dead_letter_has_always_the_same_new_id() -> None:
    assert new_id(lying(1)) == new_id(lying(1)) != new_id(lying(2))
    assert new_id(replace(lying(1), sequence=7)) != new_id(lying(1)), "one that died again is another"


def test_a_copy_of_a_copy_keeps_the_first_id_and_counts() -> None:
    first = copy_of(lying(1, set_aside="why", DeadLetterReason="r", dead_letter_reason="r", kept=1))
    assert first.application_properties == {"kept": 1, "dstream_replays": 1, "dstream_replay_of": "event-1"}
    second = copy_of(Lying(first, sequence=9))
    assert second.application_properties["dstream_replays"] == 2
    assert second.application_properties["dstream_replay_of"] == "event-1"


def test_an_id_of_another_type_does_not_hide_the_new_one() -> None:
    foreign = {"message_id": Opaque(b"\x80" + bytes(8)), "user_id": Opaque(b"\xa0\x01x")}
    copied = copy_of(Lying(Message(b"", "5", foreign=foreign), sequence=1))
    assert copied.foreign == {"user_id": foreign["user_id"]}


@pytest.mark.parametrize(
    ("dead", "words"),
    [
        (lying(1, oversize=True), "stand-in"),
        (replace(lying(1), reason="Oversize"), "stand-in"),
        (replace(lying(1), fault="it is cut short"), "cannot be read"),
        (replace(lying(1), message=Message(b"{}", "1")), "no session"),
        (lying(1, dstream_replays=3), "3 times"),
        (lying(1, dstream_replays=2), None),
        (lying(1, dstream_replays=True), None),
    ],
)
def test_what_is_left_says_why(dead: Lying, words: str | None) -> None:
    why = why_not(dead, QUEUE, most_replays=3)
    assert (why is None) if words is None else (words in str(why))


@pytest.mark.parametrize(
    ("window", "age", "dropped"),
    [(600, 0, True), (600, 569, True), (600, 571, False), (600, -5, False), (20, 1, False), (None, 0, False)],
)
def test_how_long_the_bus_drops_a_second_copy(window: int | None, age: float, dropped: bool) -> None:
    found = None if window is None else timedelta(seconds=window)
    assert remembered(Note("a", 1000.0, False), found, 1000.0 + age) is dropped


@pytest.mark.parametrize("reason", ["MalformedMessage", "MissingDestination"])
def test_what_the_router_could_not_read_is_left_unless_it_is_asked_for(reason: str) -> None:
    dead, routed = replace(lying(1), reason=reason), replace(QUEUE, routed=True)
    assert "could not read it" in str(why_not(dead, routed, most_replays=3))
    assert why_not(dead, routed, most_replays=3, unreadable=True) is None
    assert why_not(dead, QUEUE, most_replays=3) is None, "of a subscription it is somebody else's reason"


class Rows:
    def __init__(self, answers: Mapping[int, Newer] | None) -> None:
        self._answers = answers

    def newer_sent(self, changes: Sequence[ChangeRef]) -> Mapping[ChangeRef, Newer]:
        if self._answers is None:
            raise TransientError("connecting: refused")
        return {each: self._answers.get(int(each.lsn, 16), Newer(Sent.NO)) for each in changes}

    def close(self) -> None:
        pass


def newer(*numbers: int) -> Newer:
    return Newer(Sent.YES, lsn="5", changes=tuple(filter(None, (ref_of(lying(n).message) for n in numbers))))


def test_newer_ones_that_come_behind_are_no_danger_and_others_are() -> None:
    order = Order(Rows({1: newer(2, 3), 2: newer(3), 4: newer(9)}))
    letters = [lying(n) for n in (1, 2, 3, 4)]
    for each in letters:
        order.expect(each)
    assert [why is None for why in order.doubts(letters)] == [True, True, True, False]


def test_one_that_was_sent_before_is_a_danger() -> None:
    """As where the dead letters lie in another order than that of the log."""
    order = Order(Rows({1: newer(2)}))
    letters = [lying(2), lying(1)]
    for each in letters:
        order.expect(each)
    assert [why is None for why in order.doubts(letters)] == [True, False]


def test_nobody_guesses() -> None:
    [unasked] = Order(None).doubts([lying(1)])
    [unreachable] = Order(Rows(None)).doubts([lying(1)])
    [foreign] = Order(Rows({})).doubts([replace(lying(1), message=Message(b"x", "1"))])
    assert "not asked" in str(unasked)
    assert "connecting: refused" in str(unreachable)
    assert "no single change" in str(foreign)
