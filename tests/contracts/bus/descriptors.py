"""Whether a call leaves sockets behind."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def sockets() -> int:
    """Those that this process has open."""
    count = 0
    for descriptor in Path("/proc/self/fd").iterdir():
        try:
            count += str(descriptor.readlink()).startswith("socket:")
        except OSError:  # the directory's own
            continue
    return count


@contextmanager
def none_left() -> Iterator[None]:
    before = sockets()
    yield
    until = time.monotonic() + 20
    while sockets() > before and time.monotonic() < until:
        time.sleep(0.02)
    assert sockets() <= before
