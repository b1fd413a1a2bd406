"""As many connections as the system lets a program have: every one takes a file descriptor, every sender and receiver of Azure's
Python client a connection, and most systems begin with a limit of 1,024.
"""

from __future__ import annotations

import sys


def raise_file_limit() -> int | None:
    """Take the soft limit up to the hard one; returns what is in force, None where there is none (Windows)."""
    if sys.platform == "win32":
        return None
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError):  # macOS: the hard limit may be unlimited, which the soft one may not
        return soft
    return hard
