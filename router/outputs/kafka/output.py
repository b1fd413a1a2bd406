"""Topics of Kafka as an output: what its senders share, and what a start and a check ask of the cluster."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Sequence

from common.bus.ports import OpenableSender, Provision
from common.check import Finding
from common.errors import EntityUnavailable
from router.outputs.kafka.admin import Admin
from router.outputs.kafka.configuration import of_client, of_producer
from router.outputs.kafka.link import Link, masked
from router.outputs.kafka.links import Links
from router.outputs.kafka.provision import findings, provision
from router.outputs.kafka.records import ByRow, KeyOf, by_session
from router.outputs.kafka.sender import KafkaSender, Shared
from router.outputs.kafka.settings import KafkaOutputSettings
from router.outputs.port import Stream


class KafkaOutput:
    """A `router.outputs.port.Output`."""

    def __init__(self, settings: KafkaOutputSettings, *, proven: bool = False) -> None:
        """Raises ConfigurationError for an environment variable that is not set."""
        mask, seconds = masked(settings.secrets), settings.timeout.total_seconds()
        self._settings = settings
        self._admin = Admin(lambda: of_client(settings), mask, seconds, proven)
        self._links = Links(lambda: Link(of_producer(settings), mask))
        self._shared = Shared(self._links, self._admin, seconds, mask, settings.compression != "none", proven)
        self.where = settings.where

    def __repr__(self) -> str:
        return f"KafkaOutput({self.where!r})"

    def sender(self, stream: Stream) -> OpenableSender:
        return KafkaSender(stream.destination, self._shared, self._key_of(stream))

    def _key_of(self, stream: Stream) -> KeyOf:
        if self._settings.key == "session":
            return by_session
        columns = None if stream.table is None else self._settings.key_of(stream.table)
        if columns is None:
            return _Keyless(stream)
        return ByRow(columns, self._settings.envelope, wrapped=self._settings.cloudevents_mode == "structured")

    def provision(
        self, streams: Sequence[Stream], *, how: Provision, stop: threading.Event | None = None
    ) -> Collection[str]:
        return provision(self._admin, self._settings, streams, how=how, stop=stop)

    def findings(self, streams: Sequence[Stream], *, provision: Provision) -> Iterator[Finding]:
        return findings(self._admin, self._settings, streams, provision=provision)

    def cut_calls(self) -> None:
        self._links.cut()
        self._admin.cut()

    def close(self) -> None:
        """The library's threads end by themselves."""
        self.cut_calls()


class _Keyless:
    """Of a table that the setting `keys` does not name: nothing may be sent, because a record without the row's key would be compacted away."""

    def __init__(self, stream: Stream) -> None:
        self._name = stream.topic if stream.table is None else str(stream.table)

    def __call__(self, message: object, before: object) -> bytes | None:
        raise EntityUnavailable(
            f'sending changes of {self._name}: key = "row", and keys does not name the table',
            hint=f'add it to keys of this output, for example keys = {{ "{self._name}" = ["ID"] }}',
        )
