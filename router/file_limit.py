"""Raises the limit on open files: each link to Service Bus takes a descriptor, and most systems allow 1,024 by default.

Raises the soft limit to the hard one, which any process may do (setrlimit(2)), and warns when that is still too low. Never lowers it.
"""

from __future__ import annotations

import sys

import structlog

_OTHERS = 64
"""Descriptors for other purposes: files of Python and its packages, pipes, the health port and its clients."""

log = structlog.get_logger(__name__)


def raise_file_limit() -> int | None:
    """Raise the limit; return the one in force, or None where there is none (Windows)."""
    if sys.platform == "win32":
        return None
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError):  # macOS: the hard limit may be unlimited, which the soft one may not
        return _counted(soft)
    return _counted(hard)


def provide_descriptors(links: int) -> None:
    """Raise the limit, and warn when `links` still cannot be open at once."""
    limit = raise_file_limit()
    if (words := complaint(links, limit)) is not None:
        log.warning(
            "the limit on open files is too low for the links that may be needed",
            limit=limit,
            links=links,
            hint=words,
        )


def complaint(links: int, limit: int | None) -> str | None:
    """How to fix a `limit` that is too low for `links`; None for one that is not."""
    if limit is None or links + _OTHERS <= limit:
        return None
    return f"raise the hard limit to {links + _OTHERS} (LimitNOFILE= of systemd, ulimits of a container), or route fewer tables with this router"


def _counted(limit: int) -> int | None:
    """RLIM_INFINITY is -1 on most systems."""
    return limit if limit >= 0 else None
