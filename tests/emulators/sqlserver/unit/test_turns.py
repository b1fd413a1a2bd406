"""Turns (emulators/sqlserver/turns.py): one works at a time, in the order of asking; nobody waits for one who waits."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from emulators.sqlserver import turns
from emulators.sqlserver.turns import Turns

_SOON = 60.0


def started(run: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def test_those_who_wait_come_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "PATIENCE", _SOON)
    each, came = Turns(), []
    held = each.take()

    def work(number: int) -> None:
        turn = each.take()
        came.append(number)
        each.give(turn)

    threads = []
    for number in range(3):
        threads.append(started(lambda number=number: work(number)))  # type: ignore[misc]
        until(lambda wanted=number + 1: len(each._waiting) == wanted)  # type: ignore[misc]
    assert came == []
    each.give(held)
    for thread in threads:
        thread.join(_SOON)
    assert came == [0, 1, 2]


def test_a_turn_that_lasts_too_long_is_over_for_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "PATIENCE", 0.01)
    each = Turns()
    forgotten = each.take()
    second = each.take()  # returns although nobody gave
    monkeypatch.setattr(turns, "PATIENCE", _SOON)
    third: list[threading.Lock] = []
    thread = started(lambda: third.append(each.take()))
    until(lambda: len(each._waiting) == 1)
    each.give(forgotten)  # too late to matter
    assert third == []
    each.give(second)
    thread.join(_SOON)
    assert len(third) == 1


def test_who_gives_up_before_a_wait_holds_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "PATIENCE", _SOON)
    over, waits = threading.Event(), threading.Event()

    def waiter() -> None:
        with turns.mine():
            turns.give_up()
            waits.set()
            over.wait(_SOON)

    thread = started(waiter)
    assert waits.wait(_SOON)
    begun = time.monotonic()
    with turns.mine(), turns.elsewhere():
        pass
    assert time.monotonic() - begun < _SOON / 2
    over.set()
    thread.join(_SOON)


def test_elsewhere_gives_a_turn_back_to_those_alone_who_had_one() -> None:
    with turns.elsewhere():
        assert turns._own.turn is None
    with turns.mine():
        with turns.elsewhere():
            assert turns._own.turn is None
        assert turns._own.turn is not None
        turns.give_up()
        with turns.elsewhere():
            pass
        assert turns._own.turn is None
    assert turns._own.turn is None


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _SOON
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.001)


class _Late:
    """A guard that the thread `late` comes to too late, the second time."""

    def __init__(self, guard: threading.Lock) -> None:
        self._guard, self._times = guard, 0

    def __enter__(self) -> None:
        if threading.current_thread().name == "late":
            self._times += 1
            if self._times == 2:
                time.sleep(0.3)
        self._guard.acquire()

    def __exit__(self, *details: object) -> None:
        self._guard.release()


def test_a_turn_that_was_over_before_its_thread_noticed_fails_nobody() -> None:
    each, ended = Turns(), list[str]()
    held = each.take()
    each._guard = _Late(each._guard)  # type: ignore[assignment]

    def work() -> None:
        each.give(each.take())
        ended.append(threading.current_thread().name)

    late = threading.Thread(target=work, name="late", daemon=True)
    late.start()
    until(lambda: len(each._waiting) == 1)
    other = started(work)
    time.sleep(turns.PATIENCE * 1.3)  # the first wait of `late` has failed
    each.give(held)
    for thread in (late, other):
        thread.join(_SOON)
    assert len(ended) == 2
    assert not each._waiting
