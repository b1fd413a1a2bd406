"""What is left of an emulator that was stopped: threads, and what Python complains about when the rest is collected."""

from __future__ import annotations

import gc
import threading
import warnings
from collections.abc import Callable

_NAMES = ("servicebus-", "Thread-", "asyncio_")


def _threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name.startswith(_NAMES)}


def leaks(action: Callable[[], object]) -> list[str]:
    """What `action` leaves behind: the names of threads, warnings about sockets, transports, loops and tasks forgotten."""
    gc.collect()
    before = _threads()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        action()
        gc.collect()
    found = [str(warning.message) for warning in caught if issubclass(warning.category, ResourceWarning)]
    return found + sorted(thread.name for thread in _threads() - before)
