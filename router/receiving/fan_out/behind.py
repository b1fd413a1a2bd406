"""Logs once for all sessions of a process that an output has fallen behind, and once when it has caught up. Decides nothing about messages."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Final

import structlog

FORGOTTEN: Final = 120.0
"""Seconds after which a session that was closed and did not come again is another router's or worker's."""

HINT: Final = "what it has missed stays in the queue, and is read again when it accepts messages; its own lines say why it does not"

log = structlog.get_logger(__name__)


class Behind:
    """Which sessions are ahead of which outputs. Shared by the slots, and read for the metrics."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._guard = threading.Lock()
        self._sessions: dict[str, dict[str, float | None]] = {}
        """By output: the sessions, and since when each is closed."""

    def fell(self, output: str, session_id: str, why: str) -> None:
        with self._guard:
            first = output not in self._sessions
            self._sessions.setdefault(output, {})[session_id] = None
        if first:
            log.warning("output behind; the others go on", output=output, session=session_id, error=why, hint=HINT)

    def closed(self, session_id: str) -> None:
        """The session was given back; it is expected again."""
        now = self._clock()
        with self._guard:
            for sessions in self._sessions.values():
                if session_id in sessions:
                    sessions[session_id] = now

    def level(self, session_id: str, *outputs: str) -> None:
        """These outputs have all of the session."""
        if not self._sessions:  # without the lock, because hardly any is behind
            return
        with self._guard:
            for output in outputs:
                self._sessions.get(output, {}).pop(session_id, None)
        self.look()

    def look(self) -> None:
        """Forget sessions that did not come again, and log the outputs that have caught up."""
        now = self._clock()
        with self._guard:
            for output, sessions in self._sessions.items():
                kept = {each: at for each, at in sessions.items() if at is None or now - at < FORGOTTEN}
                self._sessions[output] = kept
            over = [output for output, sessions in self._sessions.items() if not sessions]
            for output in over:
                del self._sessions[output]
        for output in over:
            log.info("output level again", output=output)

    def sessions(self) -> Mapping[str, int]:
        """How many sessions are ahead of each output that is behind."""
        with self._guard:
            return {output: len(sessions) for output, sessions in self._sessions.items()}
