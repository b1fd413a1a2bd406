"""As many descriptors as the system allows this process: each link to Service Bus takes one, and most systems begin with 1,024.

Raises the soft limit to the hard one, which any process may do (setrlimit(2)), and warns when even that is too low. Never lowers it.
"""

from __future__ import annotations

import sys

import structlog

_OTHERS = 64
"""Descriptors besides links: files of Python and its packages, pipes, the health port and its clients."""

log = structlog.get_logger(__name__)


def raise_file_limit() -> int | None:
    """The limit in force from now on; None without one (Windows)."""
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
    """Raise the limit so that `links` can be open at once, and warn when they cannot."""
    limit = raise_file_limit()
    if (words := complaint(links, limit)) is not None:
        log.warning(
            "fewer files may be open than links may be needed",
            limit=limit,
            links=links,
            hint=words,
        )


def complaint(links: int, limit: int | None) -> str | None:
    """What to do when `limit` is too low for `links`."""
    if limit is None or links + _OTHERS <= limit:
        return None
    return f"raise the hard limit to {links + _OTHERS} (LimitNOFILE= of systemd, ulimits of a container), or route fewer tables with it"


def _counted(limit: int) -> int | None:
    """RLIM_INFINITY is -1 on most systems."""
    return limit if limit >= 0 else None
