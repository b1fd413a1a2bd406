"""The cleanup job's thread: drops what is older than the retention, at 02:00 every day as on the real server, or at an interval.

Source: https://learn.microsoft.com/sql/relational-databases/track-changes/administer-and-monitor-change-data-capture-sql-server
(sys.sp_cdc_start_job runs the same at once.)
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from datetime import datetime, timedelta

from emulators.sqlserver.cdc.capture.capture import is_closed

_LOG = logging.getLogger(__name__)

_HOUR = 2
_FAREWELL = 0.5


def until_two(now: str) -> float:
    """Seconds from `now` (datetime form, server-local) to the next 02:00."""
    moment = datetime.fromisoformat(now)
    next_run = moment.replace(hour=_HOUR, minute=0, second=0, microsecond=0)
    if next_run <= moment:
        next_run += timedelta(days=1)
    return (next_run - moment).total_seconds()


class CleanupJob:
    """Runs `cleanup` on a thread of its own whenever `pause` has gone by, until stopped."""

    def __init__(self, name: str, cleanup: Callable[[], None], pause: Callable[[], float]) -> None:
        """`pause`: seconds to wait, asked before each run."""
        self._cleanup = cleanup
        self._pause = pause
        self._name = name
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"cdc.{name}_cleanup", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """No run begins once this returns; one that waits for the writer lock is not waited for."""
        self._stop.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(_FAREWELL)

    def _run(self) -> None:
        while not self._stop.wait(self._pause()):
            try:
                self._cleanup()
            except Exception as error:
                if self._stop.is_set() or is_closed(error):
                    return
                _LOG.exception("cleanup job of database %s failed, trying again", self._name)
