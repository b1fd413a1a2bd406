"""A part of a look: what a mute, a failing and a slow store leave behind."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from common.clock import SteadyTime
from common.errors import TransientError
from common.unread import Unread
from desk.watching.parts import Part


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> SteadyTime:
        return SteadyTime(self.now)


def _until(right: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not right():
        assert time.monotonic() < end
        time.sleep(0.002)


def _until_new(part: Part[int]) -> None:
    _until(part.turn)


def test_an_answer_grows_old_and_the_next_question_waits_its_time() -> None:
    clock, asked = Clock(), list[int]()

    def ask(unread: list[Unread]) -> int:
        asked.append(1)
        return len(asked)

    part = Part("figures", 5.0, ask, 0, clock=clock)
    assert part.answer().value == 0
    assert part.answer().age is None
    _until_new(part)
    clock.now += 4
    assert not part.turn()
    answer = part.answer()
    assert (answer.value, answer.age, answer.unread, asked) == (1, 4.0, (), [1])
    assert not answer.old
    clock.now += 1
    _until_new(part)
    assert part.answer().value == 2


def test_a_mute_store_leaves_the_last_answer_and_is_asked_no_second_time() -> None:
    clock, mute, asked = Clock(), threading.Event(), list[int]()

    def ask(unread: list[Unread]) -> int:
        asked.append(1)
        if len(asked) > 1:
            mute.wait(120)
        return len(asked)

    part = Part("figures", 5.0, ask, 0, clock=clock)
    _until_new(part)
    clock.now += 5
    part.turn()
    _until(lambda: len(asked) == 2)
    clock.now += 20
    assert not part.turn()
    answer = part.answer()
    assert (answer.value, len(asked)) == (1, 2)
    assert answer.old
    assert "no answer for 20 s; what is shown is 25 s old" in str(answer.unread[0])
    mute.set()
    _until_new(part)
    assert (part.answer().value, part.answer().unread) == (2, ())
    assert not part.answer().old


def test_an_error_names_the_part_and_keeps_what_was_known() -> None:
    clock, fails = Clock(), [False]

    def ask(unread: list[Unread]) -> int:
        if fails[0]:
            raise TransientError("no answer", hint="look at the server")
        return 7

    part = Part("figures", 5.0, ask, 0, clock=clock)
    _until_new(part)
    fails[0] = True
    clock.now += 5
    _until_new(part)
    assert part.answer().value == 7
    assert part.answer().unread == (Unread("figures", "no answer", "look at the server"),)


@pytest.mark.parametrize(("took", "rest"), [(0.01, 5.0), (0.25, 10.0), (1.0, 20.0), (3.0, 24.0)])
def test_a_slow_store_is_asked_less_often(took: float, rest: float) -> None:
    clock, go = Clock(), threading.Event()

    def ask(unread: list[Unread]) -> int:
        go.wait(30)
        return 1

    part = Part("figures", 5.0, ask, 0, clock=clock)
    part.turn()
    clock.now += took
    go.set()
    _until_new(part)
    clock.now += rest - 0.01
    part.turn()
    assert not part.answer().old
    assert part.answer().age == pytest.approx(rest - 0.01)
    clock.now += 0.02
    _until_new(part)
    assert part.answer().age == 0.0
