"""The cluster's processes: started in the background, found again by name from another process, stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from tests.kubernetes.cluster.places import LOGS, STATE

_STOP_SECONDS = 10.0

_started_here: list[subprocess.Popen[bytes]] = []
"""Kept until they are stopped, because they outlive whoever starts them: Python warns of a process whose end nobody has heard of when nobody
holds it any more."""


def start(name: str, command: Iterable[str | Path], *, namespace: str | None = None) -> None:
    """`namespace`: the network namespace it runs in; mounts stay shared, so that containerd sees the volumes that the kubelet mounts."""
    inside = [] if namespace is None else ["nsenter", f"--net=/run/netns/{namespace}"]
    words = [*inside, *map(str, command)]
    LOGS.mkdir(parents=True, exist_ok=True)
    with (LOGS / f"{name}.log").open("ab") as output:
        process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True, cwd=STATE
        )
    _started_here.append(process)
    record = {"pid": process.pid, "started": _started(process.pid), "command": words}
    _record(name).write_text(json.dumps(record))


def again(name: str) -> None:
    """Start a service that was stopped, as it was."""
    start(name, json.loads(_record(name).read_text())["command"])


def stop(name: str) -> None:
    pid = _pid(name)
    if pid is None:
        return
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + _STOP_SECONDS
    while runs(name):
        if time.monotonic() > deadline:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)
    for child in [each for each in _started_here if each.pid == pid]:
        child.wait()
        _started_here.remove(child)


def runs(name: str) -> bool:
    pid = _pid(name)
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def names() -> list[str]:
    return sorted(path.stem for path in STATE.glob("*.service"))


def until(seconds: float, what: str, done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + seconds
    while not done():
        if ended := [name for name in names() if not runs(name)]:
            raise RuntimeError(f"{what}: {', '.join(ended)} ended; the logs are in {LOGS}")
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what} after {seconds:.0f} s; the logs are in {LOGS}")
        time.sleep(0.3)


def _pid(name: str) -> int | None:
    """None once the number belongs to another process: records outlive a restart of the machine, and every signal here is root's."""
    try:
        record = json.loads(_record(name).read_text())
    except FileNotFoundError:
        return None
    pid = int(record["pid"])
    return pid if record.get("started", _started(pid)) == _started(pid) else None


def _started(pid: int) -> str | None:
    """When it was started and since which start of the machine; None if it is gone."""
    try:
        ticks = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
        return f"{Path('/proc/sys/kernel/random/boot_id').read_text().strip()} {ticks}"
    except OSError:
        return None


def _record(name: str) -> Path:
    return STATE / f"{name}.service"
