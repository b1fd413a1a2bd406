"""How many messages in a row each topic has refused, over edits of the configuration: only a changed output begins again. Decides nothing."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Mapping, Sequence

from common.bus.settings import OutputSettings

Count = tuple[int, float, float]
"""How many messages in a row a topic has refused, when it last refused one, and when it last accepted one, by the machine's steady clock."""

Told = Sequence[tuple[OutputSettings, Mapping[str, Count]]]
"""Of each output, what its topics have answered."""


class Row:
    """Of one topic. Its publisher alone counts, one send at a time."""

    def __init__(self) -> None:
        self.count = 0
        self._refused_at = self._accepted_at = -math.inf

    def accepted(self) -> None:
        self.count, self._accepted_at = 0, time.monotonic()

    def refused(self) -> None:
        self.count, self._refused_at = self.count + 1, time.monotonic()

    def told(self) -> Count:
        return self.count, self._refused_at, self._accepted_at

    def learn(self, told: Count) -> None:
        """The larger count holds, unless the topic has accepted something since, here or there."""
        counts = [self.told(), told]
        accepted_at = max(each[2] for each in counts)
        self.count = max((count for count, refused_at, _ in counts if refused_at > accepted_at), default=0)
        self._refused_at, self._accepted_at = max(each[1] for each in counts), accepted_at


class Refusals:
    """Of the outputs of a process, by their settings: with other ones a topic may be another topic. Callable from any thread."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._rows: dict[str, list[tuple[OutputSettings, dict[str, Row]]]] = {}

    def of(self, output: OutputSettings, key: str) -> Row:
        """`key`: of the stream (`router.routing.table.key_of`). The same one for the same settings, whoever asks."""
        with self._guard:
            return self._of(output).setdefault(key, Row())

    def _of(self, output: OutputSettings) -> dict[str, Row]:
        held = self._rows.setdefault(output.name, [])
        for settings, rows in held:
            if settings == output:
                return rows
        rows = {}
        self._rows[output.name] = [*held, (output, rows)][-3:]  # in force, and what may take its place
        return rows

    def told(self) -> Told:
        """For another process of this router."""
        with self._guard:
            return [
                (settings, {key: row.told() for key, row in rows.items()})
                for held in self._rows.values()
                for settings, rows in held
            ]

    def learn(self, told: Told) -> None:
        """What another process has counted."""
        with self._guard:
            for output, counts in told:
                rows = self._of(output)
                for key, count in counts.items():
                    rows.setdefault(key, Row()).learn(count)
