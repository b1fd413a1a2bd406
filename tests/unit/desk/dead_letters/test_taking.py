"""The order in which dead letters are handed over, and what is waited for."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from common.bus.browsing import Lying, Taken, Taker
from common.message import Message
from desk.dead_letters.looking import Seen, look
from desk.dead_letters.taking import Pace, Visit, Walk

PART = 5 << 48


@dataclass(frozen=True)
class Held:
    lying: Lying

    def lock_left(self) -> float:
        return math.inf


@dataclass
class Letters:
    """Dead letters of a shelf, of which some are locked elsewhere until somebody has waited for them. Both a browser and a taker."""

    lying: list[Lying]
    elsewhere: set[int] = field(default_factory=set)
    gone: set[int] = field(default_factory=set)
    firsts: list[int] = field(default_factory=list)

    def page(self, *, first: int, most: int) -> Sequence[Lying]:
        self.firsts.append(first)
        return [each for each in self.lying if each.sequence >= first and each.sequence not in self.gone][:most]

    def take(self, *, most: int, wait: float) -> Sequence[Taken]:
        free = [each for each in self.lying if each.sequence not in self.elsewhere | self.gone]
        return [Held(each) for each in free][:most]

    def complete(self, taken: Sequence[Taken]) -> Sequence[Taken]:
        self.gone |= {each.lying.sequence for each in taken}
        return ()

    def give_back(self, taken: Sequence[Taken]) -> None:
        pass

    def put_aside(self, taken: Sequence[Taken]) -> None:
        pass

    def close(self) -> None:
        pass


def letter(sequence: int, session: str = "a", **told: Any) -> Lying:
    return Lying(Message(b"", str(sequence), session), sequence=sequence, **told)


def walked(letters: Letters) -> list[int]:
    seen, stop, handed = look(letters, lambda lying: True, threading.Event()), threading.Event(), list[int]()

    def handle(taker: Taker, visits: Sequence[Visit]) -> None:
        handed.extend(visit.taken.lying.sequence for visit in visits)
        taker.complete([visit.taken for visit in visits])
        for visit in visits:
            seen.settle(visit.taken.lying.sequence)

    pace = Pace(wait=0, stuck=5, longest_lock=0.01, look_again=0.01)
    walk = Walk(
        lambda: letters,
        letters,
        seen,
        stop,
        ordered=True,
        pace=pace,
        waiting=lambda held: letters.elsewhere.clear(),
    )
    walk.run(handle, lambda: len(handed), lambda: not seen.open)
    return handed


@pytest.mark.parametrize("part", [0, PART])
def test_one_that_is_locked_elsewhere_is_waited_for_by_those_behind_it_in_its_session(part: int) -> None:
    numbers = [part + 1, part + 2, part + 3]
    assert walked(Letters([letter(each) for each in numbers], elsewhere={part + 1})) == numbers


def test_another_partition_is_not_waited_for() -> None:
    letters = Letters([letter(1, "a"), letter(PART + 1, "b"), letter(PART + 2, "b")], elsewhere={1})
    assert walked(letters)[:2] == [PART + 1, PART + 2]


def test_a_deferred_one_is_none_of_those_that_are_taken_and_the_others_before_the_first_are_counted() -> None:
    letters = Letters([letter(1), letter(2), letter(3, state="deferred"), letter(4), letter(5)])
    deferred = list[Lying]()
    seen: Seen = look(letters, lambda lying: lying.sequence > 2, threading.Event(), deferred=deferred.append)
    assert [each.sequence for each in deferred] == [3]
    assert (seen.matched, seen.open, seen.before, seen.has(3), seen.has(4)) == (2, 2, 2, False, True)
