"""How many files and connections this process may have open: raised at the start as far as the system lets it, and shared between HTTP and gRPC.

Asks for no more than it can use: a system call that visits each possible descriptor would become slow.
"""

from __future__ import annotations

import contextlib
import resource
from typing import Final

ENOUGH: Final = 8192


def raised() -> int:
    """How many there may be now."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = ENOUGH if hard == resource.RLIM_INFINITY else min(ENOUGH, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return allowed()


def allowed() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return ENOUGH if soft == resource.RLIM_INFINITY else soft


def connections(most: int) -> int:
    """Over gRPC: at most a quarter of the descriptors, so that HTTP, stores and files always have theirs."""
    return max(1, min(most, allowed() // 4))
