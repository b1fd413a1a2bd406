"""An HTTP receiver as an output (router/outputs/port.py). Creates nothing: what answers at the other end is somebody else's program."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress

from common.bus.ports import OpenableSender, Provision
from common.check import Finding
from common.errors import ConfigurationError, DStreamError, Stopped
from router.outputs.event_loop import LoopThread
from router.outputs.port import Stream
from router.outputs.webhook.check import Probe, faults, findings
from router.outputs.webhook.client import Client
from router.outputs.webhook.sender import WebhookSender
from router.outputs.webhook.settings import WebhookSettings
from router.outputs.webhook.target import Target

_CLOSING = 2.0


class WebhookOutput:
    """All its senders share one pool of connections."""

    def __init__(self, settings: WebhookSettings) -> None:
        """Raises ConfigurationError for a file that cannot be used, and an environment variable that is not set."""
        Target(settings, settings.url)  # every secret is read now, and not with the first change
        try:
            self._client = Client(settings)
        except OSError as error:
            raise ConfigurationError(
                [f"output {settings.name}: ca_file or client_certificate cannot be used: {error.strerror or error}"]
            ) from error
        self._settings = settings
        self._loop = LoopThread(f"webhook-{settings.name}")
        self._probe = Probe(settings, self._client, self._loop)

    def __repr__(self) -> str:
        return f"<WebhookOutput {self._settings.where}>"

    def sender(self, stream: Stream) -> OpenableSender:
        return WebhookSender(Target(self._settings, stream.destination), self._client, self._loop)

    def provision(
        self, streams: Sequence[Stream], *, how: Provision, stop: threading.Event | None = None
    ) -> Collection[str]:
        if how != "verify":
            return ()
        looks = []
        for where in _places(streams):
            if stop is not None and stop.is_set():
                raise Stopped("asked to stop")
            looks.append(self._probe.look(where))
        if (error := faults(looks)) is not None:
            raise error
        return ()

    def findings(self, streams: Sequence[Stream], *, provision: Provision) -> Iterator[Finding]:
        return findings(self._probe, self._settings, _places(streams))

    def cut_calls(self) -> None:
        self._loop.cut()

    def close(self) -> None:
        self._loop.cut()
        if self._loop.running:
            with suppress(DStreamError):
                self._loop.call(self._client.close(), seconds=_CLOSING, doing="closing")
        self._client.forget()
        self._loop.close()


def _places(streams: Sequence[Stream]) -> list[str]:
    return sorted({stream.destination for stream in streams})
