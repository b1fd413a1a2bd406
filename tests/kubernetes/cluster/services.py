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


def start(name: str, command: Iterable[str | Path], *, namespace: str | None = None) -> None:
    """`namespace`: the network namespace it runs in; mounts stay shared, so that containerd sees the volumes that the kubelet mounts."""
    inside = [] if namespace is None else ["nsenter", f"--net=/run/netns/{namespace}"]
    words = [*inside, *map(str, command)]
    LOGS.mkdir(parents=True, exist_ok=True)
    with (LOGS / f"{name}.log").open("ab") as output:
        process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True, cwd=STATE
        )
    _record(name).write_text(json.dumps({"pid": process.pid, "command": words}))


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
            os.kill(pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)  # a child of this process
        time.sleep(0.05)


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
    try:
        return int(json.loads(_record(name).read_text())["pid"])
    except FileNotFoundError:
        return None


def _record(name: str) -> Path:
    return STATE / f"{name}.service"
