"""What the SQL Server emulator knowingly does not imitate, each with its reason: the only place where that is written.

A key is the name of a test, name[case] for one case of it, or name[driver-case] for one through one driver. A gap that has
closed fails the run (XPASS), and so does a name that no test has. On a real server the list means nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

GAPS: Mapping[str, str] = {
    "test_waiting_longer_than_the_lock_timeout_is_1222[reading]": "SQLite's readers are not stopped by a writer",
    "test_a_conflict_with_a_constraint_is_547": "foreign keys are refused with 50001",
}
