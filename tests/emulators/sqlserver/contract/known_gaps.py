"""What the SQL Server emulator knowingly does not imitate, each with its reason: the only place where that is written.

A key is the name of a test, name[case] for one case of it, or name[driver-case] for one through one driver. A gap that has
closed fails the run (XPASS), and so does a name that no test has. On a real server the list means nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

GAPS: Mapping[str, str] = {
    "test_of_interleaved_transactions_the_first_to_commit_comes_first": "SQLite has one writer a database: see the injector",
    "test_the_capture_process_does_not_wait_for_open_transactions": "SQLite has one writer a database",
    "test_a_scan_beside_the_running_job_is_22903": "sys.sp_cdc_scan works beside the job, so that tests need not stop it",
}
