"""What a replay reads, what its messages are called, and which ranges it refuses."""

from __future__ import annotations

import re

import pytest

from common.errors import PermanentError
from ingester.history.replay import ID_LENGTH, Replay, checked, lsn_of, next_window
from ingester.position import Position
from ingester.sqlserver.position import LogPosition
from tests.fakes.ingester import PERSONS, instance, lsn, position

LOW, CAPTURED = LogPosition.before(lsn(10)), LogPosition.end_of(lsn(20))
REPLAY = Replay("0123456789ab", PERSONS, "copy", LOW, CAPTURED)


def before(number: int) -> LogPosition:
    return LogPosition.before(lsn(number))


def end_of(number: int) -> LogPosition:
    return LogPosition.end_of(lsn(number))


@pytest.mark.parametrize(("begin", "end"), [(10, 20), (10, 10), (20, 20)])
def test_both_borders_are_in_the_range(begin: int, end: int) -> None:
    checked(PERSONS, before(begin), end_of(end), low=LOW, captured=CAPTURED)


@pytest.mark.parametrize(
    ("begin", "end", "why"),
    [
        (
            9,
            20,
            r"below the low watermark, LSN 0x0000000000000000000a: changes before it were removed or never captured.*--from 0x0000000000000000000a",
        ),
        (10, 21, "beyond LSN 0x00000000000000000014, which is how far capture has come"),
        (15, 14, "nothing is in the range"),
    ],
)
def test_a_range_that_is_not_all_there_is_refused(begin: int, end: int, why: str) -> None:
    with pytest.raises(PermanentError) as refused:
        checked(PERSONS, before(begin), end_of(end), low=LOW, captured=CAPTURED)
    assert re.search(why, str(refused.value)), refused.value


@pytest.mark.parametrize("length", [1, 40, 115, 116, ID_LENGTH])
def test_an_id_holds_the_replay_and_is_short_enough(length: int) -> None:
    made = REPLAY.event_id("x" * length)
    assert made.endswith(":0123456789ab")
    assert len(made) <= ID_LENGTH
    assert made != REPLAY.event_id("y" * length)


@pytest.mark.parametrize(
    ("after", "name", "upto"),
    [(12, "old", before(15)), (15, "new", end_of(20)), (18, "new", end_of(20))],
)
def test_where_an_instance_takes_over_the_window_ends(after: int, name: str, upto: Position) -> None:
    instances = (instance(start=10, name="old"), instance(start=15, name="new"))
    found, end = next_window(instances, before(after), end_of(20))
    assert (found.name, end) == (name, upto)


def test_an_instance_that_takes_over_behind_the_end_is_not_waited_for() -> None:
    instances = (instance(start=10, name="old"), instance(start=19, name="new"))
    found, end = next_window(instances, before(12), end_of(15))
    assert (found.name, end) == ("old", end_of(15))


def test_where_to_go_on_is_the_transaction_of_a_change() -> None:
    assert lsn_of(position(17, seq=4)) == "0x00000000000000000011"
