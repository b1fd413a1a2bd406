"""What a start says while nobody answers it."""

from __future__ import annotations

import threading

from structlog.testing import capture_logs

from common.observability.unanswered import told_while_unanswered


def test_a_start_that_waits_says_so_again_and_again_until_it_is_answered() -> None:
    with capture_logs() as logs:
        with told_while_unanswered("queue q", hint="look at q", first=0.01, again=0.01):
            while len(logs) < 3:
                threading.Event().wait(0.01)
        told = len(logs)
    assert told >= 3
    assert logs[0] == {
        "event": "start is still waiting",
        "log_level": "warning",
        "peer": "queue q",
        "seconds": 0,
        "hint": "look at q",
    }


def test_a_start_that_is_answered_in_time_says_nothing() -> None:
    with capture_logs() as logs, told_while_unanswered("queue q", hint="look at q"):
        pass
    assert logs == []
