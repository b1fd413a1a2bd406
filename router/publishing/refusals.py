"""How many messages in a row each topic has refused, over edits of the configuration: only a changed output begins again. Decides nothing."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

from common.bus.settings import OutputSettings

Told = Sequence[tuple[OutputSettings, Mapping[str, int]]]
"""Of each output, the topics that refused the last message that they answered for, and how many in a row."""


class Row:
    """Of one topic. Its publisher alone counts, one send at a time."""

    def __init__(self, count: int = 0) -> None:
        self.count = count


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
                (settings, {key: row.count for key, row in rows.items()})
                for held in self._rows.values()
                for settings, rows in held
            ]

    def learn(self, told: Told) -> None:
        """What another process has counted last holds."""
        with self._guard:
            for output, counts in told:
                rows = self._of(output)
                for key, count in counts.items():
                    rows.setdefault(key, Row()).count = count
