"""Routers side by side, one process each, and the parent that starts them: it routes nothing, and replaces what dies or hangs.

A worker gets its settings through its standard input, which stays open as long as the parent lives: when it closes, the parent has ended, and
the worker stops, so no worker routes unwatched. A worker reports through its standard output. It is in a process group of its own, so
that a terminal's Ctrl-C reaches only the parent.
"""

from __future__ import annotations

import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO

import structlog

from common.errors import DStreamError, PermanentError, TransientError
from common.observability.logs import LogFormat, LogLevel, logging_as_configured
from common.retry import Backoff
from router.awake import Awake
from router.health import SILENT_SECONDS, Reports
from router.receiving.carried import Carried, Knowledge
from router.settings import Latest, RouterSettings
from router.takeover.rollout import STARTED_WITHIN, Rollout
from router.tally import Figures

STOP = b"S"
"""Written to a worker to ask it to stop. The end of its input after this means: at once."""

GRACE = 19.0
"""Seconds from asking the workers to stop until they are killed; a stop promises to need 20."""

POLL = 0.1
"""Seconds between two checks of the workers."""

STEADY = 60.0
"""A worker that has lived for so many seconds is restarted at once when it dies."""

BLINK = 1.0
"""Seconds of silence that count between two looks at the most: where this process stood still itself, its workers are not to blame."""

FIRST_WORD_SECONDS = 120.0
"""Seconds within which a worker sends its first report: it comes as soon as the modules are loaded."""

STACKS_SECONDS = 0.5
"""Seconds for a worker that hangs to write the stacks of its threads."""

KILLED_AT_START = 3
"""A worker that was killed from outside (memory, an operator) as the router starts is started again; so many in a row end the start."""

RESTART_BACKOFF = Backoff(first=0.5, longest=30.0)

_EFFECT = "its sessions go to others; what it had not completed comes again"

COMMAND = (sys.executable, "-m", "router.worker")

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class WorkerOrder:
    """What a worker needs to know, pickled: settings hold secrets, which an argument list would show to all users."""

    number: int
    settings: RouterSettings
    log_level: LogLevel
    log_format: LogFormat
    latest: Latest | None
    proven: bool = False
    """Whether a worker has routed already: a refusal of this one is then transient."""
    fans_out: bool = False
    """See `router.takeover.generation.Generation`."""
    known: Knowledge | None = None
    """What workers before it knew at their end."""


@dataclass(frozen=True, slots=True)
class Started:
    """The worker has opened everything and routes."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The worker ends because of this error."""

    error: DStreamError


@dataclass(frozen=True, slots=True)
class Reported:
    """What the worker has done so far, reported every few seconds."""

    figures: Figures


@dataclass(frozen=True, slots=True)
class Knew:
    """The worker ends, and leaves this to its successors."""

    known: Knowledge


Word = Started | Failed | Reported | Knew


@dataclass(slots=True)
class _Worker:
    """One place among the workers, and the process that has it now."""

    number: int
    process: subprocess.Popen[bytes] | None = None
    listener: threading.Thread | None = None
    error: DStreamError | None = None
    began: float = 0.0
    deaths: int = 0
    again_at: float = 0.0
    telling: threading.Lock = field(default_factory=threading.Lock)
    spoke: bool = False
    unheard: float = 0.0
    figures: Figures | None = None
    settings: RouterSettings | None = None
    """Those that the process was started with."""
    started: bool = False
    """It routes."""
    leaving: float | None = None
    """When it was asked to stop for a successor with other settings."""

    def stuck(self) -> str | None:
        """Why the process counts as lost."""
        if self.unheard > (SILENT_SECONDS if self.spoke else FIRST_WORD_SECONDS):
            return f"it has reported nothing for {self.unheard:.0f} s"
        return str(self.figures.still) if self.figures is not None and self.figures.still.stuck else None

    def tell(self, what: bytes) -> None:
        """Writes to the process's input; waits if the process does not read, until it ends."""
        orders = None if self.process is None else self.process.stdin
        if orders is None:
            return
        with suppress(OSError, ValueError), self.telling:  # it may have died already, which the next look finds
            orders.write(what)
            orders.flush()

    def heard(self, word: Word) -> None:
        """Reads the reports of the process; runs in a thread of its own."""
        self.spoke, self.unheard = True, 0.0
        match word:
            case Started():
                self.started = True
            case Failed(error):
                self.error = error
            case Reported(figures):
                self.figures = figures


