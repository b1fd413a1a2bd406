"""One line when receiving is interrupted, whatever the number of slots, and one when it works again."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from common.errors import TransientError
from router.receiving.interruption import FORGOTTEN, LASTING, SETTLED, TRIED_AGAIN, Interruption


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_slots_that_fail_together_give_one_line_and_the_first_that_is_answered_for_good_ends_it(clock: Clock) -> None:
    interruption = Interruption(clock)
    with capture_logs() as logs:
        interruption.answered()
        for slot in range(8):
            clock.now += 1.0
            interruption.failed(TransientError(f"opening a receiver: the link of slot {slot} broke"))
            interruption.answered()
        clock.now += SETTLED
        interruption.answered()
        interruption.answered()
    told = [line for line in logs if line["log_level"] != "debug"]
    assert [(line["log_level"], line["event"]) for line in told] == [
        ("warning", "receiving interrupted"),
        ("info", "receiving again"),
    ]
    assert "slot 0" in told[0]["error"]
    assert told[1]["seconds"] == 7.0 + SETTLED
    assert len(logs) == 9, "the other slots at level debug"


def test_the_next_interruption_has_lines_of_its_own(clock: Clock) -> None:
    interruption = Interruption(clock)
    with capture_logs() as logs:
        for _ in range(2):
            interruption.failed(TransientError("the link broke"))
            clock.now += SETTLED
            interruption.answered()
    assert [line["event"] for line in logs] == ["receiving interrupted", "receiving again"] * 2


def test_a_remedy_that_was_not_logged_yet_is_worth_another_line(clock: Clock) -> None:
    interruption = Interruption(clock)
    with capture_logs() as logs:
        interruption.failed(TransientError("the link broke"))
        for _ in range(2):
            interruption.failed(TransientError("unauthorized", hint="renew the key"))
        interruption.failed(TransientError("the link broke"))
    told = [(line["error"], line["hint"]) for line in logs if line["log_level"] == "warning"]
    assert told == [("the link broke", TRIED_AGAIN), ("unauthorized", "renew the key")]


def test_health_knows_an_interruption_that_lasts_and_forgets_one_that_nobody_meets_any_more(clock: Clock) -> None:
    interruption = Interruption(clock)
    interruption.failed(TransientError("no answer"))
    assert interruption.lasting() is None
    clock.now += LASTING
    assert interruption.lasting() == f"no answer ({TRIED_AGAIN})"
    interruption.failed(TransientError("no answer yet"))
    clock.now += FORGOTTEN
    assert interruption.lasting() == f"no answer yet ({TRIED_AGAIN})"
    clock.now += 1.0
    assert interruption.lasting() is None
    interruption.answered()
    interruption.failed(TransientError("no answer"))
    assert interruption.lasting() is None
