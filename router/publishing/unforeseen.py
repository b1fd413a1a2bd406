"""A sender whose errors are all DStream's own. One that nobody foresaw holds up its own topic, and not the worker that serves others.

Its text is left out, because it may quote a row or a secret; its type and place are what a report needs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from common.bus.ports import OpenableSender, TimeLeft
from common.errors import DStreamError, TransientError, unforeseen
from common.message import Message

_HINT = "this is a defect: report it with this line; the messages wait, and are sent again"


class ForeseenSender:
    """An `OpenableSender`. After an error that nobody foresaw nothing is known to be accepted."""

    def __init__(self, sender: OpenableSender, topic: str) -> None:
        self._inner = sender
        self._topic = topic

    def __repr__(self) -> str:
        return repr(self._inner)

    def open(self) -> None:
        with self._foreseen("opening"):
            self._inner.open()

    def send(self, messages: Sequence[Message], *, left: TimeLeft | None = None) -> None:
        with self._foreseen("sending to"):
            self._inner.send(messages, left=left)

    def batch_bytes(self) -> int:
        with self._foreseen("measuring"):
            return self._inner.batch_bytes()

    def close(self) -> None:
        with self._foreseen("closing"):
            self._inner.close()

    @contextmanager
    def _foreseen(self, doing: str) -> Iterator[None]:
        try:
            yield
        except DStreamError:
            raise
        except Exception as error:
            raise TransientError(f"{doing} {self._topic}: {unforeseen(error)}", hint=_HINT) from error
