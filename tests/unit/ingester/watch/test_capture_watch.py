"""Lag, headroom and silence as they are reported, with a server and a clock that the test sets; no thread."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from structlog.testing import capture_logs

from common.clock import SteadyTime
from common.errors import PermanentError, TransientError
from ingester.capture_status import CaptureError, OffsetTimes, Silence
from ingester.slices import SliceResult, Trouble
from ingester.sqlserver.silence import CaptureFacts, CaptureJobs
from ingester.watch.capture_watch import Watch
from ingester.watch.figures import Standing
from ingester.watch.metrics import METRICS, samples
from ingester.watch.stats import LOOP_SECONDS, IngesterStats
from tests.fakes.capture import FakeCapture, scanned
from tests.fakes.ingester import ORDERS, PERSONS

HOUR = 3600.0


class World:
    """A watch over two tables that are read."""

    def __init__(self) -> None:
        self.clock = 1000.0
        self.stats = IngesterStats([PERSONS, ORDERS], clock=lambda: SteadyTime(self.clock))
        self.view = FakeCapture()
        self.watch = Watch(self.view, self.stats)
        self.stats.connected(True)
        for table in (PERSONS, ORDERS):
            self.stats.stands(table, Standing.READ, behind=False)

    def sent(self, changes: int = 3, **more: Any) -> None:
        self.stats.settled(SliceResult(PERSONS, None, changes, 1, **more))

    def look(self, after: float = 30.0) -> list[dict[str, Any]]:
        self.clock += after
        with capture_logs() as logs:
            self.watch.look()
        return [dict(line) for line in logs]

    def metrics(self) -> dict[tuple[str, ...], Any]:
        return {
            (s.metric.name.removeprefix("dstream_ingester_"), *s.labels): s.value
            for s in samples(self.stats, self.watch.seen)
        }

    @property
    def state(self) -> Silence:
        return self.watch.seen.why.state


@pytest.fixture
def world() -> World:
    return World()


# silence


def test_while_changes_flow_nobody_is_asked_why_not(world: World) -> None:
    world.look()
    world.sent()
    world.view.asked.clear()
    assert world.look() == []
    assert (world.view.asked, world.state) == (["times"], Silence.FLOWING)
    assert world.metrics()["silence", "dbo.Persons", "flowing"] == 1
    assert world.metrics()["silence", "sales.Orders", "idle"] == 1


def test_quiet_tables_beside_a_capture_at_work_are_idle_and_nobody_is_asked(world: World) -> None:
    world.look(61)
    assert "facts" not in world.view.asked
    assert world.state is Silence.IDLE


def test_idleness_is_told_once_and_not_at_once(world: World) -> None:
    world.view.newest = 400.0
    assert world.look(100) == []
    assert world.state is Silence.IDLE
    (line,) = world.look(250)
    assert (line["event"], line["log_level"]) == ("idle", "info")
    assert line["why"].startswith("nothing to read: the newest change was committed 7 min ago")
    assert world.look() == []


def test_a_source_whose_changes_wait_to_be_sent_is_not_told_idle_before_they_are(world: World) -> None:
    world.view.newest = 400.0
    world.stats.stands(ORDERS, Standing.READ, behind=True)
    assert world.look(400) == []
    world.stats.stands(ORDERS, Standing.READ, behind=False)
    assert [line["event"] for line in world.look()] == ["idle"]


def test_a_stopped_capture_is_told_once_with_the_remedy_and_so_is_its_end(world: World) -> None:
    world.view.newest = 400.0
    world.view.told_facts = CaptureFacts(True, "REPLICATION", (scanned(400.0),))
    (line,) = world.look(70)
    assert (line["event"], line["log_level"]) == ("no changes arrive", "warning")
    assert "capture has stopped: the log was last scanned 7 min ago" in line["why"]
    assert "sp_cdc_start_job" in line["hint"]
    assert world.look() == []
    assert world.metrics()["silence", "dbo.Persons", "capture_stopped"] == 1
    world.view.newest = 1.0
    (line,) = world.look()
    assert line["event"] == "capture works again"
    assert world.look() == []


def test_a_capture_that_stands_still_is_not_called_late_although_something_was_just_sent(world: World) -> None:
    world.sent()
    world.view.newest = 400.0
    world.view.told_facts = CaptureFacts(True, "NOTHING", (scanned(400.0),))
    (line,) = world.look()
    assert line["event"] == "no changes arrive"


def test_changes_that_come_late_are_told_while_they_come(world: World) -> None:
    world.sent()
    world.view.newest = 90.0
    world.view.told_facts = CaptureFacts(True, "NOTHING", (scanned(5.0, latency=95.0),))
    (line,) = world.look()
    assert line["event"] == "changes arrive late"
    assert world.metrics()["silence", "dbo.Persons", "capture_lagging"] == 1


def test_changes_that_were_looked_for_late_are_no_lag_of_capture(world: World) -> None:
    world.sent()
    world.view.newest = 90.0
    assert world.look() == []
    assert (world.view.asked[-1], world.state) == ("facts", Silence.FLOWING)


def test_errors_of_capture_are_told_once_each_and_again_when_they_come_again(world: World) -> None:
    error = CaptureError(22859, "Log Scan process failed")
    world.view.newest = None
    good = world.view.told_facts
    world.view.told_facts = replace(good, errors=(error,))
    lines = world.look()
    assert [(line["number"], line["error"]) for line in lines] == [(22859, "Log Scan process failed")]
    assert world.look(10) == []
    world.view.told_facts = good
    assert world.look(10) == []
    world.view.told_facts = replace(good, errors=(error,))
    assert len(world.look(1)) == 1


def test_a_missing_right_is_told_once_with_the_grant(world: World) -> None:
    world.view.newest = None
    world.view.told_facts = CaptureFacts(True, "NOTHING", None)
    (line,) = world.look(70)
    assert "GRANT VIEW DATABASE STATE" in line["hint"]
    assert world.look() == []
    assert world.state is Silence.UNKNOWN


def test_while_no_table_can_be_read_no_other_right_is_asked_for(world: World) -> None:
    world.stats.unanswered("permission denied (GRANT SELECT ON SCHEMA::cdc)")
    world.view.newest = None
    world.view.told_facts = CaptureFacts(True, "NOTHING", None)
    assert world.look(70) == []
    world.stats.unanswered(None)
    (line,) = world.look()
    assert "GRANT VIEW DATABASE STATE" in line["hint"]


# lag


def test_a_table_that_was_found_empty_has_no_lag(world: World) -> None:
    world.view.offsets["dbo.Persons"] = OffsetTimes(10.0, 20.0)
    world.look()
    assert world.metrics()["lag_seconds", "dbo.Persons"] == 0


def test_the_lag_of_a_table_counts_from_the_commit_of_what_it_has_not_sent(world: World) -> None:
    world.stats.stands(PERSONS, Standing.READ, behind=True)
    world.view.offsets["dbo.Persons"] = OffsetTimes(10.0, 500.0)
    world.look(1)
    world.clock += 5
    assert world.metrics()["lag_seconds", "dbo.Persons"] == 505
    world.sent(more=False)
    assert world.metrics()["lag_seconds", "dbo.Persons"] == 0


def test_what_came_since_the_last_question_is_counted_from_when_it_was_seen(world: World) -> None:
    world.view.offsets["dbo.Persons"] = OffsetTimes(10.0, 500.0)
    world.look()
    world.stats.stands(PERSONS, Standing.READ, behind=True)
    world.clock += 2
    assert world.metrics()["lag_seconds", "dbo.Persons"] == 2


def test_in_the_middle_of_the_newest_transaction_it_is_that_ones_age(world: World) -> None:
    world.stats.stands(PERSONS, Standing.READ, behind=True)
    world.view.offsets["dbo.Persons"] = OffsetTimes(0.0, None)
    world.view.newest = 50.0
    world.look()
    assert world.metrics()["lag_seconds", "dbo.Persons"] == 50


def test_a_stopped_table_lags_on_and_one_that_others_read_is_theirs(world: World) -> None:
    world.stats.stands(PERSONS, Standing.STOPPED, behind=True)
    world.stats.stands(ORDERS, Standing.ELSEWHERE)
    world.view.offsets = {"dbo.Persons": OffsetTimes(HOUR, HOUR), "sales.Orders": OffsetTimes(HOUR, HOUR)}
    world.look()
    assert world.metrics()["lag_seconds", "dbo.Persons"] == HOUR
    assert world.metrics()["retention_headroom_seconds", "dbo.Persons"] == 71 * HOUR
    assert not {name for name, *labels in world.metrics() if "sales.Orders" in labels} & {
        "lag_seconds",
        "retention_headroom_seconds",
        "silence",
    }


# headroom


def test_headroom_that_shrinks_is_told_at_each_step_and_once(world: World) -> None:
    def told(age_hours: float) -> list[tuple[str, str]]:
        world.view.offsets["dbo.Persons"] = OffsetTimes(age_hours * HOUR, None)
        return [(line["log_level"], line["event"]) for line in world.look(1)]

    assert told(53) == []
    assert told(55) == [("warning", "CDC cleanup is close to the table's offset")]
    assert told(56) == []
    assert told(69) == [("warning", "CDC cleanup is about to remove unread changes")]
    assert told(73) == [("warning", "CDC cleanup may have removed unread changes")]
    assert told(60) == []
    assert told(10) == [("info", "CDC cleanup is no longer close to the table's offset")]
    assert told(55) == [("warning", "CDC cleanup is close to the table's offset")]


def test_the_warning_says_what_is_left_and_what_can_be_done(world: World) -> None:
    world.view.offsets["dbo.Persons"] = OffsetTimes(60 * HOUR, None)
    (line,) = world.look()
    assert (line["table"], line["hours_left"], line["retention_hours"]) == ("dbo.Persons", 12.0, 72.0)
    assert "@retention" in line["hint"]


def test_a_retention_that_may_not_be_seen_is_no_metric_and_is_told_once(world: World) -> None:
    world.view.told_jobs = None
    world.view.offsets["dbo.Persons"] = OffsetTimes(60 * HOUR, None)
    (line,) = world.look()
    assert (line["log_level"], "GRANT SELECT ON OBJECT::dbo.cdc_jobs" in line["hint"]) == ("info", True)
    world.clock += 700
    world.sent()
    assert world.look() == []
    assert "retention_seconds" not in {name for name, *_ in world.metrics()}


def test_without_a_cleanup_job_nothing_is_ever_removed(world: World) -> None:
    world.view.told_jobs = CaptureJobs(True, 5.0, None)
    world.view.offsets["dbo.Persons"] = OffsetTimes(6000 * HOUR, None)
    assert world.look() == []


# what goes wrong


def test_a_lost_connection_is_the_loops_to_tell(world: World) -> None:
    world.stats.connected(False)
    assert world.look() == []
    assert world.view.asked == []
    world.stats.connected(True)
    world.view.fail = TransientError("gone")
    assert [line for line in world.look() if line["log_level"] != "debug"] == []


def test_times_that_may_not_be_seen_are_told_once_and_silence_is_explained_all_the_same(world: World) -> None:
    def refused() -> Any:
        raise PermanentError("no such table", hint="do this")

    world.view.times = refused  # type: ignore[method-assign]
    world.view.told_facts = CaptureFacts(False, "NOTHING", ())
    lines = world.look(70)
    assert [line["event"] for line in lines] == ["lag and retention headroom unknown", "no changes arrive"]
    assert world.look() == []


# what the loop tells


def test_health_is_a_loop_that_turns_and_readiness_one_that_reaches_its_server(world: World) -> None:
    fresh = IngesterStats([PERSONS], clock=lambda: SteadyTime(world.clock))
    assert fresh.alive() is None
    assert (fresh.ready() or "").startswith("starting")
    fresh.connected(True)
    assert fresh.ready() is None
    fresh.connected(False, "sql01 refuses connections (see whether it is up)")
    assert fresh.ready() == "the connection to SQL Server is lost: sql01 refuses connections (see whether it is up)"
    world.clock += LOOP_SECONDS + 2 * 10 + 1
    assert fresh.alive() == "the loop has not turned for 301 s"
    fresh.turned()
    assert fresh.alive() is None


def test_slices_are_counted_with_what_went_wrong(world: World) -> None:
    world.stats.started(PERSONS)
    world.clock += 0.2
    world.sent(10)
    world.sent(0, trouble=Trouble.LEASE_LOST, message="")
    world.stats.skipped(ORDERS)
    found = world.metrics()
    assert (found["changes_total", "dbo.Persons"], found["pages_total", "dbo.Persons"]) == (10, 2)
    assert found["failures_total", "dbo.Persons", "lease_lost"] == 1
    assert found["gaps_skipped_total", "sales.Orders"] == 1
    assert found["slice_seconds",].counts[5] == 1


def test_a_table_that_is_configured_no_more_is_no_metric_any_more(world: World) -> None:
    world.stats.removed(PERSONS)
    assert not [labels for labels in world.metrics() if "dbo.Persons" in labels]


def test_every_metric_that_is_told_is_declared(world: World) -> None:
    world.sent(1, trouble=Trouble.TRANSIENT, message="")
    world.view.offsets["dbo.Persons"] = OffsetTimes(0.0, None)
    world.look()
    world.stats.scanned("captured")
    world.stats.scans(True)
    told = {sample.metric.name for sample in samples(world.stats, world.watch.seen)}
    assert told == {metric.name for metric in METRICS}
