"""Whether Spark runs what it is given, from what is seen of it: executors, jobs that fail for no slice's fault, jobs that nobody begins.

Asks nothing itself; spark.py tells it. Trouble that lasts ends the process, so that another ingester may have the tables.
"""

from __future__ import annotations

import threading

import structlog

from common.clock import SteadyClock, steady
from common.errors import PermanentError

PATIENCE_SECONDS = 120.0
"""How long nothing may run. An executor that is replaced is back within this time; another ingester should not wait for longer."""
FIRM_SECONDS = 20.0
"""So long jobs fail one after the other before it is the executor's trouble: a single worker that died is replaced at once."""
SILENT_SECONDS = 60.0
"""A JVM that does not answer for so long hangs."""
SILENT_TURNS = 100
"""And for so many turns of the loop: a process that was paused with a question open has not waited."""

log = structlog.get_logger("spark")


class ExecutorHealth:
    """Told by any thread, read by the loop. `idles`: whether no executor is there while there is nothing to do (dynamic allocation)."""

    def __init__(self, *, idles: bool = False, clock: SteadyClock = steady) -> None:
        self._idles = idles
        self._clock = clock
        self._guard = threading.Lock()
        self._failing: float | None = None
        self._failed: float = 0.0
        self._why, self._hint = "", ""
        self._empty: float | None = None
        self._told = False

    def worked(self) -> None:
        """A task ran to its end, whatever came of its slices."""
        with self._guard:
            self._failing = None

    def failed(self, why: str, hint: str | None) -> None:
        """A task did not run, or its worker died."""
        now = self._clock()
        with self._guard:
            self._failing = now if self._failing is None else self._failing
            self._failed, self._why, self._hint = now, why, hint or "see the executors' logs"

    @property
    def in_doubt(self) -> bool:
        """Whether the last job that was heard of failed: the executor's fault, or that of a table which kills its worker."""
        with self._guard:
            return self._failing is not None

    def counted(self, executors: int) -> None:
        """So many executors are there."""
        with self._guard:
            if executors or self._idles:
                self._empty = None
            elif self._empty is None:
                self._empty = self._clock()

    def trouble(self) -> str | None:
        """What keeps everything from running. Raises PermanentError once it has lasted."""
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
        """(for how many seconds, what, the hint)"""
        now = self._clock()
        if self._empty is not None:
            hint = "see why the cluster gives none: its workers, quotas, the executors' image and logs"
            return now - self._empty, "no executor is there", hint
        if self._failing is not None and self._failed - self._failing >= FIRM_SECONDS:
            return self._failed - self._failing, self._why, self._hint
        return 0.0, None, ""


class Answers:
    """Whether the JVM answers: one thread asks, the loop looks."""

    def __init__(self, *, clock: SteadyClock = steady) -> None:
        self._clock = clock
        self._asked: float | None = None
        self._turns = 0

    def asked(self) -> None:
        self._turns, self._asked = 0, self._clock()

    def answered(self) -> None:
        self._asked = None

    def refuse_silence(self) -> None:
        """Called each turn of the loop. Raises PermanentError."""
        asked = self._asked
        self._turns += 1
        if asked is not None and self._clock() - asked > SILENT_SECONDS and self._turns > SILENT_TURNS:
            raise PermanentError(
                f"running on Spark: its JVM has not answered for {self._clock() - asked:.0f} s",
                hint="start the ingester again; if this repeats, give it more memory (spark.driver.memory)",
            )
