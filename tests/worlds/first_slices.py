"""`python -m tests.worlds.first_slices FOLDER`: the process for the first slices with tasks that end, fail, hang and die, as JSON.

A program because only a process with one thread forks it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from common.names import TableName
from ingester.driver.dispatch import Dispatcher
from ingester.slices import Slice, SliceResult
from ingester.source import CaptureInstance
from ingester.spark.driver_line import Driver
from ingester.spark.first.child import Child, forked
from ingester.spark.first.hand_over import HandOver, Started
from ingester.sqlserver.login import freetds
from ingester.sqlserver.position import LogPosition, Lsn

QUICK, HUNG, FATAL, SEEN = (TableName("dbo", name) for name in ("Quick", "Hung", "Fatal", "Seen"))
_LSN = Lsn(bytes(10))
_BEFORE = LogPosition.before(_LSN)
_PATIENCE = 60.0


def todo(table: TableName, lease: float = 600.0) -> Slice:
    instance = CaptureInstance(table.table, table, _BEFORE, ())
    ends = _BEFORE, LogPosition.end_of(_LSN)
    return Slice(table, instance, *ends, epoch=1, rows=1, seconds=1, lease_seconds=lease)


def task(bundle: Sequence[Slice], stopping: Path, driver: Driver | None) -> list[SliceResult]:
    """Tells of each but the last, never returns where one hangs, and dies of the fatal one."""
    for one in bundle:
        if one.table == FATAL:
            os._exit(3)
        if one.table == HUNG:
            threading.Event().wait()
        if one.table == SEEN:
            (stopping.parent / "seen").write_text(json.dumps(seen(stopping)))
        elif driver is not None:
            driver.tell(SliceResult(one.table, None))
    return [SliceResult(one.table, None) for one in bundle]


def seen(stopping: Path) -> dict[str, Any]:
    """The state of the process that runs a task."""
    return {
        "pid": os.getpid(),
        "group": os.getpgrp() == os.getpid(),
        "files": files(),
        "signals": [
            signal.getsignal(number) == signal.SIG_IGN for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
        ],
        "stopping": stopping.exists(),
        "driver's settings": Path(os.environ[freetds.VARIABLE]).read_text() == "",
    }


def files() -> list[str]:
    """The kinds of the open ones, without the standard streams."""
    found = []
    for entry in sorted(Path("/proc/self/fd").iterdir()):
        with suppress(OSError):  # that of the folder
            found.append(str(entry.readlink()).partition(":")[0] if int(entry.name) > 2 else "standard")
    return found


def never() -> Started:
    """A Spark that does not start."""
    threading.Event().wait()
    raise AssertionError


def heard(dispatcher: Dispatcher, count: int) -> list[tuple[str, str | None]]:
    found: list[SliceResult] = []
    while len(found) < count:
        found += dispatcher.results(1)
    return [(result.table.table, result.trouble.value if result.trouble else None) for result in found]


_SECOND = 0.05
"""How long a second lasts for what is counted in them."""


def frozen(child: Child) -> list[tuple[str, str | None]]:
    """What becomes of slices of a process that stands still, and takes nothing from its pipe, which has no room for the first of them."""
    dispatcher = Dispatcher(HandOver(child, never, threading.Event(), second=_SECOND), lambda slice: slice)
    os.kill(child._pid, signal.SIGSTOP)
    dispatcher.add(replace(todo(SEEN), instance=CaptureInstance("x" * 1_000_000, SEEN, _BEFORE, ())), backlog=True)
    dispatcher.start()
    dispatcher.add(todo(QUICK), backlog=False)
    dispatcher.start()
    return sorted(heard(dispatcher, 2), key=str)


def slept(child: Child) -> list[tuple[str, str | None]] | str:
    """What becomes of a process after it and the driver have stood still together for longer than an answer may take."""
    second = 4 * _SECOND  # of ten without an answer, few may have passed when the driver stands still as well
    executor = HandOver(child, never, threading.Event(), second=second)
    dispatcher = Dispatcher(executor, lambda slice: slice)
    time.sleep(2 * second)
    stopped = f"until grep -q '^State:.T' /proc/{os.getpid()}/status; do sleep 0.05; done"
    subprocess.Popen(
        ["bash", "-c", f"{stopped}; sleep {20 * second}; kill -CONT {os.getpid()}; kill -CONT {child._pid}"]
    )
    os.kill(child._pid, signal.SIGSTOP)
    time.sleep(2 * second)  # for questions without an answer
    os.kill(os.getpid(), signal.SIGSTOP)
    time.sleep(2 * second)
    if child.ended is not None:
        return child.ended
    dispatcher.add(todo(QUICK), backlog=False)
    dispatcher.start()
    found = heard(dispatcher, 1)
    executor.close()
    return found


def gone(child: Child) -> bool:
    deadline = time.monotonic() + _PATIENCE
    while (here := Path(f"/proc/{child._pid}").exists() or child.ended is None) and time.monotonic() < deadline:
        time.sleep(0.01)
    return not here


def main(folder: Path) -> None:
    stopping = folder / "stopping"
    held = subprocess.Popen(["cat"], stdin=subprocess.PIPE)  # as the JVM: it ends with its standard input
    children = [forked(task, stopping) for _ in range(7)]
    hangs, dies, ends, orphan, idle, still, sleeps = children
    assert hangs is not None
    assert dies is not None
    assert ends is not None
    assert orphan is not None
    assert idle is not None
    assert still is not None
    assert sleeps is not None
    told: dict[str, Any] = {}
    dispatcher = Dispatcher(HandOver(hangs, never, threading.Event()), lambda slice: slice)
    dispatcher.add(
        todo(HUNG, -25.0), backlog=True
    )  # due back in five seconds, which are enough for the quick one behind it
    dispatcher.start()
    dispatcher.add(todo(QUICK), backlog=False)
    dispatcher.add(todo(HUNG), backlog=False)
    dispatcher.start()
    told["hung"] = sorted(heard(dispatcher, 3), key=str)
    told["killed"] = gone(hangs)
    dispatcher.close()
    dispatcher = Dispatcher(HandOver(dies, never, threading.Event()), lambda slice: slice)
    dispatcher.add(todo(FATAL), backlog=True)
    dispatcher.start()
    told["died"] = heard(dispatcher, 1)
    told["reaped"] = gone(dies)
    dispatcher.close()
    told["ends"] = [hangs.ended, dies.ended]
    waiting = HandOver(idle, never, threading.Event())
    os.kill(idle._pid, signal.SIGKILL)
    gone(idle)
    told["idle"] = idle.ended
    waiting.close()
    told["frozen"] = [frozen(still), gone(still), still.ended]
    told["slept"] = slept(sleeps)
    ends.finish()
    ends.run([todo(SEEN)], number=1, early=lambda result: None)
    told["seen"] = json.loads((folder / "seen").read_text())
    ends.end()
    told["ended"] = gone(ends)
    told["second"] = forked(task, stopping) is None  # there are threads now
    assert held.stdin is not None
    held.stdin.close()
    told["input"] = held.wait(_PATIENCE)
    print(json.dumps({**told, "orphan": orphan._pid}), flush=True)
    os._exit(0)


if __name__ == "__main__":
    from tests.worlds import first_slices

    first_slices.main(Path(sys.argv[1]))
