"""What the system says that a process and its descendants use (Linux: /proc)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

_TICK: Final = 1 / os.sysconf("SC_CLK_TCK")


def processor_seconds(pid: int) -> float:
    """Of all threads of a process, in the program and in the system for it; 0 for one that is gone."""
    fields = _stat(pid)
    return (int(fields[11]) + int(fields[12])) * _TICK if fields else 0.0


def processor_seconds_with_ended(pid: int) -> float:
    """The same with the processes that it started, as far as they have ended and it has waited for them."""
    fields = _stat(pid)
    return sum(map(int, fields[11:15])) * _TICK


def peak_megabytes(pid: int) -> float:
    """The most memory that a process has had resident (VmHWM)."""
    return _status(pid, "VmHWM")


def resident_megabytes(pid: int) -> float:
    """The memory of a process."""
    return _status(pid, "VmRSS")


def proportional_megabytes(pid: int) -> float:
    """The same with each page that several processes share counted in equal parts; 0 where the kernel does not say."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("Pss:")), 0.0)


def descendants(pid: int) -> list[int]:
    """The processes that `pid` started, and theirs."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (fields := _stat(int(entry.name))):
            parents.setdefault(int(fields[1]), []).append(int(entry.name))
    found, left = [], [pid]
    while left:
        children = parents.get(left.pop(), [])
        found += children
        left += children
    return found


def ingester_processes(pid: int) -> Mapping[str, list[int]]:
    """The parts of a running ingester: its driver, Spark's JVM, and the Python workers (with the daemon that forks them)."""
    parts: dict[str, list[int]] = {"driver": [pid], "jvm": [], "workers": []}
    for child in descendants(pid):
        try:
            command = Path(f"/proc/{child}/cmdline").read_bytes()
        except OSError:  # it has ended meanwhile
            continue
        if b"pyspark.daemon" in command or b"pyspark.worker" in command:
            parts["workers"].append(child)
        elif b"java" in command.split(b"\0")[0]:
            parts["jvm"].append(child)
    return parts


def _stat(pid: int) -> list[str]:
    """The fields after the program's name."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _status(pid: int, field: str) -> float:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith(f"{field}:")), 0.0)
