"""One shelf of the journal, as the store or schedule that keeps its messages there sees it.

Holds nothing: it only knows the shelf's name, so that telling the journal costs one call.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from emulators.servicebus.journal import Journal
from emulators.servicebus.message import Message


class Shelf:
    """Notes of one shelf, bound once: these are called for every message."""

    __slots__ = ("drop", "save", "save_sequence", "save_session_state")

    def __init__(self, journal: Journal, name: str) -> None:
        name = name.lower()
        self.save: Callable[[Message], None] = partial(journal.save_message, name)
        self.drop: Callable[[int], None] = partial(journal.drop_message, name)
        self.save_sequence: Callable[[int], None] = partial(journal.save_sequence, name)
        self.save_session_state: Callable[[str, bytes | None, int], None] = partial(journal.save_session_state, name)
