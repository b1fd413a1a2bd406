"""The rhythm of threads that watch something."""

from __future__ import annotations

import threading

import pytest
from structlog.testing import capture_logs

from common.periodic import repeat


class Pauses(threading.Event):
    """A stop that comes after so many pauses, each of which is over at once."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most
        self.seconds: list[float | None] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.seconds.append(timeout)
        return len(self.seconds) > self._most


def test_a_pause_goes_before_each_check_and_nothing_is_checked_after_the_stop() -> None:
    stop, checks = Pauses(3), list[int]()
    repeat(lambda: checks.append(len(stop.seconds)), "links", stop, every=2.5)
    assert checks == [1, 2, 3]
    assert stop.seconds == [2.5] * 4


def test_each_pause_may_be_another() -> None:
    stop, pauses = Pauses(2), iter([5.0, 5.0, 30.0])
    repeat(lambda: None, "capture", stop, every=lambda: next(pauses))
    assert stop.seconds == [5.0, 5.0, 30.0]


def test_a_defect_is_logged_with_its_traceback_and_the_next_check_comes() -> None:
    stop, checks = Pauses(3), list[int]()

    def check() -> None:
        checks.append(len(checks))
        if len(checks) < 3:
            raise ValueError("a defect")

    with capture_logs() as logs:
        repeat(check, "links", stop, every=60)
    assert checks == [0, 1, 2]
    assert [(line["event"], line["of"], line["exc_info"]) for line in logs] == [
        ("periodic check failed", "links", True)
    ] * 2


def test_a_defect_that_lasts_is_logged_once_a_minute() -> None:
    def check() -> None:
        raise KeyError("a defect")

    with capture_logs() as logs:
        repeat(check, "links", Pauses(65), every=2)
    assert len(logs) == 3  # at the first check, after 60 s, and after 120 s


def test_what_ends_the_process_is_no_defect() -> None:
    def check() -> None:
        raise SystemExit

    with capture_logs() as logs, pytest.raises(SystemExit):
        repeat(check, "links", Pauses(9), every=1)
    assert logs == []
