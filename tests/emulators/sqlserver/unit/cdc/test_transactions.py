"""Commit order, savepoints, rollbacks and the asynchronous scan. Sources: the pages About CDC and cdc.lsn_time_mapping (D)."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from tests.emulators.sqlserver.unit.cdc.conftest import Lab, person
from tests.fakes.sql_database import FakeSqlDatabase


def test_max_lsn_is_null_before_the_first_capture(lab: Lab) -> None:
    """Measured."""
    lab.enable()
    assert lab.call("fn_cdc_get_max_lsn") is None


def test_committed_changes_appear_only_after_a_scan(lab: Lab) -> None:
    """D: capture is asynchronous."""
    lab.enable()
    with lab.database.transaction() as t:
        t.insert("Persons", person(1))
    assert lab.changes() == []
    lab.scan()
    assert len(lab.changes()) == 1


def test_rolled_back_work_never_appears(lab: Lab) -> None:
    """D."""
    lab.enable()
    with lab.database.transaction() as t:
        t.insert("Persons", person(1))
        t.rollback()
    lab.scan()
    assert lab.changes() == []
    assert lab.entries() == []


def test_a_rollback_to_a_savepoint_drops_only_what_came_after_it(lab: Lab) -> None:
    """Unverified on a real server."""
    lab.enable()
    with lab.database.transaction() as t:
        t.insert("Persons", person(1))
        t.save("here")
        t.insert("Persons", person(2))
        t.rollback_to("here")
        t.insert("Persons", person(3))
    lab.scan()
    assert [c["ID"] for c in lab.changes()] == [1, 3]


def test_a_savepoint_before_the_first_change_can_be_rolled_back_to(lab: Lab) -> None:
    lab.enable()
    with lab.database.transaction() as t:
        t.save("start")
        t.insert("Persons", person(1))
        t.rollback_to("start")
    lab.scan()
    assert lab.entries() == []


def test_commit_lsns_grow_in_commit_order(lab: Lab) -> None:
    """D: entries are added in the order in which transactions were committed."""
    lab.enable()
    for number in range(5):
        with lab.database.transaction() as t:
            t.insert("Persons", person(number))
    lab.scan()
    lsns = [c["__$start_lsn"] for c in lab.changes()]
    assert len(set(lsns)) == 5
    assert [c["ID"] for c in lab.changes()] == [0, 1, 2, 3, 4]
    assert [e["start_lsn"] for e in lab.entries()] == lsns


def test_an_entry_of_lsn_time_mapping_tells_times_and_transaction(lab: Lab) -> None:
    """D."""
    lab.enable()
    with lab.database.transaction() as t:
        t.insert("Persons", person(1))
        lab.time = "2026-01-02 03:04:06.000"
    lab.scan()
    (entry,) = lab.entries()
    assert (entry["tran_begin_time"], entry["tran_end_time"]) == ("2026-01-02 03:04:05.677", "2026-01-02 03:04:06.000")
    assert entry["tran_id"] != b"\0"
    assert entry["tran_begin_lsn"] < entry["start_lsn"]


def test_transactions_that_touch_no_tracked_table_leave_no_entry(lab: Lab) -> None:
    lab.enable()
    with lab.database.transaction() as t:
        t.insert("Notes", {"ID": 1})
    lab.scan()
    assert lab.entries() == []


def test_changes_before_enabling_are_not_captured(lab: Lab) -> None:
    """D: an instance begins with its start_lsn, in a transaction that is still waiting for capture too."""
    lab.enable()
    with lab.database.transaction() as t:
        t.insert("Persons", person(1))
    lab.enable(capture_instance="second")
    with lab.database.transaction() as t:
        t.insert("Persons", person(2))
    lab.scan()
    assert [c["ID"] for c in lab.changes()] == [1, 2]
    assert [c["ID"] for c in lab.changes("second")] == [2]


def test_a_scan_takes_at_most_maxtrans_times_maxscans_whole_transactions(lab: Lab) -> None:
    """D: sys.sp_cdc_scan."""
    lab.enable()
    for number in range(5):
        with lab.database.transaction() as t:
            t.insert("Persons", person(2 * number), person(2 * number + 1))
    lab.run("sp_cdc_scan", maxtrans=2, maxscans=2)
    assert len(lab.changes()) == 8
    lab.scan()
    assert len(lab.changes()) == 10


def test_rows_and_their_entry_appear_together(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """D: one transaction a scan. A scan that fails half way leaves nothing, and the next one finds everything."""
    lab.enable()
    with lab.database.transaction() as t:
        t.insert("Persons", person(1))
    with monkeypatch.context() as patched:
        patched.setattr("emulators.sqlserver.cdc.log_store.forget", _broken)
        with pytest.raises(sqlite3.OperationalError):
            lab.scan()
    assert (lab.changes(), lab.entries()) == ([], [])
    lab.scan()
    assert (len(lab.changes()), len(lab.entries())) == (1, 1)


def _broken(connection: sqlite3.Connection, up_to: bytes) -> None:
    raise sqlite3.OperationalError("disk I/O error")


def test_a_reopened_database_goes_on_with_larger_lsns_and_loses_nothing(lab: Lab) -> None:
    lab.enable()
    with lab.database.transaction() as t:
        t.insert("Persons", person(1))
    lab.scan()
    with lab.database.transaction() as t:
        t.insert("Persons", person(2))
    lab.extension.detach(lab.database)
    lab.extension.attach(lab.database)
    with lab.database.transaction() as t:
        t.insert("Persons", person(3))
    lab.scan()
    changes = lab.changes()
    assert [c["ID"] for c in changes] == [1, 2, 3]
    assert len({c["__$start_lsn"] for c in changes}) == 3


def test_a_database_that_reuses_the_number_of_a_dropped_one_has_no_capture_yet(lab: Lab, tmp_path: Path) -> None:
    lab.enable()
    other = FakeSqlDatabase(tmp_path / "other.sqlite")
    try:
        assert other.database_id == lab.database.database_id
        assert lab.extension.find(other) is None
        lab.extension.enable(other)
        assert lab.extension.find(other) is not None
        assert lab.extension.find(lab.database) is None
    finally:
        lab.extension.detach(other)
        other.close()
