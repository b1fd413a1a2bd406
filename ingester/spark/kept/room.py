"""How much memory this process may still take: of its machine, and of each group that limits it (cgroups of version 1 and 2).

Reads only. A machine without /proc, or with one that says nothing, has none: the answer is for what can be left undone.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath

_LIMITS = {"": ("memory.max", "memory.current"), "memory": ("memory.limit_in_bytes", "memory.usage_in_bytes")}
"""The files of a limit and of what is taken, by the controllers that a line of /proc/self/cgroup names; none in version 2."""


def room(proc: Path = Path("/proc"), groups: Path = Path("/sys/fs/cgroup")) -> int:
    """Bytes. What files hold in memory counts as taken where a group is limited: an answer that is too low does no harm."""
    try:
        rest = [_available(proc)]
        for line in (proc / "self" / "cgroup").read_text().splitlines():
            _, controllers, own = line.split(":", 2)
            for controller in controllers.split(","):
                if controller in _LIMITS:
                    rest += _left(groups / controller, own, *_LIMITS[controller])
    except (OSError, ValueError):
        return 0
    return max(0, min(rest))


def _available(proc: Path) -> int:
    for line in (proc / "meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    raise ValueError("no MemAvailable")


def _left(mounted: Path, own: str, limit: str, taken: str) -> Iterator[int]:
    """For the group and those that it is in. In a container the path may be that of the host, and then its own group is what is mounted."""
    path = PurePosixPath(own.lstrip("/"))
    for group in (path, *path.parents):
        with suppress(OSError):  # the group has no limit
            text = (mounted / group / limit).read_text().strip()
            if text != "max":
                yield int(text) - int((mounted / group / taken).read_text())
