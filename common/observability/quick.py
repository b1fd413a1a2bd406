"""Imports structlog without rich: it would take it for tracebacks in colour, which DStream does not print. That saves each process 0.1 s.

Hides rich for this one import alone, and does nothing where one of them is imported already.
"""

from __future__ import annotations

import sys


def import_structlog() -> None:
    """Call it before anything else that imports structlog."""
    if "structlog" in sys.modules or "rich" in sys.modules:
        return
    sys.modules["rich"] = None  # type: ignore[assignment]  # as the import system has it for what must not be found
    try:
        import structlog  # noqa: F401
    finally:
        del sys.modules["rich"]
