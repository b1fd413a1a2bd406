"""Tables of a PostgreSQL database as an output. Decides nothing about rows."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TypeVar

import psycopg

from common.bus.ports import OpenableSender, Provision
from common.check import Finding
from common.errors import Stopped
from router.outputs.port import Stream
from router.outputs.postgres import check
from router.outputs.postgres.connections import Connections, Timed
from router.outputs.postgres.errors import translated
from router.outputs.postgres.places import tables_of
from router.outputs.postgres.provision import provide
from router.outputs.postgres.sender import PostgresSender
from router.outputs.postgres.settings import PostgresSettings

_T = TypeVar("_T")


class PostgresOutput:
    """A `router.outputs.port.Output`. Its senders share a few connections."""

    def __init__(self, settings: PostgresSettings) -> None:
        self.settings = settings
        self._connections = Connections(settings)

    def __repr__(self) -> str:
        return f"<PostgresOutput {self.settings.name} at {self.settings.where}>"

    def sender(self, stream: Stream) -> OpenableSender:
        return PostgresSender(stream, self.settings, self._connections)

    def provision(
        self, streams: Sequence[Stream], *, how: Provision, stop: threading.Event | None = None
    ) -> Collection[str]:
        """Nothing is late here: what cannot be made now is an error."""
        if how == "none":
            return ()
        if stop is not None and stop.is_set():
            raise Stopped("asked to stop")
        places = tables_of(streams)
        self._call("providing tables", lambda connection: provide(connection, self.settings, places, how))
        return ()

    def findings(self, streams: Sequence[Stream], *, provision: Provision) -> Iterator[Finding]:
        places = tables_of(streams)
        yield from self._call(
            "looking at the tables",
            lambda connection: list(check.findings(connection, self.settings, places, provision)),
        )

    def cut_calls(self) -> None:
        self._connections.cut()

    def close(self) -> None:
        self._connections.close()

    def _call(self, doing: str, work: Callable[[Timed], _T]) -> _T:
        doing = f"{doing} at {self.settings.where}"
        try:
            with self._connections.one(time.monotonic() + self.settings.timeout.total_seconds()) as connection:
                return work(connection)
        except psycopg.Error as error:
            raise translated(error, doing, "the database", self.settings.user) from error
