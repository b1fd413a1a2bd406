"""How long a document has been losing a race."""

from __future__ import annotations

import pytest

from router.outputs.elasticsearch.races import Races

MONDAY = "the field is an object there"
TUESDAY = "the other field is a number there"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    return now


def test_a_race_ages_although_another_field_is_raced_for_in_turns(clock: list[float]) -> None:
    races = Races()
    ages = list[float]()
    for second in range(41):
        clock[0] = float(second)
        ages.append(races.lost("1", (MONDAY, TUESDAY)[second % 2]))
    assert max(ages) == 40


def test_a_race_that_began_while_another_lasted_has_an_age_of_its_own(clock: list[float]) -> None:
    races = Races()
    assert races.lost("1", MONDAY) == 0
    clock[0] = 20.0
    assert (races.lost("1", TUESDAY), races.lost("2", MONDAY)) == (0, 0)


def test_a_race_of_long_ago_is_none_of_today(clock: list[float]) -> None:
    races = Races()
    races.lost("1", MONDAY)
    clock[0] = 7200.0
    assert races.lost("1", MONDAY) == 0


def test_another_answer_ends_a_race(clock: list[float]) -> None:
    races = Races()
    races.lost("1", MONDAY)
    races.over(["1", "2"])
    clock[0] = 10.0
    assert races.lost("1", MONDAY) == 0
