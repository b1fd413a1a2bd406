"""Who asks for sessions, who waits with it, and what an answer or its absence says of them."""

from __future__ import annotations

import threading

import pytest

from router.receiving.gate import GIVEN_UP, Gate, Question


def asked(gate: Gate, stop: threading.Event | None = None) -> Question:
    question = gate.enter(stop or threading.Event(), 0.01)
    assert question is not None
    return question


class TestGate:
    def test_while_there_is_work_everybody_asks(self) -> None:
        gate = Gate()
        assert [asked(gate).for_all for _ in range(2)] == [False, False]

    def test_after_an_empty_answer_one_asks_for_all(self) -> None:
        gate = Gate()
        gate.leave(asked(gate), found=False)
        for_all = asked(gate)
        assert for_all.for_all
        assert gate.enter(threading.Event(), 0.01) is None
        gate.leave(for_all, found=True)
        assert not asked(gate).for_all

    def test_who_asks_for_all_and_gets_no_answer_in_time_holds_up_nobody(self) -> None:
        now = [50.0]
        gate = Gate(clock=lambda: now[0])
        now[0] += 0.02
        gate.leave(asked(gate), found=False)
        hung = asked(gate)
        now[0] += hung.wait + GIVEN_UP - 1
        assert gate.enter(threading.Event(), 0.01) is None
        now[0] += 2
        assert not gate.nobody_waits(0.5)  # what is not answered any more says nothing
        other = asked(gate)
        assert other.for_all
        gate.leave(hung, found=True)
        now[0] += 0.02
        gate.leave(other, found=False)
        assert asked(gate).for_all
        assert gate.enter(threading.Event(), 0.01) is None

    def test_an_idle_router_asks_less_and_less_often_until_there_is_something_or_a_question_fails(self) -> None:
        gate = Gate()

        def waits(count: int) -> list[float]:
            found = []
            for _ in range(count):
                question = asked(gate)
                found.append(question.wait)
                gate.leave(question, found=False)
            return found

        assert waits(6) == [3.0, 6.0, 12.0, 24.0, 30.0, 30.0]
        gate.leave(asked(gate), found=True)
        assert waits(2) == [3.0, 6.0]
        gate.leave(asked(gate), found=False, failed=True)
        assert waits(1) == [3.0]

    def test_a_question_without_an_answer_says_that_no_session_waits(self) -> None:
        now = [50.0]
        gate = Gate(clock=lambda: now[0])
        question = asked(gate)
        assert not gate.nobody_waits(0.5)  # how long an answer takes is not known yet
        now[0] += 0.02
        gate.leave(question, found=True)
        assert gate.opening == pytest.approx(0.02)
        asked(gate)
        now[0] += 0.07
        assert not gate.nobody_waits(0.5)
        now[0] += 0.02
        assert gate.nobody_waits(0.5)

    def test_where_no_slot_is_free_to_ask_a_session_may_wait(self) -> None:
        now = [50.0]
        gate = Gate(clock=lambda: now[0])
        gate.leave(asked(gate), found=False)
        now[0] += 0.4
        assert gate.nobody_waits(0.5)
        now[0] += 0.2
        assert not gate.nobody_waits(0.5)

    def test_one_answer_that_was_long_in_coming_says_little_of_what_opening_takes(self) -> None:
        now = [50.0]
        gate = Gate(clock=lambda: now[0])
        for took in (0.02, 3.0):
            question = asked(gate)
            now[0] += took
            gate.leave(question, found=True)
        assert gate.opening == pytest.approx(0.04)

    def test_a_stop_lets_nobody_ask(self) -> None:
        gate = Gate()
        stop = threading.Event()
        gate.leave(asked(gate, stop), found=False)
        stop.set()
        assert gate.enter(stop, 0.01) is None
