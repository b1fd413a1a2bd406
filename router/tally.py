"""What the router did, in numbers; metrics and the line at the end read them. Decides nothing."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class Tally:
    """Counts since the start; every change under one lock, since the slots are threads."""

    routed: Counter[str] = field(default_factory=Counter)
    """Messages accepted by a topic and completed, by topic."""
    dead_lettered: Counter[str] = field(default_factory=Counter)
    """Messages moved to the dead-letter queue, by reason."""
    lost_locks: int = 0
    """Messages sent whose lock was gone before they were completed: they come again."""
    retries: Counter[str] = field(default_factory=Counter)
    """Failed sends, by topic."""
    _guard: threading.Lock = field(default_factory=threading.Lock)

    def count_routed(self, topic: str, messages: int, *, lost: int) -> None:
        with self._guard:
            self.routed[topic] += messages - lost
            self.lost_locks += lost

    def count_dead_letter(self, reason: str) -> None:
        with self._guard:
            self.dead_lettered[reason] += 1

    def count_retry(self, topic: str) -> None:
        with self._guard:
            self.retries[topic] += 1
