"""Duplicate detection: the message ids an entity has seen within its window.

The scope is the entity; where partitioning is enabled it would be message id and partition key, but the emulator has no
partitioned entities.
Source: learn.microsoft.com "Duplicate detection".
"""

from __future__ import annotations

from emulators.servicebus.amqp.values import Value
from emulators.servicebus.journal import Journal


class DuplicateHistory:
    """Message ids by the time they were first seen, in milliseconds since the Unix epoch."""

    def __init__(self, journal: Journal, path: str) -> None:
        self._journal = journal
        self._path = path.lower()
        self._seen: dict[Value, int] = {}

    def is_new(self, message_id: Value, now: int, window: int) -> bool:
        """Remember an id; False when it was there. Window in milliseconds."""
        self.forget(now - window)
        if message_id in self._seen:
            return False
        self._seen[message_id] = now
        self._journal.save_seen(self._path, message_id, now)
        return True

    def forget(self, until: int) -> None:
        """Forget what was seen up to a moment."""
        gone = []
        for message_id, at in self._seen.items():
            if at > until:
                break
            gone.append(message_id)
        for message_id in gone:
            del self._seen[message_id]
            self._journal.drop_seen(self._path, message_id)

    def restore(self, message_id: Value, at: int) -> None:
        """Put back an id that the journal kept; call in order of `at`."""
        self._seen[message_id] = at
