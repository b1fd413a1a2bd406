"""Jobs that are dropped, added and shown, and the cleanup job's schedule. Sources: the pages sys.sp_cdc_add_job, sys.sp_cdc_drop_job,
dbo.cdc_jobs and "Administer and monitor change data capture" (D)."""

from __future__ import annotations

import threading

import pytest

from emulators.sqlserver.cdc.capture.cleanup_job import CleanupJob, until_two
from emulators.sqlserver.cdc.database import DatabaseCdc
from emulators.sqlserver.cdc.options import CdcOptions
from emulators.sqlserver.results import SqlError, Value
from tests.emulators.sqlserver.unit.cdc.conftest import Lab, person


def state_of(lab: Lab) -> DatabaseCdc:
    found = lab.extension.find(lab.database)
    assert found is not None
    return found


def job_types(lab: Lab) -> list[Value]:
    return [row["job_type"] for row in lab.rows_of("sp_cdc_help_jobs")]


def number_of(lab: Lab, procedure: str, **arguments: Value) -> int:
    with pytest.raises(SqlError) as refused:
        lab.run(procedure, **arguments)
    return refused.value.number


def test_a_dropped_capture_job_is_gone_and_captures_nothing(lab: Lab) -> None:
    """D: it is stopped first."""
    lab.enable()
    lab.run("sp_cdc_start_job")
    lab.run("sp_cdc_drop_job", job_type="capture")
    assert not state_of(lab).job_running
    assert job_types(lab) == ["cleanup"]
    assert number_of(lab, "sp_cdc_start_job") == 22997
    assert number_of(lab, "sp_cdc_change_job", maxtrans=5) == 22997
    assert number_of(lab, "sp_cdc_drop_job", job_type="capture") == 22997


def test_an_added_job_has_a_new_id_and_the_settings_that_were_given(lab: Lab) -> None:
    """D: settings that are not given have their defaults; @start_job = 1 starts it."""
    lab.enable()
    before = {row["job_type"]: row["job_id"] for row in lab.rows_of("sp_cdc_help_jobs")}
    for job_type in ("capture", "cleanup"):
        lab.run("sp_cdc_drop_job", job_type=job_type)
    assert job_types(lab) == []
    lab.run("sp_cdc_add_job", job_type="cleanup", start_job=0, retention=60, threshold=9)
    lab.run("sp_cdc_add_job", job_type="capture", maxtrans=7, pollinginterval=3)
    capturing, cleanup = lab.rows_of("sp_cdc_help_jobs")
    assert (capturing["maxtrans"], capturing["maxscans"], capturing["pollinginterval"]) == (7, 10, 3)
    assert (cleanup["retention"], cleanup["threshold"]) == (60, 9)
    assert before["capture"] != capturing["job_id"]
    assert before["cleanup"] != cleanup["job_id"]
    assert state_of(lab).job_running


def test_adding_a_job_that_is_there_is_refused(lab: Lab) -> None:
    """14261, SQL Server Agent's error; unverified."""
    lab.enable()
    assert number_of(lab, "sp_cdc_add_job", job_type="capture") == 14261
    assert number_of(lab, "sp_cdc_add_job", job_type="sweep") == 22992


@pytest.mark.parametrize(
    ("arguments", "number"),
    [
        ({"job_type": "capture", "maxtrans": 0}, 22991),
        ({"job_type": "capture", "retention": 5}, 22995),
        ({"job_type": "cleanup", "retention": 0}, 22994),
    ],
)
def test_a_job_with_bad_settings_is_not_added(lab: Lab, arguments: dict[str, Value], number: int) -> None:
    """D: the errors of sys.sp_cdc_change_job."""
    lab.enable()
    lab.run("sp_cdc_drop_job", job_type=arguments["job_type"])
    assert number_of(lab, "sp_cdc_add_job", **arguments) == number
    assert arguments["job_type"] not in job_types(lab)


def test_dropped_jobs_do_not_come_back_with_another_table(lab: Lab) -> None:
    """D: they are made with the first enabled table only."""
    lab.enable()
    lab.run("sp_cdc_drop_job", job_type="capture")
    lab.enable("Notes")
    assert job_types(lab) == ["cleanup"]


def test_the_job_table_shows_both_jobs_of_every_database(lab: Lab) -> None:
    """D: msdb.dbo.cdc_jobs."""
    lab.enable()
    found = lab.extension.views()["msdb.dbo.cdc_jobs"]
    rows = [(row[0], row[1], *row[3:]) for row in found.call(lab.context, ())]
    assert rows == [
        (lab.database.database_id, "capture", 500, 10, 1, 3600, 0, 0),
        (lab.database.database_id, "cleanup", 0, 0, 0, 0, 4320, 5000),
    ]
    assert [column.name for column in found.columns] == [
        *("database_id", "job_type", "job_id", "maxtrans", "maxscans"),
        *("continuous", "pollinginterval", "retention", "threshold"),
    ]


@pytest.mark.parametrize(
    ("now", "seconds"),
    [("2026-01-02 01:59:59.000", 1.0), ("2026-01-02 02:00:00.000", 86400.0), ("2026-01-02 14:00:00.000", 43200.0)],
)
def test_the_cleanup_job_runs_at_two_in_the_morning(now: str, seconds: float) -> None:
    """D: 2 A.M. daily by default."""
    assert until_two(now) == seconds


def test_a_cleanup_interval_replaces_the_daily_run(lab: Lab) -> None:
    state = state_of(lab)
    state.options = CdcOptions(capture_interval=3600.0, cleanup_interval=0.005)
    lab.enable()
    for number, day in ((1, "02"), (2, "03"), (3, "09")):
        lab.time = f"2026-01-{day} 03:04:05.677"
        with lab.database.transaction() as t:
            t.insert("Persons", person(number))
    lab.scan()
    gone = threading.Event()
    for _ in range(2000):
        if [c["ID"] for c in lab.changes()] == [2, 3]:
            gone.set()
            break
        gone.wait(0.005)
    assert gone.is_set()


def test_a_failing_cleanup_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    runs: list[int] = []
    twice = threading.Event()

    def cleanup() -> None:
        runs.append(1)
        if len(runs) == 2:
            twice.set()
        raise RuntimeError("disk full")

    job = CleanupJob("demo", cleanup, lambda: 0.001)
    job.start()
    assert twice.wait(10)
    job.stop()
    assert "cleanup job of database demo failed" in caplog.text


def test_closing_stops_the_cleanup_thread(lab: Lab) -> None:
    lab.enable()
    assert [thread for thread in threading.enumerate() if thread.name == "cdc.demo_cleanup"]
    lab.extension.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "cdc.demo_cleanup"]