class Workers:
    """Runs `settings.workers` processes until asked to stop. All methods except `kill` are called from one thread."""

    def __init__(
        self,
        settings: RouterSettings,
        *,
        reports: Reports | None = None,
        command: Sequence[str] = COMMAND,
        backoff: Backoff = RESTART_BACKOFF,
        grace: float = GRACE,
        clock: Callable[[], float] = time.monotonic,
        latest: Latest | None = None,
    ) -> None:
        """`reports`: collects the workers' reports. `latest`: for each of them, see `wiring.run`."""
        self._rollout, self._carried = Rollout(settings), Carried()
        self._latest = latest
        self._reports = reports or Reports()
        self._command = command
        self._backoff = backoff
        self._grace = grace
        self._clock = clock
        self._workers = [_Worker(number) for number in range(1, settings.workers + 1)]
        self._begun = False
        self._awake = Awake(clock, BLINK)
        self._ran = 0.0

    @property
    def pids(self) -> Sequence[int]:
        """Process ids of the running workers."""
        return [worker.process.pid for worker in self._workers if worker.process is not None]

    def run(self, stop: threading.Event) -> int:
        """0 when all ended cleanly because `stop` was set, else 1.

        Raises PermanentError or ConfigurationError, once, when a worker found that it cannot route at all. Before any of them routes, also
        raises TransientError, or PermanentError for a worker that died without a report; later such a worker is started again.
        """
        log.info("workers starting", workers=len(self._workers))
        try:
            for worker in self._workers:
                self._start(worker)
            while not stop.wait(POLL):
                self._look()
                self._replace_for_settings()
            return self._drain()
        except DStreamError:
            self._drain()
            raise
        finally:
            self.kill()
            self._rollout.looked(over=True)

    def take_over(self, settings: RouterSettings, *, gives_way: Callable[[], bool] = lambda: False) -> bool:
        """Replace the workers one after the other by workers with these settings, whose `workers` count no longer. Returns once all of them route, or
        False at the end. For another thread than that of `run`. See `Rollout.take_over`."""
        workers = self._workers
        return self._rollout.take_over(
            settings, lambda: all(each.started and each.settings is settings for each in workers), gives_way
        )

    def kill(self) -> None:
        """End what still runs, at once."""
        for worker in self._workers:
            if worker.process is not None:
                worker.process.kill()
                self._buried(worker)

    def _start(self, worker: _Worker) -> None:
        level, format = logging_as_configured()
        worker.error, worker.figures, worker.began = None, None, self._clock()
        worker.settings, worker.started, worker.leaving = self._rollout.settings, False, None
        worker.spoke, worker.unheard = False, 0.0
        worker.process = process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, process_group=0
        )
        assert process.stdout is not None
        proven = self._begun and not self._rollout.trying
        fans_out, known = self._rollout.fans_out, self._carried.told()
        order = WorkerOrder(worker.number, worker.settings, level, format, self._latest, proven, fans_out, known)
        worker.listener = threading.Thread(
            target=self._listen,
            args=(worker, process.stdout, pickle.dumps(order)),
            name=f"worker-{worker.number}",
            daemon=True,
        )
        worker.listener.start()

    def _listen(self, worker: _Worker, words: IO[bytes], order: bytes) -> None:
        """Its settings are written in a thread of its own: a process that stands still may not read all of them."""
        worker.tell(order)
        with suppress(EOFError, pickle.UnpicklingError, OSError, ValueError):
            while True:
                word = pickle.load(words)
                worker.heard(word)
                match word:
                    case Started():
                        self._begun = True
                    case Reported(figures):
                        self._reports.told(worker.number, figures)
                    case Knew(known):
                        self._carried.learn(known)

    def _look(self) -> None:
        """Clear away workers that died, replace those that hang, and restart those that are due."""
        now, before = self._clock(), self._ran
        self._ran = self._awake()
        for worker in self._workers:
            if worker.process is None:
                if now >= worker.again_at:
                    self._start(worker)
            elif worker.process.poll() is not None:
                status = self._buried(worker)
                if worker.leaving is None:
                    self._mourn(worker, status)
                else:
                    self._left(worker, status)
            else:
                worker.unheard += self._ran - before
                late = not worker.started and now - worker.began > STARTED_WITHIN
                if late and self._rollout.refused(
                    worker.settings, worker.number, None, f"was not ready in {STARTED_WITHIN:.0f} s"
                ):
                    worker.process.kill()  # the next look buries it
                elif (reason := worker.stuck()) is not None:
                    self._replace(worker, reason)

    def _replace_for_settings(self) -> None:
        """Ask one worker with older settings to leave, once all others route."""
        self._rollout.looked()
        leaving = next((worker for worker in self._workers if worker.leaving is not None), None)
        if leaving is not None:
            if leaving.process is not None and self._clock() - (leaving.leaving or 0.0) > self._grace:
                leaving.process.kill()
            return
        older = [worker for worker in self._workers if worker.process and worker.settings is not self._rollout.settings]
        if older and all(worker.started for worker in self._workers if worker is not older[0]):
            older[0].leaving = self._clock()
            self._ask_to_stop(older[0])

    def _left(self, worker: _Worker, status: int) -> None:
        """It has made room for one with other settings."""
        if status != 0:
            log.error("worker did not stop cleanly", worker=worker.number, status=status)
        self._start(worker)

    @staticmethod
    def _ask_to_stop(worker: _Worker) -> None:
        """In a thread: a worker that stands still may not have read its settings yet, and nobody else must wait for it."""
        threading.Thread(target=worker.tell, args=(STOP,), name=f"stop-{worker.number}", daemon=True).start()

    def _replace(self, worker: _Worker, reason: str) -> None:
        """End a worker that hangs, with the stacks of its threads in the log if it can still write them."""
        assert worker.process is not None
        if hasattr(signal, "SIGUSR1"):
            worker.process.send_signal(signal.SIGUSR1)
            with suppress(subprocess.TimeoutExpired):
                worker.process.wait(STACKS_SECONDS)
        worker.process.kill()
        self._buried(worker)
        if not self._begun:
            raise TransientError(f"starting the router: worker {worker.number} hangs: {reason}")
        self._reports.replaced("hung")
        log.error(
            "worker hangs; killing it and starting it again",
            worker=worker.number,
            reason=reason,
            restart_in_seconds=round(self._pause(worker), 1),
            effect=_EFFECT,
            hint="if this repeats, the stacks of its threads, which it writes before its end if it can, show where it hangs",
        )

    def _mourn(self, worker: _Worker, status: int) -> None:
        error = worker.error
        if self._rollout.refused(worker.settings, worker.number, error, f"ended with status {status}") or (
            self._begun and worker.settings is not self._rollout.settings  # which were taken back, or are replaced
        ):
            worker.deaths, worker.again_at = 0, 0.0
            return
        if error is not None and not isinstance(error, TransientError):
            raise error
        killed = error is None and status < 0 and worker.deaths + 1 < KILLED_AT_START
        if not self._begun and not killed:
            raise error or PermanentError(
                f"starting the router: worker {worker.number} ended with status {status} and reported nothing"
            )
        self._reports.replaced("died")
        log.warning(
            "worker died; starting it again",
            worker=worker.number,
            status=status,
            error=error.message if error is not None else None,
            restart_in_seconds=round(self._pause(worker), 1),
            effect=_EFFECT,
        )

    def _pause(self, worker: _Worker) -> float:
        """Seconds until `_look` starts it again."""
        worker.deaths = 1 if self._clock() - worker.began >= STEADY else worker.deaths + 1
        pause = 0.0 if worker.deaths == 1 else self._backoff.delay(worker.deaths - 1)
        worker.again_at = self._clock() + pause
        return pause

    def _buried(self, worker: _Worker) -> int:
        """The exit status, once all reports of the process have been read."""
        process, listener = worker.process, worker.listener
        assert process is not None
        assert listener is not None
        status = process.wait()
        listener.join()
        worker.process = None
        self._reports.died(worker.number)
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            with suppress(OSError):
                pipe.close()
        return status

    def _drain(self) -> int:
        """Ask all to stop and wait; 1 when one did not end cleanly in time."""
        running = [worker for worker in self._workers if worker.process is not None]
        for worker in running:
            if worker.leaving is None:  # it would take a second word for the order to end at once
                self._ask_to_stop(worker)
        deadline = self._clock() + self._grace
        statuses = [self._ended(worker, deadline) for worker in running]
        for worker, status in zip(running, statuses, strict=True):
            if status != 0 and worker.error is None:  # otherwise its reason is reported
                log.error("worker did not stop cleanly", worker=worker.number, status=status)
        return 1 if any(statuses) else 0

    def _ended(self, worker: _Worker, deadline: float) -> int:
        assert worker.process is not None
        try:
            worker.process.wait(max(0.0, deadline - self._clock()))
        except subprocess.TimeoutExpired:
            worker.process.kill()
        return self._buried(worker)
