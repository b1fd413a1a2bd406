"""Views about capture as monitoring tools query them, on the emulator and, where DSTREAM_TEST_SQLSERVER names one, on a real server.

D: Microsoft's documentation. A real server's job must be stopped before sys.sp_cdc_scan is called by hand: the tests do so.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.emulators.sqlserver.wire.cdc_client import PATIENCE, Client, database_with_persons, server


@pytest.fixture(scope="module")
def options() -> Iterator[dict[str, Any]]:
    with server() as found:
        yield found


@pytest.fixture
def client(options: dict[str, Any]) -> Iterator[Client]:
    with database_with_persons(options) as made:
        yield made


def test_the_documented_query_for_the_current_scan_session(client: Client) -> None:
    """D: the example of the page sys.dm_cdc_log_scan_sessions."""
    client.enable()
    client.run("INSERT INTO dbo.Persons (ID) VALUES (1)")
    client.captured(1)
    query = (
        "SELECT session_id, start_time, end_time, duration, scan_phase, error_count, start_lsn, current_lsn, end_lsn, "
        "tran_count, last_commit_lsn, last_commit_time, log_record_count, schema_change_count, command_count, "
        "first_begin_cdc_lsn, last_commit_cdc_lsn, last_commit_cdc_time, latency, empty_scan_count, failed_sessions_count "
        "FROM sys.dm_cdc_log_scan_sessions WHERE session_id = (SELECT MAX(b.session_id) FROM sys.dm_cdc_log_scan_sessions AS b)"
    )
    assert len(client.rows(query)) == 1
    ((transactions, phase),) = client.rows(
        "SELECT tran_count, scan_phase FROM sys.dm_cdc_log_scan_sessions WHERE session_id = 0"
    )
    assert (transactions, phase) == (1, "Aggregate")


def test_a_capture_that_has_met_no_error_has_no_rows_of_errors(client: Client) -> None:
    """D."""
    client.enable()
    assert client.rows("SELECT session_id, error_number, error_message FROM sys.dm_cdc_errors") == []


def test_the_jobs_of_the_database_are_in_msdb(client: Client) -> None:
    """D: dbo.cdc_jobs."""
    client.enable()
    found = client.rows(
        "SELECT job_type, maxtrans, maxscans, continuous, pollinginterval, retention, threshold "
        "FROM msdb.dbo.cdc_jobs WHERE database_id = DB_ID() ORDER BY job_type"
    )
    assert found == [("capture", 500, 10, True, 5, 0, 0), ("cleanup", 0, 0, False, 0, 4320, 5000)]


def test_a_job_can_be_dropped_and_added_again(client: Client) -> None:
    """D."""
    client.enable()
    client.run("EXEC sys.sp_cdc_drop_job @job_type = N'capture'")
    assert client.value("SELECT COUNT(*) FROM msdb.dbo.cdc_jobs WHERE database_id = DB_ID()") == 1
    client.run("EXEC sys.sp_cdc_add_job @job_type = N'capture', @pollinginterval = 1")
    client.run("INSERT INTO dbo.Persons (ID) VALUES (1)")
    deadline = time.monotonic() + PATIENCE
    while not client.changes("ID"):
        assert time.monotonic() < deadline
        time.sleep(0.05)
