"""Faults of capture by name: each takes a database's capture state, breaks it while a `with` block lasts, and then mends it.

The state is what `engine.extension.find(engine.database(name))` returns on an engine made by build_engine. Blocks of different
kinds may be nested; of two blocks of one kind the inner one counts, and its end mends both.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from emulators.sqlserver.cdc.database import DatabaseCdc


@contextmanager
def capture_stopped(cdc: DatabaseCdc) -> Iterator[None]:
    """The capture job is stopped; it is started again afterwards if it was running. sys.sp_cdc_scan still works by hand."""
    was_running = cdc.stop_job()
    try:
        yield
    finally:
        if was_running:
            cdc.start_job()


@contextmanager
def capture_lagging(cdc: DatabaseCdc, *, seconds: float = 0.0, transactions: int = 0) -> Iterator[None]:
    """Capture stays behind: commits younger than `seconds`, and the newest `transactions`, are left in the log."""
    cdc.hold_back(seconds=seconds, transactions=transactions)
    try:
        yield
    finally:
        cdc.hold_back()


@contextmanager
def capture_failing(cdc: DatabaseCdc, message: str | None = None) -> Iterator[None]:
    """Every scan ends with error 22859, seen in sys.dm_cdc_errors, and captures nothing. `message`: another text."""
    cdc.fail_scans(message)
    try:
        yield
    finally:
        cdc.let_scans_pass()
