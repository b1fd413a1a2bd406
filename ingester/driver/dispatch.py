"""Which slices go to the executor together, how many at once, and until when they have to be back. Knows slices and slots, nothing of
tables' state.

A bucket that is not back in time is given up: its work is cancelled, its slices come back as failed, its slot is free. What it says later is
not heard. That is safe although its work may go on somewhere for a while: after `send_before` it sends nothing, and its commit names the
position that it began at, so of it and the slice that follows one commits a page and the other is refused. Whichever it is, a page was
accepted by the queue before its end was committed: nothing is left out, and what both have sent is there twice with the same ids.

A worker that died may have been killed by one of its tables: each of them has a worker to itself from then on, until it comes back.
"""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from math import ceil

import structlog

from common.clock import SteadyClock, steady
from common.names import TableName
from ingester.driver.threads import Threads
from ingester.executor import Executor
from ingester.slices import Overdue, Slice, SliceResult, Trouble, failed
from ingester.source import Part

log = structlog.get_logger("ingester")

BUCKET_SIZE = 64
"""Slices a task takes at most: what its eight threads can look after within a poll interval."""
DEATHS = 3
"""So many workers in a row that read one table and nothing else: what killed them is that table."""
_LATE_SECONDS = 30.0
"""After `send_before` nothing is sent; a commit and a job's end may still be on their way."""
_HANG_SECONDS = 150.0
"""For a slice whose lease cannot run out: one statement (120 s), and what a worker needs to start."""
_PART_SECONDS = 600.0
"""The same for a part of a stride, which goes on however slowly a throttling namespace takes it."""


def backlog_room(slots: int, running: int, running_backlogs: int) -> int:
    """Slots that backlogs may still have: together they leave one to the others."""
    return max(0, min(slots - running, max(1, slots - 1) - running_backlogs))


def buckets(
    quick: Sequence[Slice],
    backlogs: Sequence[Slice],
    *,
    slots: int,
    running: int,
    running_backlogs: int,
    quick_next: bool = False,
) -> tuple[list[list[Slice]], list[list[Slice]]]:
    """(buckets of quick slices, buckets of one backlog each) to start now.

    A backlog has a bucket to itself; quick slices are spread over what is free, so that none waits for a neighbour without need.
    `quick_next`: whose turn a single slot's is where both wait for it.
    """
    free = slots - running
    room = 0 if slots == 1 and quick and quick_next else backlog_room(slots, running, running_backlogs)
    lone = [[todo] for todo in backlogs[:room]]
    free -= len(lone)
    count = min(free, len(quick))
    if count <= 0:
        return [], lone
    taken = quick[: count * BUCKET_SIZE]
    size = ceil(len(taken) / count)
    return [list(taken[i : i + size]) for i in range(0, len(taken), size)], lone


def seconds_out(todo: Slice) -> float:
    """How long after its start the driver must have heard of `todo`."""
    if todo.lease_seconds is not None:
        return todo.lease_seconds + _LATE_SECONDS
    return todo.seconds + (_HANG_SECONDS if todo.part is None else _PART_SECONDS)


@dataclass(slots=True)
class _Bucket:
    """One that is out. `slices`: those of which nothing was heard. Times of the steady clock. `lone`: it began with a single slice, no part."""

    backlog: bool
    lone: bool
    slices: dict[tuple[TableName, Part | None], Slice]
    begun: float
    deadline: float

    def heard(self, results: Sequence[SliceResult]) -> list[SliceResult]:
        """Those of `results` that were not heard before."""
        return [found for found in results if self.slices.pop((found.table, found.part), None) is not None]


