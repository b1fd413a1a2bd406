"""Which slices go to the executor together, how many at once, and when they must be back. Knows no state of tables.

A bundle that is not back in time is given up: its work is cancelled, its slices fail, its slot is free, and its later
results are ignored. That is safe although its work may go on somewhere for a while. It sends nothing after
`send_before`, and its commit names the position that it began at. So if it and the next slice reach the same page, one
of them commits and the other is refused. Either way the queue accepted the page before its end was committed: nothing
is left out, and what both sent is there twice with the same ids.

A bundle may wait for an executor that is still to come. It has done nothing then, and is not late: its slices get their
time, and the shape of their tables, when a worker begins them. The executor says when nothing runs at all.

If a worker dies, one of its tables may have killed it. So each of them gets a worker to itself until it comes back.
"""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from math import ceil

import structlog

from common.clock import SteadyClock, SteadyTime, UnixTime, steady
from common.names import TableName
from ingester.driver.threads import Threads
from ingester.executor import Executor
from ingester.slices import Overdue, Piece, Slice, SliceResult, Trouble, failed, unsettled

log = structlog.get_logger("ingester")

BUNDLE_SIZE = 64
"""Most slices of one task: what its eight threads can handle within a poll interval."""
DEATHS = 3
"""After so many dead workers in a row that read only one table, the table is the cause."""
_NO_BUNDLE = -1
_LATE_SECONDS = 30.0
"""Time after `send_before`, when nothing is sent, for a commit and the end of the task."""
_HANG_SECONDS = 150.0
"""For a slice whose lease cannot run out: one statement (120 s) and the start of a worker."""
_QUIET_SECONDS = 60.0
"""Longer than its own time a slice keeps quiet only if something hangs, or answers very slowly. A cold worker begins sooner, too."""
_TURN_SECONDS = 1.0
"""What a turn of the loop adds at most: while this process stood still itself, nobody could be heard."""
_STUCK = "Service Bus or SQL Server accepts connections but does not answer, or the worker is stuck"
_PART_SECONDS = 600.0
"""The same for a part of a stride, which goes on however slowly a throttling namespace accepts it."""


def backlog_room(slots: int, running: int, running_backlogs: int) -> int:
    """How many more slots backlogs may have. Together they leave one to the other tables."""
    return max(0, min(slots - running, max(1, slots - 1) - running_backlogs))


def bundles(
    quick: Sequence[Slice],
    backlogs: Sequence[Slice],
    *,
    slots: int,
    running: int,
    running_backlogs: int,
    quick_next: bool = False,
) -> tuple[list[list[Slice]], list[list[Slice]]]:
    """(bundles of quick slices, bundles of one backlog each) to start now.

    A backlog has a bundle to itself. Quick slices are spread over the free slots, so that none waits without need.
    `quick_next`: whether quick slices are next if both wait for a single slot.
    """
    free = slots - running
    room = 0 if slots == 1 and quick and quick_next else backlog_room(slots, running, running_backlogs)
    lone = [[todo] for todo in backlogs[:room]]
    free -= len(lone)
    count = min(free, len(quick))
    if count <= 0:
        return [], lone
    taken = quick[: count * BUNDLE_SIZE]
    size = ceil(len(taken) / count)
    return [list(taken[i : i + size]) for i in range(0, len(taken), size)], lone


def seconds_out(todo: Slice) -> float:
    """How long after its start the result of `todo` must be back."""
    if todo.lease_seconds is not None:
        return todo.lease_seconds + _LATE_SECONDS
    return todo.seconds + (_HANG_SECONDS if todo.part is None else _PART_SECONDS)


def _without_time(todo: Slice) -> Slice:
    """`todo`, to send nothing. Spark runs a task again whose executor was lost, and this slice came back before that."""
    return replace(todo, send_before=UnixTime(0.0), lease_seconds=0.0)


@dataclass(slots=True)
class _Bundle:
    """A bundle that is out. `slices`: those without a result. `lone`: it began with a single slice, not a part. `begins`: how often a worker
    has begun it, as far as workers say so."""

    backlog: bool
    lone: bool
    slices: dict[tuple[TableName, Piece | None], Slice]
    begun: SteadyTime
    deadline: SteadyTime
    long: bool = False
    begins: int = 0
    quiet: float = 0.0
    """Seconds of the loop's turns since a worker has begun it or brought a result."""

    def heard(self, results: Sequence[SliceResult]) -> list[SliceResult]:
        """Those of `results` that are new."""
        self.quiet = 0.0
        return [found for found in results if self.slices.pop((found.table, found.piece), None) is not None]


