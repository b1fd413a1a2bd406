"""How many cores this process may use. The number of the router's workers, and of Spark's local tasks for one table, depend on it."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

CPU_MAX = Path("/sys/fs/cgroup/cpu.max")
"""A container's share of the processors: `QUOTA PERIOD` in microseconds, or `max PERIOD`
(https://docs.kernel.org/admin-guide/cgroup-v2.html#cpu-interface-files)."""

CPU_OF_V1 = Path("/sys/fs/cgroup/cpu")
"""The same with cgroup v1: `cpu.cfs_quota_us`, -1 for none, and `cpu.cfs_period_us` (https://docs.kernel.org/scheduler/sched-bwc.html)."""


def usable_cores(cpu_max: Path = CPU_MAX, cpu_of_v1: Path = CPU_OF_V1) -> int:
    """The cores that this process may run on, within its container's quota; at least 1."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    share = _share(lambda: cpu_max.read_text().split()) or _share(
        lambda: [(cpu_of_v1 / name).read_text() for name in ("cpu.cfs_quota_us", "cpu.cfs_period_us")]
    )
    return allowed if share is None else max(1, min(allowed, int(share)))


def _share(read: Callable[[], Sequence[str]]) -> float | None:
    """The cores that the quota allows; None without such a file or quota."""
    try:
        quota, period = map(int, read())
    except (OSError, ValueError):
        return None
    return quota / period if quota > 0 and period > 0 else None
