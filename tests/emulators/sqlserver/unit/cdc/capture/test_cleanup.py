"""Cleaning up a change table. Source: the page sys.sp_cdc_cleanup_change_table (D); measured on SQL Server 2025 (M)."""

from __future__ import annotations

import pytest

from emulators.sqlserver.cdc.lsn import increment
from emulators.sqlserver.results import SqlError
from tests.emulators.sqlserver.unit.cdc.conftest import Lab, person


def filled(lab: Lab, *seconds: int) -> list[bytes]:
    """One captured insert a second given; their commit LSNs."""
    lab.enable()
    for at, second in enumerate(seconds):
        lab.time = f"2026-02-01 00:00:{second:02d}.000"
        with lab.database.transaction() as t:
            t.insert("Persons", person(at), person(at + 100))
    lab.scan()
    return [lsn for lsn in (entry["start_lsn"] for entry in lab.entries()) if isinstance(lsn, bytes)]


def clean(lab: Lab, mark: bytes | None, threshold: int = 5000) -> None:
    lab.run("sp_cdc_cleanup_change_table", capture_instance="dbo_Persons", low_water_mark=mark, threshold=threshold)


def test_the_low_watermark_rises_and_the_rows_below_it_go(lab: Lab) -> None:
    """D: rows at the mark itself stay."""
    lsns = filled(lab, 1, 2, 3)
    clean(lab, lsns[1])
    assert lab.call("fn_cdc_get_min_lsn", "dbo_Persons") == lsns[1]
    assert sorted({c["__$start_lsn"] for c in lab.changes()}) == lsns[1:]


def test_a_threshold_smaller_than_the_rows_deletes_them_all_in_chunks(lab: Lab) -> None:
    """D: the threshold bounds one statement, not the cleanup."""
    lsns = filled(lab, 1, 2, 3)
    clean(lab, lsns[2], threshold=1)
    assert len(lab.changes()) == 2


def test_a_mark_is_moved_down_to_the_first_lsn_of_its_commit_time(lab: Lab) -> None:
    """D."""
    lsns = filled(lab, 1, 2, 2)
    clean(lab, lsns[2])
    assert lab.call("fn_cdc_get_min_lsn", "dbo_Persons") == lsns[1]


def test_a_mark_that_is_no_start_lsn_is_22964(lab: Lab) -> None:
    """D."""
    lsns = filled(lab, 1, 2)
    with pytest.raises(SqlError) as refused:
        clean(lab, increment(lsns[0]))
    assert refused.value.number == 22964
    assert lsns[0].hex().upper() not in refused.value.message
    assert increment(lsns[0]).hex().upper() in refused.value.message
    assert len(lab.changes()) == 4


def test_a_null_mark_only_deletes_below_the_present_one(lab: Lab) -> None:
    """D, M."""
    lsns = filled(lab, 1, 2)
    low = lab.call("fn_cdc_get_min_lsn", "dbo_Persons")
    clean(lab, None)
    assert lab.call("fn_cdc_get_min_lsn", "dbo_Persons") == low
    assert len(lab.changes()) == 2 * len(lsns)


def test_a_mark_below_the_present_one_changes_nothing(lab: Lab) -> None:
    """D."""
    lsns = filled(lab, 1, 2, 3)
    clean(lab, lsns[2])
    clean(lab, lsns[0])
    assert lab.call("fn_cdc_get_min_lsn", "dbo_Persons") == lsns[2]


def test_a_window_below_the_low_watermark_is_313_and_direct_reads_do_not_check(lab: Lab) -> None:
    """D: the loss shows in the function only."""
    lsns = filled(lab, 1, 2, 3)
    clean(lab, lsns[1])
    with pytest.raises(SqlError) as refused:
        lab.all_changes("dbo_Persons", lsns[0], lsns[2], "all")
    assert refused.value.number == 313
    assert len(lab.changes()) == 4


def test_other_instances_keep_their_rows_and_watermarks(lab: Lab) -> None:
    """D: the procedure cleans one instance."""
    lab.enable(capture_instance="second")
    before = lab.call("fn_cdc_get_min_lsn", "second")
    lsns = filled(lab, 1, 2)
    clean(lab, lsns[1])
    assert lab.call("fn_cdc_get_min_lsn", "second") == before
    assert len(lab.changes("second")) == 4


def test_the_cleanup_job_drops_what_is_older_than_the_retention(lab: Lab) -> None:
    """D: counted back from the newest commit, to the smallest LSN of its commit time; entries go with the rows."""
    lab.enable(capture_instance="second")
    lsns = filled(lab, 1, 2, 2, 3)
    lab.run("sp_cdc_change_job", job_type="cleanup", retention=1, threshold=1)
    lab.time = "2026-02-01 00:01:02.000"
    with lab.database.transaction() as t:
        t.insert("Persons", person(9))
    lab.scan()
    lab.run("sp_cdc_start_job", job_type="cleanup")
    assert [c["ID"] for c in lab.changes()] == [1, 101, 2, 102, 3, 103, 9]
    assert [c["ID"] for c in lab.changes("second")] == [1, 101, 2, 102, 3, 103, 9]
    assert lab.call("fn_cdc_get_min_lsn", "dbo_Persons") == lab.call("fn_cdc_get_min_lsn", "second") == lsns[1]
    assert [e["start_lsn"] for e in lab.entries()][:3] == lsns[1:]


def test_the_cleanup_job_leaves_everything_while_nothing_is_old_enough(lab: Lab) -> None:
    """D: the default retention is three days."""
    lsns = filled(lab, 1, 2)
    low = lab.call("fn_cdc_get_min_lsn", "dbo_Persons")
    lab.run("sp_cdc_start_job", job_type="cleanup")
    assert lab.call("fn_cdc_get_min_lsn", "dbo_Persons") == low
    assert [e["start_lsn"] for e in lab.entries()] == lsns
