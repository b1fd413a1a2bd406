"""An outage of SQL Server in the log: once for each hint, and its end once."""

from __future__ import annotations

from structlog.testing import capture_logs

from common.clock import SteadyTime
from common.errors import ConnectionLost
from ingester.driver.outage import Outage
from ingester.source import UNREACHABLE
from ingester.watch.stats import IngesterStats
from tests.fakes.ingester import PERSONS

LOST, BACK = "connection to SQL Server lost, retrying", "reconnected to SQL Server"


def outage() -> Outage:
    return Outage(IngesterStats([PERSONS], clock=lambda: SteadyTime(0.0)), lambda: SteadyTime(0.0))


def test_a_cause_that_shows_later_is_logged_too_and_each_once() -> None:
    it = outage()
    with capture_logs() as logs:
        for _ in range(3):
            it.lost(ConnectionLost("the server closed the connection"))
            it.lost(ConnectionLost("login failed", hint="restart with the new password"))
        it.over()
    assert [(line["event"], line.get("hint")) for line in logs] == [
        (LOST, UNREACHABLE),
        (LOST, "restart with the new password"),
        (BACK, None),
    ]


def test_the_next_outage_is_logged_again() -> None:
    it = outage()
    with capture_logs() as logs:
        for _ in range(2):
            it.lost(ConnectionLost("the server closed the connection"))
            it.over()
    assert [line["event"] for line in logs] == [LOST, BACK, LOST, BACK]


def test_hints_that_never_end_are_a_few_lines() -> None:
    it = outage()
    with capture_logs() as logs:
        for number in range(50):
            it.lost(ConnectionLost("lost", hint=f"hint {number}"))
    assert len(logs) == 4


def test_what_a_stop_cuts_off_is_no_outage() -> None:
    """Nothing is retried then."""
    it = outage()
    with capture_logs() as logs:
        assert not it.lost(ConnectionLost("no answer before the stop"), stopping=True)
    assert (logs, bool(it)) == ([], False)
