"""How often a worker looks for garbage in cycles. Its own changes make none: they are freed as soon as nothing refers to them.

Python looks after each 700 new objects, which is a tenth of the processor time of a page, and now and then at everything that is loaded.
"""

from __future__ import annotations

import gc
from typing import Final

_NEW_OBJECTS: Final = 10_000
"""A page or two of changes: what a fault leaves in cycles (a traceback and its frames) stays no longer than that."""


def collect_seldom() -> None:
    """For the rest of this process. What is loaded by now is never looked at again."""
    gc.freeze()
    gc.set_threshold(_NEW_OBJECTS)
