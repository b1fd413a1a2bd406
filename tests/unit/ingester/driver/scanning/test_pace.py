from __future__ import annotations

import pytest

from common.errors import ConnectionLost, DStreamError, PermanentError, TransientError
from ingester.capture_status import Scanned
from ingester.driver.scanning.pace import (
    BUSY_SECONDS,
    LEFT_ALONE_SECONDS,
    RARELY_SECONDS,
    RECONNECT_SECONDS,
    SCAN_SECONDS,
    News,
    Pace,
)

REFUSED = PermanentError("scanning the log: DBO privileges are required", hint="ALTER ROLE")
FAILED = TransientError("scanning the log: error 9002")
LOST = ConnectionLost("SQL Server: no answer")


@pytest.mark.parametrize("outcome", [Scanned.CAPTURED, Scanned.EMPTY])
def test_scans_begin_on_a_grid_that_their_own_time_does_not_move(outcome: Scanned) -> None:
    pace = Pace(0.5)
    pause, news = pace.after(outcome, 0.25)
    assert (pause, news) == (0.25, News.NONE)
    assert pace.after(outcome, 2.0) == (0.0, News.NONE)


def test_a_scan_that_meets_another_one_is_no_news() -> None:
    pace = Pace(0.5)
    assert [pace.after(Scanned.BUSY, 0.01) for _ in range(10)] == [(0.5, News.NONE)] * 10
    assert pace.works
    pace.after(Scanned.EMPTY, 0.0)
    assert pace.after(Scanned.BUSY, 0.01) == (0.5, News.NONE)


def test_a_session_that_always_scans_is_told_once_and_asked_rarely() -> None:
    pace, waited, news = Pace(0.5), 0.0, News.NONE
    while news is News.NONE:
        pause, news = pace.after(Scanned.BUSY, 0.0)
        waited += pause
    assert news is News.BUSY
    assert BUSY_SECONDS <= waited <= BUSY_SECONDS + RARELY_SECONDS + 1
    assert not pace.works
    assert pace.after(Scanned.BUSY, 0.0) == (RARELY_SECONDS, News.NONE)
    assert pace.after(Scanned.EMPTY, 0.0) == (0.5, News.WORKS)
    assert pace.works


def test_a_missing_right_is_told_once_and_tried_rarely() -> None:
    pace = Pace(0.5)
    assert pace.after(REFUSED, 0.0) == (RARELY_SECONDS, News.REFUSED)
    assert pace.after(REFUSED, 0.0) == (RARELY_SECONDS, News.NONE)
    assert pace.after(Scanned.CAPTURED, 0.0) == (0.5, News.WORKS)


def test_failures_back_off_and_are_told_once() -> None:
    pace = Pace(0.5)
    told = [pace.after(FAILED, 0.0) for _ in range(8)]
    assert [pause for pause, _ in told] == [1, 2, 4, 8, 16, 32, 60, 60]
    assert [news for _, news in told] == [News.FAILED] + [News.NONE] * 7


def test_a_lost_connection_is_news_when_it_is_lost_again_and_again() -> None:
    pace = Pace(0.5)
    assert [pace.after(LOST, 0.0)[1] for _ in range(4)] == [News.NONE, News.NONE, News.FAILED, News.NONE]


def test_a_connection_that_is_lost_again_and_again_is_tried_sooner_than_what_a_server_refuses() -> None:
    pace = Pace(0.5)
    assert [pace.after(LOST, 0.0)[0] for _ in range(6)] == [1, 2, 4, 8, RECONNECT_SECONDS, RECONNECT_SECONDS]


@pytest.mark.parametrize("error", [LOST, FAILED])
def test_after_a_scan_that_was_given_up_the_source_captures_by_itself_for_long(error: DStreamError) -> None:
    assert Pace(0.5).after(error, SCAN_SECONDS) == (LEFT_ALONE_SECONDS, News.FAILED)


def test_another_kind_of_trouble_is_told_too() -> None:
    pace = Pace(0.5)
    assert [pace.after(error, 0.0)[1] for error in (REFUSED, FAILED, REFUSED)] == [
        News.REFUSED,
        News.FAILED,
        News.REFUSED,
    ]
