"""Runs bundles of tables on Spark, one small job each. With jobs.py and jvm.py the only module that imports pyspark.

One-task jobs over the RDD API: rows never enter the JVM, and a slow table holds up no other. The settings in conf.py remove the
25-50 ms that stock PySpark spends on each small task (docs/decisions/0003-spark-rdd-one-task-jobs.md).

The loop's own thread never calls into the JVM: a JVM that hangs would hold up the end of leases and the stop.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import structlog
from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext, cloudpickle
from pyspark.errors import PySparkException

from common.errors import DStreamError, PermanentError, TransientError
from common.in_time import within
from common.periodic import repeat
from ingester.blocks.spark import RESULTS_PORT
from ingester.executor import Begins, Early
from ingester.slices import Slice, SliceResult, WorkerLost
from ingester.spark.capacity import FEWEST_SLOTS, Allocation, registered
from ingester.spark.driver_line import Driver, DriverLine
from ingester.spark.health import NO_EXECUTOR, Answers, ExecutorHealth
from ingester.spark.jobs import Jobs
from ingester.spark.jvm import END_SECONDS
from ingester.spark.kept.beside import beside
from ingester.spark.launched import Launched
from ingester.spark.queued import Queued
from ingester.spark.reasons import DEBUG, hint_for, reason, worker_died
from ingester.spark.seal import Seal
from ingester.spark.starting import LOCAL_NEWS_SECONDS, NEWS_SECONDS, Start
from ingester.spark.worker_side import BundleTask, Work, build_of, checked, run_sealed

log = structlog.get_logger("spark")

FirstTask = Callable[[], Any]
"""Runs in a Python worker before anything else. Its result must be picklable."""

START_SECONDS, CLUSTER_START_SECONDS = 120.0, 240.0
"""For the JVM, the first executor and its first Python worker. With a cluster no lock is held yet; its machine may have to load an image.
Spark itself gives a standalone master 60 s."""
_LOOK_SECONDS = 5.0
"""Between two checks of the context and its executors."""
_TRIAL_SECONDS = 20.0
"""For a trial job; a cold Python worker takes some seconds."""
_FIRST, _TRIAL = "first", "trial"
_QUEUED_SECONDS, _MOST_QUEUED = 5.0, 20
"""A bundle that no worker has begun after so long is looked up in Spark, so many of them at a time."""
_CANCEL_SECONDS = 1.0
_NO_TASK = "see whether its JVM and its Python processes run, and whether processor time or memory runs out"
_STOP_SECONDS = 3.0
"""For Spark to leave its cluster."""
_FAILURES = (Py4JError, PySparkException, OSError)


class SparkExecutor:
    """`launched`: the JVM, which starts already, with its settings; it ends with this. `slots`: the setting of `ingester { spark { ... } }`.

    Nothing runs before `begin` or `start`.
    """

    def __init__(
        self,
        task: BundleTask,
        launched: Launched,
        *,
        slots: int | None = None,
    ) -> None:
        self._launched = launched
        self._master = launched.master
        self._fixed = slots
        self._stopping = launched.scratch.path / "stopping"
        self._health = ExecutorHealth(idles=launched.conf.get("spark.dynamicAllocation.enabled", "").lower() == "true")
        self._context: SparkContext | None = None
        self._jobs: Jobs | None = None
        self._elsewhere = launched.elsewhere
        self._line: DriverLine | None = None
        self._queued = Queued()
        self._build = build_of()
        self._seal = Seal(launched.key)
        self._work = self._checked(partial(run_sealed, task, self._stopping, launched.key if self._elsewhere else None))
        self._unreached = False
        self._closing = threading.Event()
        self._connected, self._begun = False, False
        self._start: Start | None = None
        self._stopped: str | None = None
        self._answers = Answers()
        self._slots = max(FEWEST_SLOTS, slots or 0)
        self._allocation = Allocation()
        self._settings = launched.settings
        self._results_port = launched.results_port
        self._jvm = launched.jvm
        self._making: threading.Thread | None = None

    def begin(self, first: FirstTask, stop: threading.Event, *, seconds: float | None = None) -> Any:
        """Start Spark, run `first` on an executor and return its result; None when `stop` is set before.

        Raises PermanentError when that fails, or takes longer than `seconds`.
        """
        self.start(first, seconds=seconds)
        return self.started(stop)

    def start(self, first: FirstTask, *, seconds: float | None = None) -> None:
        """As `begin`, without waiting: `started` does."""
        self._seconds = seconds or (CLUSTER_START_SECONDS if self._elsewhere else START_SECONDS)
        self._start = Start(
            partial(self._begin, first),
            seconds=self._seconds,
            news=self._still_waits,
            news_seconds=NEWS_SECONDS if self._elsewhere else LOCAL_NEWS_SECONDS,
        )

    def started(self, stop: threading.Event) -> Any:
        """The result of the first task; None when `stop` is set before. Raises as `begin`."""
        assert self._start is not None
        try:
            result = self._start.awaited(stop)
        except TimeoutError:
            why = self._jvm.last_words or self._reached()
            raise self._unstarted(f"no task has run after {self._seconds:.0f} s: {why}") from None
        if isinstance(result, DStreamError):
            raise result
        if isinstance(result, Exception):
            raise self._unstarted(_with(reason(str(result)), self._jvm.last_words)) from result
        return result

    @property
    def slots(self) -> int:
        return self._slots

    def run(self, bundle: Sequence[Slice], *, number: int, early: Early, begins: Begins) -> Sequence[SliceResult]:
        jobs = self._jobs
        assert jobs is not None
        sealed = self._seal.closed((list(bundle), self._driver(bundle, number, early, begins)))
        try:
            [returned] = jobs.run(_group(number), f"{len(bundle)} tables", self._work, sealed)
        except _FAILURES as error:
            why = self._reason(error)
            if "cancelled" not in why:
                self._health.failed(why, self._hint(why))
            kind = WorkerLost if worker_died(why) else TransientError
            raise kind(f"running a Spark task: {why}", hint=self._hint(why)) from error
        finally:
            self._queued.ended(number)
            if self._line is not None:
                self._line.done(number)
        results: Sequence[SliceResult] = self._seal.opened(returned)
        self._health.worked()
        self._tell_unreached(results)
        return results

    def waits(self, number: int) -> bool:
        return self._queued.waits(number)

    def aside(self, number: int) -> bool:
        return False

    def give_up(self, number: int) -> None:
        """Spark kills the Python worker within 3 s: it checks every 2 s, and then waits spark.python.task.killTimeout."""
        context = self._context
        assert context is not None
        with suppress(*_FAILURES):
            if not _taken(context, _group(number)):
                why = self._jvm.last_words or "no executor takes a task"
                self._health.failed(why, self._hint(why))
            context.cancelJobGroup(_group(number))

    def check(self) -> str | None:
        if not self._jvm.alive:
            how, remedy = self._jvm.ending
            raise PermanentError(f"running on Spark: its JVM {how}", hint=remedy)
        if self._stopped is not None:
            raise PermanentError(
                f"running on Spark: its context has stopped: {self._stopped}",
                hint=hint_for(self._stopped, local=not self._elsewhere) or self._restart(),
            )
        self._launched.scratch.refuse_loss()
        return self._answers.trouble() or self._health.trouble()

    def finish(self) -> None:
        """Workers on this machine see the file, and those elsewhere hear of it within a second."""
        with suppress(OSError):  # without the folder, slices end when their time does, or are cancelled
            self._stopping.touch()
        if self._line is not None:
            self._line.stop()

    def cancel(self) -> bool:
        """A JVM that does not even accept this hangs: it is killed, and its workers with it."""

        def call() -> None:
            with suppress(*_FAILURES):  # a JVM that is gone runs nothing
                if self._context is not None:
                    self._context.cancelAllJobs()

        if not within(_CANCEL_SECONDS, call, name="spark-cancel"):
            self._jvm.kill()
        return not self._elsewhere

    def close(self, *, seconds: float = END_SECONDS) -> None:
        """`seconds`: for the JVM to end. A second call does nothing."""
        if self._closing.is_set():
            return
        self._closing.set()
        if self._context is not None and self._jvm.alive:
            within(_STOP_SECONDS, self._stop_context, name="spark-stop")
        self._jvm.end(seconds=seconds)
        SparkContext._gateway = None
        SparkContext._jvm = None
        if self._line is not None:
            self._line.close()
        self._launched.scratch.close()
        if self._making is not None:
            self._making.join(1.0)

    def _stop_context(self) -> None:
        """PySpark warns of a JVM that hangs, in lines of its own; that JVM is killed next, and health has told of it."""
        gateway: Any = SparkContext._gateway
        with suppress(*_FAILURES), warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            if self._context is not None:
                self._context.stop()
            gateway.shutdown()

    def _begin(self, first: FirstTask) -> Any:
        """In a thread of its own."""
        gateway = self._jvm.connected()
        self._connected = True
        conf = SparkConf(loadDefaults=False)
        for key, value in self._settings.items():
            conf.set(key, value)
        self._context = context = SparkContext(conf=conf, gateway=gateway)
        _hush(context)
        self._allocation = Allocation.of(dict(context.getConf().getAll()), local=not self._elsewhere)
        self._jobs = jobs = Jobs(context)
        self._launched.scratch.watch(self._launched.blocks())
        [result] = jobs.run(_FIRST, "whether a task runs", self._checked(lambda _: iter([first()])), None)
        self._look()
        self._begun = True
        host = context.getConf().get("spark.driver.host", "127.0.0.1") or "127.0.0.1"
        address = context.getConf().get("spark.driver.bindAddress", host) or host
        try:
            self._line = DriverLine(address, host, self._results_port, elsewhere=self._elsewhere)
        except OSError as error:
            self._late(f"cannot listen on {address}, port {self._results_port or 'any'}: {error}")
        self._making = beside(self._jvm.kind, self._jvm.given, self._jvm.serves, self._closing)
        watch = partial(repeat, self._check, "Spark", self._closing, every=_LOOK_SECONDS)
        threading.Thread(target=watch, name="spark-watch", daemon=True).start()
        return result

    def _driver(self, bundle: Sequence[Slice], number: int, early: Early, begins: Begins) -> Driver | None:
        """How the bundle's worker talks to this process; None: it has nothing to say before it ends."""
        if self._elsewhere:
            self._queued.handed(number)
        if self._line is None or not (self._elsewhere or len(bundle) > 1):
            return None

        def begun() -> Sequence[Slice] | None:
            self._queued.begun(number)
            return begins()

        return self._line.open(number, early, begun)

    def _checked(self, work: Work) -> Work:
        dumps: Any = cloudpickle.dumps  # PySpark does not type it
        return checked(dumps(work), self._build)

    def _still_waits(self, seconds: float) -> None:
        why, gives_up_after = self._jvm.last_words or self._reached(), round(seconds)
        facts = {"master": self._master, "why": why, "gives_up_after": gives_up_after}
        if self._elsewhere:
            log.warning("waiting for Spark's first executor", hint=NO_EXECUTOR, **facts)
        else:
            log.warning("waiting for Spark's first task", hint=_NO_TASK, **facts)

    def _reached(self) -> str:
        """What a start waits for. Spark itself speaks of missing executors only 15 s after the first job."""
        if self._jobs is not None:
            return "no executor has run the first one" if self._elsewhere else "no Python process has run a task"
        if self._connected:
            return "the driver's context is not up yet"
        return "the driver's JVM does not answer yet"

    def _tell_unreached(self, results: Sequence[SliceResult]) -> None:
        """Once: the cause is the same for all workers, or concerns one machine."""
        why = next((result.unreached for result in results if result.unreached is not None), None)
        if why is not None and not self._unreached:
            self._unreached = True
            self._late(why)

    def _late(self, why: str) -> None:
        log.warning(
            "results wait for the slowest table of their task",
            why=why,
            hint=f"nothing is lost; open the driver's port to the workers ({RESULTS_PORT} in spark.conf fixes it)",
        )

    def _reason(self, error: Exception) -> str:
        why = reason(str(error))
        return self._jvm.last_words or why if "stopped SparkContext" in why else why

    def _hint(self, why: str) -> str:
        local = not self._elsewhere
        return hint_for(why, local=local) or (DEBUG if local else "see the executors' logs")

    def _restart(self) -> str:
        if self._elsewhere:
            return "find out why the cluster ended the application, and restart the ingester"
        return f"restart the ingester; if this repeats, {DEBUG}"

    def _unstarted(self, why: str) -> PermanentError:
        elsewhere = "and that the cluster has resources for an executor"
        hint = hint_for(why, local=not self._elsewhere)
        hint = hint or f"check ingester.spark, {elsewhere if self._elsewhere else f'and see why: {DEBUG}'}"
        return PermanentError(f"starting Spark with master {self._master!r}: {why}", hint=hint)

    def _check(self) -> None:
        self._answers.asked()
        with suppress(*_FAILURES):  # the process shows a JVM that has ended
            self._look()
            self._look_at_queue()
        self._answers.answered()
        if self._health.in_doubt and not within(_TRIAL_SECONDS, self._try, name="spark-trial"):
            self._give_up_trial()

    def _try(self) -> None:
        """Run a job that touches no table. If it succeeds, one table kills its workers, and the others can go on."""
        jobs = self._jobs
        assert jobs is not None
        with suppress(*_FAILURES):
            jobs.run(_TRIAL, "whether anything runs", self._checked(lambda _: iter(())), None)
            self._health.worked()

    def _give_up_trial(self) -> None:
        context = self._context
        assert context is not None
        with suppress(*_FAILURES):
            context.cancelJobGroup(_TRIAL)

    def _look(self) -> None:
        context: Any = self._context
        spark = context._jsc.sc()
        if spark.isStopped():
            if not self._closing.is_set():
                self._stopped = self._jvm.last_words or "the reason is unknown"
            return
        executors = registered(spark)
        if self._elsewhere:
            self._health.counted(len(executors))
        if self._fixed is None:
            self._resize(self._allocation.slots(executors))

    def _look_at_queue(self) -> None:
        context = self._context
        assert context is not None
        for number in self._queued.oldest(_MOST_QUEUED, waited=_QUEUED_SECONDS):
            if _taken(context, _group(number)):
                self._queued.begun(number)
        self._health.waiting(*self._queued.stuck())

    def _resize(self, slots: int) -> None:
        before, self._slots = self._slots, slots
        if before != slots and self._begun:
            log.info("slots changed with the executors", slots=slots, before=before)


def _with(why: str, last_words: str | None) -> str:
    """Add the last line of Spark's log: a context that Spark stops while it starts fails with a later error, and the log has the reason."""
    return why if last_words is None or last_words in why else f"{why}; last line of Spark's log: {last_words}"


def _group(number: int) -> str:
    return f"bundle-{number}"


def _hush(context: SparkContext) -> None:
    """Silence PySpark's accumulator server: it prints a traceback when the JVM ends first, as on Ctrl-C. DStream uses no accumulators."""
    server: Any = getattr(context, "_accumulatorServer", None)
    if server is not None:
        server.handle_error = lambda request, client_address: None


def _taken(context: SparkContext, group: str) -> bool:
    """Whether an executor has taken a task of the group's jobs."""
    tracker = context.statusTracker()
    jobs = [job for number in tracker.getJobIdsForGroup(group) if (job := tracker.getJobInfo(number)) is not None]
    stages = [stage for job in jobs for number in job.stageIds if (stage := tracker.getStageInfo(number)) is not None]
    return any(stage.numActiveTasks or stage.numCompletedTasks or stage.numFailedTasks for stage in stages)
