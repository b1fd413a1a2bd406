"""How many cores this process may use: so many workers a router has, and so many of Spark's local tasks are worth having for one table."""

from __future__ import annotations

import os
from pathlib import Path

CPU_MAX = Path("/sys/fs/cgroup/cpu.max")
"""A container's share of the processors: `QUOTA PERIOD` in microseconds, or `max PERIOD`
(https://docs.kernel.org/admin-guide/cgroup-v2.html#cpu-interface-files)."""


def usable_cores(cpu_max: Path = CPU_MAX) -> int:
    """Those that the process is allowed on, and no more than its container's quota pays for; at least 1."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = cpu_max.read_text().split()
        share = int(quota) // int(period)
    except (OSError, ValueError):  # no such file, or no quota
        return allowed
    return max(1, min(allowed, share))
