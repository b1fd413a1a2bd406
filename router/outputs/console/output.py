"""The output of type `console`. A message counts as accepted once the pipe, the file or the terminal behind the stream has all of its line."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Sequence

from common.bus.ports import MessageUnwritable, OutOfTime, Provision, TimeLeft, for_ever
from common.check import Finding, ok
from common.message import Message
from router.outputs.console.pipe import Pipe, pipe_of
from router.outputs.console.settings import ConsoleSettings
from router.outputs.lines import NotALine, line
from router.outputs.port import Stream

WAIT = 30.0
"""Seconds that a send waits for a reader who has stopped reading."""

_LARGEST = 1 << 20
_STREAMS = {"stdout": (1, "standard output"), "stderr": (2, "standard error")}


class ConsoleOutput:
    """A `router.outputs.port.Output`."""

    def __init__(self, settings: ConsoleSettings, *, pipe: Pipe | None = None) -> None:
        self._settings = settings
        self._pipe = pipe_of(*_STREAMS[settings.stream]) if pipe is None else pipe

    def sender(self, stream: Stream) -> ConsoleSender:
        return ConsoleSender(self._settings, self._pipe)

    def provision(
        self, streams: Sequence[Stream], *, how: Provision, stop: threading.Event | None = None
    ) -> Collection[str]:
        return ()

    def findings(self, streams: Sequence[Stream], *, provision: Provision) -> Iterator[Finding]:
        yield ok(f"output {self._settings.where}", "it needs nothing")

    def cut_calls(self) -> None:
        self._pipe.cut()

    def close(self) -> None:
        """The stream is not this output's to close."""


class ConsoleSender:
    """A `common.bus.ports.OpenableSender`. There is nothing to open: a reader that is gone shows at the first line."""

    def __init__(self, settings: ConsoleSettings, pipe: Pipe) -> None:
        self._settings, self._pipe = settings, pipe

    def open(self) -> None:
        """Nothing to do."""

    def batch_bytes(self) -> int:
        return _LARGEST

    def send(self, messages: Sequence[Message], *, left: TimeLeft | None = None) -> None:
        lines: list[bytes] = []
        for at, message in enumerate(messages):
            try:
                lines.append(line(message, self._settings.line))
            except NotALine as error:
                self._write(lines, left or for_ever)
                raise MessageUnwritable(
                    self._settings.where, message, str(error), at=at, accepted=range(at), hint='or set line = "message"'
                ) from error
        self._write(lines, left or for_ever)

    def _write(self, lines: Sequence[bytes], left: TimeLeft) -> None:
        if not lines:
            return
        if (seconds := left()) <= 0:
            raise OutOfTime(f"writing to {self._settings.where}: the lock does not last long enough")
        self._pipe.write(lines, seconds=min(seconds, WAIT))

    def close(self) -> None:
        """Nothing to do."""
