"""Whether Spark runs tasks, judged by its executors, by jobs that fail through no fault of a slice, and by jobs that no executor takes.

It asks nothing itself: executor.py reports to it. Trouble that lasts ends the process, so that another ingester can take the tables.
"""

from __future__ import annotations

import threading

import structlog

from common.clock import SteadyClock, steady
from common.errors import PermanentError

PATIENCE_SECONDS = 120.0
"""How long Spark may run nothing. A replaced executor is back within this time, and another ingester should not wait longer."""
FIRM_SECONDS = 20.0
"""How long jobs must fail one after another before the executor is to blame. A single worker that died is replaced at once."""
SILENT_SECONDS = 60.0
"""A JVM that has not answered for this long hangs."""
LATE_SECONDS = 15.0
"""And after this long it is told, since tables wait."""
LATE_TURNS = 10
"""And after so many turns of the loop: see SILENT_TURNS."""
SILENT_TURNS = 100
"""And for this many turns of the loop: a process that was paused while a question was open has not waited."""

NO_EXECUTOR = "find out why the cluster provides none: its workers, quotas, the executors' image and logs"

log = structlog.get_logger("spark")


class ExecutorHealth:
    """Any thread reports, the loop reads. `idles`: the cluster keeps no executor while there is nothing to do (dynamic allocation)."""

    def __init__(self, *, idles: bool = False, clock: SteadyClock = steady) -> None:
        self._idles = idles
        self._clock = clock
        self._guard = threading.Lock()
        self._failing: float | None = None
        self._failed: float = 0.0
        self._why, self._hint = "", ""
        self._empty: float | None = None
        self._waiting, self._waited = 0, 0.0
        self._told = False

    def worked(self) -> None:
        """A task ran to its end, whether or not its slices succeeded."""
        with self._guard:
            self._failing = None
            self._waiting, self._waited = 0, 0.0

    def failed(self, why: str, hint: str) -> None:
        """A task did not run, or its worker died."""
        now = self._clock()
        with self._guard:
            self._failing = now if self._failing is None else self._failing
            self._failed, self._why, self._hint = now, why, hint

    @property
    def in_doubt(self) -> bool:
        """Whether the last known job failed, because of the executor or of a table that kills its worker."""
        with self._guard:
            return self._failing is not None

    def counted(self, executors: int) -> None:
        """There are this many executors."""
        with self._guard:
            if executors or self._idles:
                self._empty = None
            elif self._empty is None:
                self._empty = self._clock()

    def waiting(self, bundles: int, seconds: float) -> None:
        """So many bundles have waited for an executor for so long, and none runs."""
        with self._guard:
            self._waiting, self._waited = bundles, seconds

    def trouble(self) -> str | None:
        """Why nothing can run, or None. Raises PermanentError when that has lasted too long."""
        with self._guard:
            seconds, why, hint = self._state()
        if why is None:
            if self._told:
                log.info("Spark runs tasks again")
            self._told = False
            return None
        if seconds >= PATIENCE_SECONDS:
            raise PermanentError(f"running on Spark: {why}, for {seconds:.0f} s", hint=hint)
        if not self._told:
            log.error("nothing can run on Spark", why=why, hint=hint, gives_up_after=PATIENCE_SECONDS)
        self._told = True
        return f"nothing can run on Spark: {why} ({hint})"

    def _state(self) -> tuple[float, str | None, str]:
        """(seconds that it has lasted, what is wrong, hint)"""
        now = self._clock()
        if self._empty is not None:
            return now - self._empty, "no executor is available", NO_EXECUTOR
        if self._waited >= FIRM_SECONDS:
            many = "one task waits" if self._waiting == 1 else f"{self._waiting} tasks wait"
            return self._waited, f"no executor takes a task, and {many}", NO_EXECUTOR
        if self._failing is not None and self._failed - self._failing >= FIRM_SECONDS:
            return self._failed - self._failing, self._why, self._hint
        return 0.0, None, ""


_SILENT = "see whether its process runs and whether memory runs out; if this repeats, raise spark.driver.memory"


class Answers:
    """Whether the JVM answers: one thread asks, the loop checks."""

    def __init__(self, *, clock: SteadyClock = steady) -> None:
        self._clock = clock
        self._asked: float | None = None
        self._turns = 0
        self._told = False

    def asked(self) -> None:
        self._turns, self._asked = 0, self._clock()

    def answered(self) -> None:
        self._asked = None

    def trouble(self) -> str | None:
        """How long the JVM has not answered, if that is long; also logged, once. Call it in each turn of the loop.

        Raises PermanentError when the JVM hangs.
        """
        asked = self._asked
        self._turns += 1
        silent = 0.0 if asked is None else self._clock() - asked
        if silent > SILENT_SECONDS and self._turns > SILENT_TURNS:
            raise PermanentError(f"running on Spark: its JVM has not answered for {silent:.0f} s", hint=_SILENT)
        if silent <= LATE_SECONDS or self._turns <= LATE_TURNS:
            if self._told and asked is None:
                self._told = False
                log.info("Spark's JVM answers again")
            return None
        if not self._told:
            self._told = True
            gives_up = round(SILENT_SECONDS)
            log.error("Spark's JVM does not answer", seconds=round(silent), hint=_SILENT, gives_up_after=gives_up)
        return f"Spark's JVM has not answered for {silent:.0f} s ({_SILENT})"