class Dispatcher:
    """Runs bundles on the executor's slots. Only `_run` and `give_up` leave the caller's thread, and what they call.

    `stamped`: completes a slice when it starts. Values from before would be out of date after the wait for a slot. From any thread.
    """

    def __init__(self, executor: Executor, stamped: Callable[[Slice], Slice], *, clock: SteadyClock = steady) -> None:
        self._executor = executor
        self._stamped = stamped
        self._clock = clock
        self._threads = Threads("bundle")
        # No SimpleQueue: after a signal whose handler takes long its wait has no end (Python 3.11, 3.12).
        self._reports: queue.Queue[tuple[int, Sequence[SliceResult], bool]] = queue.Queue()
        """(bundle, results, whether they are all)"""
        self._quick: list[Slice] = []
        self._backlogs: list[Slice] = []
        self._long: list[Slice] = []
        self._numbers: Iterator[int] = count()
        self._out: dict[int, _Bundle] = {}
        self._quick_next = False
        self._turned_at = clock()
        self._told_late = False
        self._suspects: dict[TableName, int] = {}
        """Tables whose last worker died: how many workers in a row died that had only this table."""

    def add(self, todo: Slice, *, backlog: bool) -> None:
        """Queue a slice until a slot is free."""
        (self._backlogs if backlog or todo.table in self._suspects else self._quick).append(todo)

    def add_long(self, todo: Slice) -> None:
        """Queue a slice that may take hours. Such slices have a quarter of the slots at most, and the other slices share the rest."""
        self._long.append(todo)

    def start(self) -> None:
        """Give waiting slices to the free slots."""
        slots = self._executor.slots
        while self._long and self._long_out < max(1, slots // 4) and self.occupied < slots:
            self._submit([self._long.pop(0)], backlog=False, long=True)
        quick, lone = bundles(
            self._quick,
            self._backlogs,
            slots=slots - self._long_out,
            running=self.occupied - self._long_out,
            running_backlogs=self._backlogs_out(),
            quick_next=self._quick_next,
        )
        if quick or lone:
            self._quick_next = bool(lone)
        del self._backlogs[: len(lone)]
        del self._quick[: sum(map(len, quick))]
        for bundle in quick:
            self._submit(bundle, backlog=False)
        for bundle in lone:
            self._submit(bundle, backlog=True)

    def results(self, timeout: float) -> list[SliceResult]:
        """The slices that ended or were given up. Waits up to `timeout` seconds for the first."""
        found: list[SliceResult] = []
        try:
            report = self._reports.get(timeout=timeout) if timeout > 0 else self._reports.get_nowait()
            while True:
                found += self._heard(*report)
                report = self._reports.get_nowait()
        except queue.Empty:
            return found + self._given_up()

    def wake(self) -> None:
        """End a wait for results. From any thread."""
        self._reports.put((_NO_BUNDLE, (), False))

    @property
    def room(self) -> int:
        """How many more backlogs could start now."""
        slots, running = self._executor.slots - self._long_out, self.occupied - self._long_out
        return backlog_room(slots, running, self._backlogs_out()) - len(self._backlogs)

    @property
    def running(self) -> int:
        """How many bundles are out."""
        return len(self._out)

    @property
    def occupied(self) -> int:
        """How many slots they take."""
        return len(self._in_slots())

    @property
    def begun(self) -> int:
        """How many of them an executor has."""
        return sum(not self._executor.waits(number) for number in self._out)

    @property
    def reading(self) -> frozenset[TableName]:
        """The tables that an executor may be reading: their slices have begun, and are not back."""
        begun = [bundle for number, bundle in self._out.items() if not self._executor.waits(number)]
        return frozenset(table for bundle in begun for table, _ in bundle.slices)

    def late(self) -> str | None:
        """What has begun and should be back by now, if anything; also logged, once. Call it in each turn of the loop."""
        turned_at, self._turned_at = self._turned_at, self._clock()
        passed = min(_TURN_SECONDS, self._turned_at - turned_at)
        late = [bundle for number, bundle in self._out.items() if self._is_late(number, bundle, passed)]
        if not late:
            if self._told_late:
                self._told_late = False
                log.info("slices come back again")
            return None
        tables = sorted({table.key for bundle in late for table, _ in bundle.slices})
        seconds = round(max(bundle.quiet for bundle in late))
        if not self._told_late:
            self._told_late = True
            log.error("slices do not come back", tables=tables, seconds=seconds, hint=_STUCK)
        others = f" and {len(tables) - 1} others" if len(tables) > 1 else ""
        return f"no result of {tables[0]}{others} for {seconds} s ({_STUCK})"

    def _is_late(self, number: int, bundle: _Bundle, passed: float) -> bool:
        """A part of a stride or of a snapshot may take long; what runs aside has a watch of its own."""
        if bundle.long or not bundle.slices or any(todo.part is not None for todo in bundle.slices.values()):
            return False
        if self._executor.waits(number) or self._executor.aside(number):
            bundle.quiet = 0.0
            return False
        bundle.quiet += passed
        return bundle.quiet > max(todo.seconds for todo in bundle.slices.values()) + _QUIET_SECONDS

    def close(self) -> None:
        """Start nothing more, and do not wait for what is out."""
        self._threads.close()

    def _backlogs_out(self) -> int:
        return sum(bundle.backlog for bundle in self._in_slots())

    def _in_slots(self) -> list[_Bundle]:
        return [bundle for number, bundle in self._out.items() if not self._executor.aside(number)]

    @property
    def _long_out(self) -> int:
        return sum(bundle.long for bundle in self._out.values())

    def _submit(self, slices: list[Slice], *, backlog: bool, long: bool = False) -> None:
        stamped = [self._stamped(todo) for todo in slices]
        number, slices_out = next(self._numbers), {(todo.table, todo.piece): todo for todo in stamped}
        lone = len(stamped) == 1 and stamped[0].piece is None
        self._out[number] = _Bundle(backlog, lone, slices_out, self._clock(), self._due(stamped), long)
        self._threads.run(partial(self._run, number, stamped))

    def _due(self, stamped: Sequence[Slice]) -> SteadyTime:
        return SteadyTime(self._clock() + max(map(seconds_out, stamped)))

    def _run(self, number: int, slices: list[Slice]) -> None:
        back = set[tuple[TableName, Piece | None]]()

        def early(result: SliceResult) -> None:
            back.add((result.table, result.piece))
            self._reports.put((number, [result], False))

        def begins() -> Sequence[Slice] | None:
            bundle = self._out.get(number)
            if bundle is None:  # it was given up
                return None
            bundle.begins += 1
            stamped = [
                _without_time(todo) if (todo.table, todo.piece) in back else self._stamped(todo) for todo in slices
            ]
            bundle.deadline, bundle.quiet = self._due(stamped), 0.0
            return stamped

        try:
            results = self._executor.run(slices, number=number, early=early, begins=begins)
        except Exception as error:  # the loop must hear of any failure, or the tables would never be due again
            results = [failed(todo, error) for todo in slices]
        self._reports.put((number, results, True))

    def _heard(self, number: int, results: Sequence[SliceResult], ended: bool) -> list[SliceResult]:
        bundle = self._out.get(number)
        if bundle is None:  # it was given up
            return []
        if ended:
            del self._out[number]
        return [self._judged(found, bundle) for found in bundle.heard(results)]

    def _judged(self, result: SliceResult, bundle: _Bundle) -> SliceResult:
        """`result`, with KILLS_WORKER if so many workers died that the table must be the cause.

        A chunk that Spark has run twice may still be sent by its first worker, which is cut off and not dead.
        """
        if bundle.begins > 1:
            result = unsettled(result)
        if result.trouble is not Trouble.WORKER_LOST:
            self._suspects.pop(result.table, None)
            return result
        deaths = self._suspects[result.table] = self._suspects.get(result.table, 0) + bundle.lone
        return replace(result, trouble=Trouble.KILLS_WORKER) if deaths >= DEATHS else result

    def _given_up(self) -> list[SliceResult]:
        now = self._clock()
        overdue = []
        for number, bundle in self._out.items():
            if now < bundle.deadline:
                continue
            if self._executor.waits(number):
                bundle.deadline = SteadyTime(now + _LATE_SECONDS)
                for todo in bundle.slices.values():  # it is still to begin, so it does not count as long out
                    self._stamped(todo)
            else:
                overdue.append(number)
        return [result for number in overdue for result in self._give_up(number, self._out.pop(number), now)]

    def _give_up(self, number: int, bundle: _Bundle, now: SteadyTime) -> list[SliceResult]:
        self._threads.run(partial(self._executor.give_up, number))
        self._told_late = False  # they do not come back: what follows is told instead
        error = Overdue(
            f"no result came within {now - bundle.begun:.0f} s after the slice was given to a worker",
            hint=_STUCK,
        )
        if bundle.slices:
            log.error(
                "slices did not come back in time, given up",
                tables=sorted({table.key for table, _ in bundle.slices}),
                seconds=round(now - bundle.begun),
                hint=error.hint,
            )
        return [failed(todo, error) for todo in bundle.slices.values()]
