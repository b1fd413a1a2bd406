"""The executor of a start: bundles run in the process for the first slices until Spark has started, and on Spark from then on.

No slice is moved. What has begun in the first place ends there, within a second or so, and that process ends with the last of it, or some
seconds after Spark's start. Snapshots and parts of strides wait for Spark: they may take long. So does everything once that process has died,
or was ended because it hung (patience.py). If Spark does not start, `check` raises why.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import Enum
from typing import Any, Protocol

import structlog

from common.errors import DStreamError, PermanentError
from ingester.executor import Begins, Early, Executor
from ingester.slices import Slice, SliceResult, untouched
from ingester.spark.capacity import FEWEST_SLOTS
from ingester.spark.first.patience import SECONDS, Hang, Patience

log = structlog.get_logger("spark")

_REMEDY = "See whether SQL Server and Service Bus answer, and whether memory runs out."


class Started(Executor, Protocol):
    """Spark, which starts."""

    def started(self, stop: threading.Event) -> Any:
        """What the first task found missing; None: nothing, or `stop` is set. Raises DStreamError when Spark does not start in time."""
        ...


class FirstPlace(Protocol):
    """The process for the first slices."""

    @property
    def ended(self) -> str | None:
        """How it has ended; None while it lives."""
        ...

    def watch(self) -> None:
        """Notice its end from now on."""
        ...

    def run(self, bundle: Sequence[Slice], *, number: int, early: Early) -> Sequence[SliceResult]: ...

    def ask(self) -> int:
        """Ask whether it is there. How many earlier questions it has not answered. Waits for nothing."""
        ...

    def finish(self) -> None: ...

    def end(self) -> None: ...

    def kill(self, why: str = ...) -> None: ...


class _Place(Enum):
    FIRST = "first"
    SPARK = "spark"
    NOWHERE = "nowhere"


def answered(spark: Started, stop: threading.Event) -> None:
    """Wait until the first task has run, or `stop` is set. Raises DStreamError."""
    lacking = spark.started(stop)
    if lacking is not None:
        raise PermanentError(f"starting on Spark: {lacking}")


class HandOver:
    """`first`: it ends with this. `start`: begins Spark's start, in a thread of this class, from now on. What it returns is closed with this.

    `second`: after which `first` is asked again whether it is there.
    """

    def __init__(
        self, first: FirstPlace, start: Callable[[], Started], stop: threading.Event, *, second: float = 1.0
    ) -> None:
        self._first, self._start, self._stop = first, start, stop
        self._changed = threading.Condition()
        self._spark: Started | None = None
        self._up = self._over = False
        self._failed: DStreamError | None = None
        self._places: dict[int, _Place] = {}
        self._patience, self._second, self._dismissed = Patience(), second, threading.Event()
        self._hang: Hang | None = None
        self._told = self._told_late = False
        first.watch()
        threading.Thread(target=self._await, name="spark-awaited", daemon=True).start()
        threading.Thread(target=self._watch, name="first-slices-watched", daemon=True).start()

    @property
    def slots(self) -> int:
        spark = self._there
        return FEWEST_SLOTS if spark is None else spark.slots

    def run(self, bundle: Sequence[Slice], *, number: int, early: Early, begins: Begins) -> Sequence[SliceResult]:
        place = self._placed(number, bundle)
        try:
            if place is _Place.FIRST:
                return self._run_first(bundle, number, early)
            if place is _Place.NOWHERE:
                now = begins() if self._waited(number) else None
                if now is None:
                    return [untouched(todo) for todo in bundle]
                bundle = now
            assert self._spark is not None
            return self._spark.run(bundle, number=number, early=early, begins=begins)
        finally:
            self._left(number)

    def waits(self, number: int) -> bool:
        spark, place = self._there, self._places.get(number)
        if place is _Place.SPARK and spark is not None:
            return spark.waits(number)
        return place is _Place.NOWHERE

    def aside(self, number: int) -> bool:
        return self._up and self._places.get(number) is _Place.FIRST

    def give_up(self, number: int) -> None:
        place, spark = self._places.get(number), self._there
        if place is _Place.FIRST:
            self._first.kill()
        elif place is _Place.SPARK and spark is not None:
            spark.give_up(number)

    def check(self) -> str | None:
        if self._failed is not None:
            raise self._failed
        ended = self._first.ended
        late = self._late(ended)
        if (spark := self._there) is not None:
            self._tell_given_up()
            return spark.check() or late
        return late if ended is None else self._without_first(ended)

    def finish(self) -> None:
        self._first.finish()
        with self._changed:
            self._over = True
            self._changed.notify_all()
            spark = self._spark
        if spark is not None:
            spark.finish()

    def cancel(self) -> bool:
        self._first.kill()
        spark = self._spark
        return True if spark is None else spark.cancel()

    def close(self) -> None:
        with self._changed:
            self._over = True
            self._changed.notify_all()
            spark = self._spark
        self._dismissed.set()
        self._first.kill()
        if spark is not None:
            spark.close()

    @property
    def _there(self) -> Started | None:
        """Spark, once its first task has answered."""
        return self._spark if self._up else None

    def _without_first(self, ended: str) -> str:
        hint = "Tables are read again once Spark has started."
        if self._hang is not None:
            hint += f" If this repeats, {self._hang.hint}."
        elif "killed" in ended:
            hint += " See whether memory runs out."
        if not self._told:
            self._told = True
            why = f"the process that read them meanwhile {ended}"
            log.error("tables wait until Spark has started", why=why, hint=hint)
        return f"Spark has not started yet, and the process that read tables meanwhile {ended}. {hint}"

    def _tell_given_up(self) -> None:
        if self._hang is not None and not self._told:
            self._told = True
            hint = f"Spark reads their tables now; if this repeats, {self._hang.hint}"
            log.error("slices that had begun before Spark did not come back, given up", why=self._hang.why, hint=hint)

    def _late(self, ended: str | None) -> str | None:
        """That tables wait for the first place, if they do."""
        late = self._patience.late if ended is None else None
        if late is None:
            if self._told_late and ended is None:
                log.info("the process that reads until Spark has started answers again")
            self._told_late = False
            return None
        when = "in some seconds" if self._up else "soon after it has started"
        hint = f"They are read on Spark {when}. {_REMEDY}"
        if not self._told_late:
            self._told_late = True
            why = f"it has not answered for {late} s"
            log.error("tables wait for the process that reads them until Spark has started", why=why, hint=hint)
        return f"Tables wait: the process that reads them until Spark has started has not answered for {late} s. {hint}"

    def _watch(self) -> None:
        """Count the seconds of the first place, and end it when it hangs, until it is not needed."""
        while not self._dismissed.wait(self._second) and self._first.ended is None:
            if (hang := self._patience.second(self._first.ask())) is not None:
                self._hang = hang
                self._first.kill(hang.why)

    def _run_first(self, bundle: Sequence[Slice], number: int, early: Early) -> Sequence[SliceResult]:
        def heard(result: SliceResult) -> None:
            self._patience.heard(number)
            early(result)

        short = [replace(todo, seconds=min(todo.seconds, SECONDS)) for todo in bundle]
        self._patience.begun(number, len(bundle))
        try:
            return self._first.run(short, number=number, early=heard)
        finally:
            self._patience.over(number)

    def _placed(self, number: int, bundle: Sequence[Slice]) -> _Place:
        with self._changed:
            if self._up:
                place = _Place.SPARK
            elif self._first.ended is not None or any(todo.piece is not None for todo in bundle):
                place = _Place.NOWHERE
            else:
                place = _Place.FIRST
            self._places[number] = place
        return place

    def _waited(self, number: int) -> bool:
        """Whether Spark has the bundle's turn now; not when this is over first."""
        with self._changed:
            self._changed.wait_for(lambda: self._up or self._over)
            if self._over:
                return False
            self._places[number] = _Place.SPARK
            return True

    def _left(self, number: int) -> None:
        with self._changed:
            place = self._places.pop(number, None)
        if place is _Place.FIRST:
            self._dismiss()

    def _dismiss(self) -> None:
        """Let the first process end, once Spark is there and nothing runs there any more."""
        with self._changed:
            if not self._up or _Place.FIRST in self._places.values():
                return
        self._dismissed.set()
        self._first.end()

    def _await(self) -> None:
        try:
            spark = self._start()
            with self._changed:
                self._spark, over = spark, self._over
            if over:
                spark.close()
                return
            answered(spark, self._stop)
        except Exception as error:
            with self._changed:
                self._failed = _unstarted(error)
            return
        if self._stop.is_set():
            return
        with self._changed:
            self._up = True
            self._patience.spark_is_up()
            self._changed.notify_all()
        log.info("Spark has started, slices go there from now on", slots=spark.slots)
        self._dismiss()


def _unstarted(error: Exception) -> DStreamError:
    if isinstance(error, DStreamError):
        return error
    failure = PermanentError(f"starting Spark: {type(error).__name__}: {error}", hint="check ingester.spark")
    failure.__cause__ = error
    return failure
