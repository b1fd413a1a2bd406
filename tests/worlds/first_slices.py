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
_PATIENCE = 60.0


def todo(table: TableName, lease: float = 600.0) -> Slice:
    instance = CaptureInstance(table.table, table, LogPosition.before(_LSN), ())
    ends = LogPosition.before(_LSN), LogPosition.end_of(_LSN)
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


def gone(child: Child) -> bool:
    deadline = time.monotonic() + _PATIENCE
    while child.ended is None and time.monotonic() < deadline:
        time.sleep(0.01)
    return child.ended is not None and not Path(f"/proc/{child._pid}").exists()


def main(folder: Path) -> None:
    stopping = folder / "stopping"
    held = subprocess.Popen(["cat"], stdin=subprocess.PIPE)  # as the JVM: it ends with its standard input
    children = [forked(task, stopping) for _ in range(5)]
    hangs, dies, ends, orphan, idle = children
    assert hangs is not None
    assert dies is not None
    assert ends is not None
    assert orphan is not None
    assert idle is not None
    told: dict[str, Any] = {}
    dispatcher = Dispatcher(HandOver(hangs, never, threading.Event()), lambda slice: slice)
    dispatcher.add(todo(HUNG, -29.0), backlog=True)  # due back in a second
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
