"""Elasticsearch or OpenSearch behind the port of outputs. Decides nothing about documents."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Sequence
from functools import partial

from common.bus.ports import OpenableSender, Provision
from common.check import Finding
from router.outputs.elasticsearch.bulk import Place
from router.outputs.elasticsearch.client import Client
from router.outputs.elasticsearch.operations import Maker, appended_chunk, rows_chunk
from router.outputs.elasticsearch.provision import Provisioner
from router.outputs.elasticsearch.remarks import Remarks
from router.outputs.elasticsearch.sender import ElasticsearchSender
from router.outputs.elasticsearch.settings import ElasticsearchSettings
from router.outputs.port import Stream
from router.outputs.rows.keys import Keys


class ElasticsearchOutput:
    """A `router.outputs.port.Output`."""

    def __init__(self, settings: ElasticsearchSettings) -> None:
        """Raises ConfigurationError for a file that cannot be used."""
        self._settings = settings
        self._client = Client(settings)
        self._provisioner = Provisioner(self._client, settings)
        self._remarks = Remarks(settings.name)
        self._make: Maker = appended_chunk
        if settings.mode == "rows":
            self._make = partial(rows_chunk, keys=Keys(settings.keys), deletes=settings.deletes)

    def sender(self, stream: Stream) -> OpenableSender:
        place = Place(self._client, stream.destination)
        return ElasticsearchSender(place, self._make, seconds=self._settings.seconds, remarks=self._remarks)

    def provision(
        self, streams: Sequence[Stream], *, how: Provision, stop: threading.Event | None = None
    ) -> Collection[str]:
        return self._provisioner.provision(streams, how=how, stop=stop)

    def findings(self, streams: Sequence[Stream], *, provision: Provision) -> Iterator[Finding]:
        return self._provisioner.findings(streams, provision=provision)

    def cut_calls(self) -> None:
        self._client.cut()

    def close(self) -> None:
        self._client.close()
