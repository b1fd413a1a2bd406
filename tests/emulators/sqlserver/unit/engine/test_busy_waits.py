"""A wait for a lock ends as it must, however much others release meanwhile: each release wakes it before its look at the clock."""

from __future__ import annotations

import threading
import time

import pytest

from emulators.sqlserver.engine.application_locks import ApplicationLocks, Owner, Resource
from emulators.sqlserver.engine.locks import WriterLock
from emulators.sqlserver.results import Cancelled

_PATIENCE = 2.0


@pytest.fixture(autouse=True)
def _busy(monkeypatch: pytest.MonkeyPatch) -> None:
    def wait(condition: threading.Condition, timeout: float | None = None) -> bool:
        time.sleep(0.001)
        return True

    monkeypatch.setattr(threading.Condition, "wait", wait)


def test_a_busy_database_does_not_keep_a_statement_from_being_cancelled() -> None:
    with pytest.raises(Cancelled):
        WriterLock().wait_while("waits", lambda: ("holds",), _PATIENCE, lambda: True)


def test_busy_application_locks_do_not_keep_a_statement_from_being_cancelled() -> None:
    locks = ApplicationLocks()
    wanted = Resource(1, "public", "wanted")
    locks.acquire(Owner(1, False), wanted, "Exclusive", 0, lambda: False)
    with pytest.raises(Cancelled):
        locks.acquire(Owner(2, False), wanted, "Exclusive", _PATIENCE, lambda: True)
