"""The output of type `file`. A message counts as accepted once its line is stored durably in its folder's open file."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import datetime
from pathlib import Path

from common.bus.ports import Provision
from common.check import Finding
from common.errors import TransientError
from common.in_time import in_time
from router.outputs.file.forms import Form
from router.outputs.file.local.journal import utc_now
from router.outputs.file.local.store import LocalStore
from router.outputs.file.roller import Roller
from router.outputs.file.rolling import Limits
from router.outputs.file.sender import Cuts, FileSender
from router.outputs.file.settings import FileSettings
from router.outputs.file.store import Store
from router.outputs.port import Stream

CLOSE_SECONDS = 5.0
"""Seconds that a stop waits for files to be finished; the next router finishes what remains."""


class FileOutput:
    """A `router.outputs.port.Output`."""

    def __init__(self, settings: FileSettings, *, now: Callable[[], datetime] = utc_now) -> None:
        """Raises ConfigurationError, and ModuleNotFoundError when a library is not installed."""
        self._timeout = settings.timeout.total_seconds()
        self._form = Form(settings)
        limits = Limits(settings.roll_size, settings.roll_time)
        self._store = self._stored(settings, limits)
        self._roller = Roller(self._store, self._form, limits, now=now, ending=settings.ending)
        self._cuts = Cuts()

    def _stored(self, settings: FileSettings, limits: Limits) -> Store:
        def complete() -> None:
            self._roller.wake()

        if settings.root is None:
            from router.outputs.file.blob.store import BlobStore  # Azure's client is slow to import

            return BlobStore.of(settings, limits=limits, complete=complete)
        return LocalStore(
            Path(settings.root), ending=settings.ending, limits=limits, durably=settings.fsync, complete=complete
        )

    def sender(self, stream: Stream) -> FileSender:
        return FileSender(
            self._store, stream.destination, self._form, self._roller, timeout=self._timeout, cuts=self._cuts
        )

    def provision(
        self, streams: Sequence[Stream], *, how: Provision, stop: threading.Event | None = None
    ) -> Collection[str]:
        """Folders are made with their first file, so there is one place for all streams."""
        if how != "none":
            try:
                in_time(self._timeout, lambda: self._store.provide(how), stop=stop, name="file")
            except TimeoutError as error:
                raise TransientError(f"looking at {self._store.where}: {error}") from error
        return ()

    def findings(self, streams: Sequence[Stream], *, provision: Provision) -> Iterator[Finding]:
        try:
            yield from in_time(self._timeout, lambda: list(self._store.findings(provision)), name="file")
        except TimeoutError as error:
            raise TransientError(f"looking at {self._store.where}: {error}") from error

    def cut_calls(self) -> None:
        self._cuts.count += 1

    def close(self) -> None:
        self.cut_calls()
        self._roller.stop(CLOSE_SECONDS)
        self._store.close()
