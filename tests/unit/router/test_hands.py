"""A few threads for calls that may hang, where threads are short."""

from __future__ import annotations

import threading

import pytest

from router.hands import Hands


def test_calls_are_done_by_threads_that_can_be_started_later(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    hands, done = Hands(2, "hands"), threading.Event()
    with monkeypatch.context() as limited:
        limited.setattr(threading.Thread, "start", refuse)
        for _ in range(3):
            with pytest.raises(RuntimeError):
                hands.do(done.set)
    assert not done.is_set()
    hands.do(done.set)
    assert hands.finish(30) == 0
    assert done.is_set()


def test_a_thread_that_cannot_be_started_leaves_its_call_to_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    hands, busy, done = Hands(2, "hands"), threading.Event(), threading.Event()
    hands.do(lambda: busy.wait(30))
    with monkeypatch.context() as limited:
        limited.setattr(threading.Thread, "start", refuse)
        hands.do(done.set)
    busy.set()
    assert hands.finish(30) == 0
    assert done.is_set()
