"""Calls that nothing can interrupt, and who waits for them."""

from __future__ import annotations

import threading

import pytest

from common.in_time import in_time, within


def test_what_a_call_returns_or_raises_is_the_callers() -> None:
    assert in_time(60, lambda: 42) == 42
    with pytest.raises(ZeroDivisionError):
        in_time(60, lambda: 1 // 0)


def test_a_call_that_takes_too_long_is_left_alone() -> None:
    release = threading.Event()
    try:
        with pytest.raises(TimeoutError):
            in_time(0.01, release.wait)
    finally:
        release.set()


def test_whoever_asks_the_same_meanwhile_joins_the_call_and_a_later_one_calls_again() -> None:
    release, calls = threading.Event(), []

    def call() -> int:
        calls.append(release.wait(60))
        return len(calls)

    for _ in range(3):
        with pytest.raises(TimeoutError):
            in_time(0.01, call, same="name")
    release.set()
    assert in_time(60, call, same="name") in (1, 2)
    assert in_time(60, call, same="name") in (2, 3)
    assert len(calls) <= 3


def test_calls_that_are_not_alike_do_not_wait_for_each_other() -> None:
    release = threading.Event()
    try:
        with pytest.raises(TimeoutError):
            in_time(0.01, release.wait, same="one")
        assert in_time(60, lambda: 2, same="two") == 2
    finally:
        release.set()


def test_whether_work_ended_in_time() -> None:
    hung, names = threading.Event(), list[str]()
    assert within(60, lambda: names.append(threading.current_thread().name), name="quick")
    assert names == ["quick"]
    try:
        assert not within(0.01, hung.wait, name="hung")
    finally:
        hung.set()


def test_a_thread_that_could_not_be_started_keeps_nobody_from_asking_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as limited:
        limited.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError):
            in_time(60, lambda: 42, same="a name")
    assert in_time(10, lambda: 42, same="a name") == 42
