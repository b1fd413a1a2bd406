"""NATS JetStream as an output (router/outputs/port.py)."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress

from common.bus.ports import OpenableSender, Provision
from common.check import Finding
from common.errors import ConfigurationError, DStreamError
from router.outputs.event_loop import LoopThread
from router.outputs.nats.connection import Connection
from router.outputs.nats.provision import Streams, findings
from router.outputs.nats.sender import Lane, NatsSender
from router.outputs.nats.settings import NatsSettings
from router.outputs.nats.streams import needed
from router.outputs.port import Stream

_CLOSING = 3.0


class NatsOutput:
    """All its senders share one connection, and one event loop."""

    def __init__(self, settings: NatsSettings) -> None:
        """Raises ConfigurationError for files and secrets that cannot be used, and an environment variable that is not set."""
        try:
            self._connection = Connection(settings)
        except OSError as error:
            raise ConfigurationError(
                [f"output {settings.name}: ca_file or client_certificate cannot be used: {error.strerror or error}"]
            ) from error
        except ValueError as error:
            raise ConfigurationError([f"output {settings.name}: credentials {error}"]) from None
        self._settings = settings
        self._loop = LoopThread(f"nats-{settings.name}")
        self._streams = Streams(settings, self._connection, self._loop)
        self._lanes: dict[str, Lane] = {}
        self._guard = threading.Lock()

    def __repr__(self) -> str:
        return f"<NatsOutput {self._settings.where}>"

    def sender(self, stream: Stream) -> OpenableSender:
        name = self._settings.stream_of(stream.destination)
        with self._guard:
            lane = self._lanes.setdefault(name, Lane())
        return NatsSender(stream.destination, name, self._settings.seconds, self._connection, lane, self._loop)

    def provision(
        self, streams: Sequence[Stream], *, how: Provision, stop: threading.Event | None = None
    ) -> Collection[str]:
        if how != "none":
            self._streams.provision(needed(self._settings, streams), how, stop)
        return ()

    def findings(self, streams: Sequence[Stream], *, provision: Provision) -> Iterator[Finding]:
        return findings(self._streams, self._settings.name, needed(self._settings, streams), provision)

    def cut_calls(self) -> None:
        self._loop.cut()

    def close(self) -> None:
        self._loop.cut()
        if self._loop.running:
            with suppress(DStreamError):
                self._loop.call(self._connection.close(), seconds=_CLOSING, doing="closing")
        self._connection.forget()
        self._loop.close()
