"""Turns at what is shared: in the order of arrival, with something to do while one waits."""

from __future__ import annotations

import threading

import pytest

from router.publishing.turns import Turns

_LONG = 30.0


def started(work: threading.Thread) -> threading.Thread:
    work.daemon = True
    work.start()
    return work


def queued(turns: Turns, count: int) -> None:
    for _ in range(3_000):
        if len(turns._waiting) == count:
            return
        threading.Event().wait(0.005)
    raise AssertionError(f"{len(turns._waiting)} wait, and not {count}")


def test_who_comes_first_is_served_first_and_learns_that_it_waited() -> None:
    turns, served = Turns(), list[tuple[int, bool]]()

    def use(number: int) -> None:
        with turns.mine() as waited:
            served.append((number, waited))

    with turns.mine() as waited:
        assert not waited
        threads = []
        for number in range(5):
            threads.append(started(threading.Thread(target=use, args=(number,))))
            queued(turns, number + 1)
    for thread in threads:
        thread.join(_LONG)
    assert served == [(number, True) for number in range(5)]
    with turns.mine() as waited:
        assert not waited


def test_who_is_busy_meanwhile_holds_up_nobody_behind_and_comes_next() -> None:
    turns, served = Turns(), list[str]()
    away, come_back, first_is_out = threading.Event(), threading.Event(), threading.Event()

    def meanwhile() -> None:
        away.set()
        come_back.wait(_LONG)

    def first() -> None:
        with turns.mine(meanwhile, every=0.001):
            served.append("first")
        first_is_out.set()

    def second() -> None:
        with turns.mine():
            served.append("second")

    with turns.mine():
        started(threading.Thread(target=first))
        assert away.wait(_LONG)
        thread = started(threading.Thread(target=second))
        queued(turns, 2)
    thread.join(_LONG)
    assert served == ["second"]
    come_back.set()
    assert first_is_out.wait(_LONG)
    assert served == ["second", "first"]


def test_who_gives_up_takes_no_turn() -> None:
    turns, gave_up = Turns(), threading.Event()

    def meanwhile() -> None:
        raise TimeoutError

    def give_up() -> None:
        with pytest.raises(TimeoutError), turns.mine(meanwhile, every=0.001):
            raise AssertionError("it has the turn")
        gave_up.set()

    with turns.mine():
        started(threading.Thread(target=give_up))
        assert gave_up.wait(_LONG)
    with turns.mine() as waited:
        assert not waited


def test_a_turn_that_ends_with_an_error_is_over() -> None:
    turns = Turns()
    with pytest.raises(ValueError, match="broken"), turns.mine():
        raise ValueError("broken")
    with turns.mine() as waited:
        assert not waited
