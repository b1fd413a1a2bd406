"""Which slices go to the executor together, and how many at once. Knows slices and slots, nothing of tables' state."""

from __future__ import annotations

import queue
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from math import ceil

from ingester.executor import Executor
from ingester.slices import Slice, SliceResult, failed

BUCKET_SIZE = 64
"""Slices a task takes at most: what its eight threads can look after within a poll interval."""


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


class Dispatcher:
    """Runs buckets on the executor's slots. Only `_run` leaves the caller's thread.

    `stamped`: a slice with what is known when it starts, of which waiting for a slot would have made old news.
    """

    def __init__(self, executor: Executor, stamped: Callable[[Slice], Slice]) -> None:
        self._executor = executor
        self._stamped = stamped
        self._pool = ThreadPoolExecutor(executor.slots, thread_name_prefix="bucket")
        self._done: queue.SimpleQueue[tuple[bool, Sequence[SliceResult]]] = queue.SimpleQueue()
        self._quick: list[Slice] = []
        self._backlogs: list[Slice] = []
        self._running = 0
        self._running_backlogs = 0
        self._quick_next = False

    def add(self, todo: Slice, *, backlog: bool) -> None:
        """Queue a slice until a slot is free."""
        (self._backlogs if backlog else self._quick).append(todo)

    def start(self) -> None:
        """Hand what waits to the free slots."""
        quick, lone = buckets(
            self._quick,
            self._backlogs,
            slots=self._executor.slots,
            running=self._running,
            running_backlogs=self._running_backlogs,
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
        """What has ended; waits up to `timeout` seconds for the first."""
        found: list[SliceResult] = []
        try:
            backlog, results = self._done.get(timeout=timeout) if timeout > 0 else self._done.get_nowait()
            while True:
                self._running -= 1
                self._running_backlogs -= backlog
                found += results
                backlog, results = self._done.get_nowait()
        except queue.Empty:
            return found

    @property
    def room(self) -> int:
        """How many more backlogs could start now."""
        return backlog_room(self._executor.slots, self._running, self._running_backlogs) - len(self._backlogs)

    @property
    def running(self) -> int:
        """Buckets on their way."""
        return self._running

    def close(self) -> None:
        """Nothing more is started; returns when the last bucket has come back."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _submit(self, bucket: list[Slice], *, backlog: bool) -> None:
        self._running += 1
        self._running_backlogs += backlog
        self._pool.submit(self._run, [self._stamped(todo) for todo in bucket], backlog)

    def _run(self, bucket: list[Slice], backlog: bool) -> None:
        try:
            results = self._executor.run(bucket)
        except Exception as error:  # whatever it was, the loop must hear of it, or the tables would never be due again
            results = [failed(todo, error) for todo in bucket]
        self._done.put((backlog, results))