class Dispatcher:
    """Runs buckets on the executor's slots. Only `_run` and `give_up` leave the caller's thread.

    `stamped`: a slice with what is known when it starts, of which waiting for a slot would have made old news.
    """

    def __init__(self, executor: Executor, stamped: Callable[[Slice], Slice], *, clock: SteadyClock = steady) -> None:
        self._executor = executor
        self._stamped = stamped
        self._clock = clock
        self._threads = Threads("bucket")
        self._told: queue.SimpleQueue[tuple[int, Sequence[SliceResult], bool]] = queue.SimpleQueue()
        """(bucket, results, whether those are all)"""
        self._quick: list[Slice] = []
        self._backlogs: list[Slice] = []
        self._numbers: Iterator[int] = count()
        self._out: dict[int, _Bucket] = {}
        self._quick_next = False
        self._suspects: dict[TableName, int] = {}
        """Tables whose last worker died: how many died in a row that had nothing else to do."""

    def add(self, todo: Slice, *, backlog: bool) -> None:
        """Queue a slice until a slot is free."""
        (self._backlogs if backlog or todo.table in self._suspects else self._quick).append(todo)

    def start(self) -> None:
        """Hand what waits to the free slots."""
        quick, lone = buckets(
            self._quick,
            self._backlogs,
            slots=self._executor.slots,
            running=self.running,
            running_backlogs=self._backlogs_out(),
            quick_next=self._quick_next,
        )
        if quick or lone:
            self._quick_next = bool(lone)
        del self._backlogs[: len(lone)]
        del self._quick[: sum(map(len, quick))]
        for bucket in quick:
            self._submit(bucket, backlog=False)
        for bucket in lone:
            self._submit(bucket, backlog=True)

    def results(self, timeout: float) -> list[SliceResult]:
        """What has ended, or was given up; waits up to `timeout` seconds for the first."""
        found: list[SliceResult] = []
        try:
            told = self._told.get(timeout=timeout) if timeout > 0 else self._told.get_nowait()
            while True:
                found += self._heard(*told)
                told = self._told.get_nowait()
        except queue.Empty:
            return found + self._given_up()

    @property
    def room(self) -> int:
        """How many more backlogs could start now."""
        return backlog_room(self._executor.slots, self.running, self._backlogs_out()) - len(self._backlogs)

    @property
    def running(self) -> int:
        """Buckets on their way."""
        return len(self._out)

    def close(self) -> None:
        """Nothing more is started, and what has not come back is not waited for."""
        self._threads.close()

    def _backlogs_out(self) -> int:
        return sum(bucket.backlog for bucket in self._out.values())

    def _submit(self, slices: list[Slice], *, backlog: bool) -> None:
        stamped = [self._stamped(todo) for todo in slices]
        number, now = next(self._numbers), self._clock()
        deadline = now + max(map(seconds_out, stamped))
        lone = len(stamped) == 1 and stamped[0].part is None
        self._out[number] = _Bucket(backlog, lone, {(todo.table, todo.part): todo for todo in stamped}, now, deadline)
        self._threads.run(partial(self._run, number, stamped))

    def _run(self, number: int, slices: list[Slice]) -> None:
        def early(result: SliceResult) -> None:
            self._told.put((number, [result], False))

        try:
            results = self._executor.run(slices, number=number, early=early)
        except Exception as error:  # whatever it was, the loop must hear of it, or the tables would never be due again
            results = [failed(todo, error) for todo in slices]
        self._told.put((number, results, True))

    def _heard(self, number: int, results: Sequence[SliceResult], ended: bool) -> list[SliceResult]:
        bucket = self._out.get(number)
        if bucket is None:  # it was given up
            return []
        if ended:
            del self._out[number]
        return [self._judged(found, bucket) for found in bucket.heard(results)]

    def _judged(self, result: SliceResult, bucket: _Bucket) -> SliceResult:
        """`result`, and if its worker died, whether that is the table's doing: a single death may be anybody's."""
        if result.trouble is not Trouble.WORKER_LOST:
            self._suspects.pop(result.table, None)
            return result
        deaths = self._suspects[result.table] = self._suspects.get(result.table, 0) + bucket.lone
        return replace(result, trouble=Trouble.KILLS_WORKER) if deaths >= DEATHS else result

    def _given_up(self) -> list[SliceResult]:
        now = self._clock()
        overdue = [number for number, bucket in self._out.items() if now >= bucket.deadline]
        return [result for number in overdue for result in self._give_up(number, self._out.pop(number), now)]

    def _give_up(self, number: int, bucket: _Bucket, now: float) -> list[SliceResult]:
        self._threads.run(partial(self._executor.give_up, number))
        error = Overdue(
            f"nothing was heard of it for {now - bucket.begun:.0f} s after it was handed to Spark",
            hint="Service Bus, SQL Server or the executor accepts connections and does not answer, or no executor took the task",
        )
        if bucket.slices:
            log.error(
                "slices did not come back in time, given up",
                tables=sorted({table.key for table, _ in bucket.slices}),
                seconds=round(now - bucket.begun),
                hint=error.hint,
            )
        return [failed(todo, error) for todo in bucket.slices.values()]
