"""Makes the publishers of one output: of the streams that the configuration names, and of those that turn up later.

`router/publishing/further.py` has the rules for the latter. It names no adapter: the caller passes senders, and a function that creates a place.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from functools import partial

from common.bus.place import names_table
from common.bus.ports import OpenableSender
from common.bus.settings import OutputSettings
from common.bus.throttling import ThrottleLog
from common.errors import DStreamError, PermanentError
from common.message import Message
from common.names import TableName
from router.outputs.places import stream_of
from router.outputs.port import Stream
from router.publishing.further import Further
from router.publishing.publisher import Publisher
from router.publishing.publishers import Publishers
from router.publishing.refusals import Refusals
from router.routes import named_table
from router.routing.table import parts_of_key
from router.settings import RouterSettings
from router.spots import spot
from router.tally import Tally


class Topics:
    """Makes the publishers of one output in a process, which share the state of its server."""

    def __init__(
        self,
        settings: RouterSettings,
        output: OutputSettings,
        streams: Mapping[str, Stream],
        sender: Callable[[Stream], OpenableSender],
        provide: Callable[[Stream], object],
        further: Further,
        tally: Tally,
        refusals: Refusals | None = None,
    ) -> None:
        """`streams`: those that the configuration names, by their keys (`router.routing.table.key_of`). `provide` creates or checks a place,
        depending on the configuration."""
        self._settings = settings
        self._output = output
        self._sender = sender
        self._provide = provide
        self._further = further
        self._tally = tally
        self._refusals = refusals or Refusals()
        self._throttling = ThrottleLog()
        # With several outputs each says its name, the default one as well.
        self._output_told = {"output": output.name} if len(settings.streams) > 1 else {}
        self._streams = dict(streams)
        self._guard = threading.Lock()
        self._taken = {stream.destination: stream.topic for stream in streams.values()}

    def publishers(self) -> Publishers:
        """The publishers of all configured streams; further ones are made when a message for them comes."""
        settings = self._settings
        return Publishers(
            (self._configured(key, stream) for key, stream in self._streams.items()),
            further=self._made if self._further.any else None,
            never={settings.queue_name.lower(): "it is the ingest queue"},
            elsewhere=self._further.elsewhere,
            expected=self._further.expected,
            grace=settings.unknown_grace.total_seconds(),
            tally=self._tally,
            output=self._output.name,
            told=self._output_told,
        )

    def _configured(self, key: str, stream: Stream) -> Publisher:
        """A topic that was deleted while the router runs is created again only if any unknown topic would be."""
        return self._publisher(key, stream, provide_again=self._further.creates)

    def _made(self, key: str, message: Message) -> Publisher:
        """The publisher of a stream that turned up. Raises as `Further.way`, and PermanentError for a place that another stream has."""
        topic, place = parts_of_key(key)
        way = self._further.way(topic, message)
        table = None if way.kind == "side" else self._table(topic, message)
        stream = stream_of(self._output, self._settings.origin, topic, table, instead=place)
        self._take(stream, place or self._output.destination_template)
        if way.kind == "configured":
            return self._publisher(key, stream, provide_first=True, missing=way.missing)
        if way.kind == "side" and self._output.is_default:
            return self._publisher(key, stream, provide=lambda: None)
        publisher = self._opened(key, stream)
        if way.kind == "created":
            self._further.created(topic)
        return publisher

    def _table(self, topic: str, message: Message) -> TableName | None:
        """As the message spells it; else as its topic does. None of a topic that no table has: its place is its own name."""
        table, origin = named_table(message), self._settings.origin
        if origin is None:
            return None
        if table is not None and origin.topic(table) == topic:
            return table
        return self._settings.topics.get(topic) or origin.table_of(topic)

    def _take(self, stream: Stream, template: str) -> None:
        if not names_table(template) and stream.table is not None:
            return
        with self._guard:
            other = self._taken.setdefault(stream.destination, stream.topic)
        if other != stream.topic:
            raise PermanentError(
                f"{stream.topic} would go to {stream.destination}, which {other} has",
                hint=f"add {{schema}} or {{topic}} to {self._output.place_setting} of the output {self._output.name}, and restart",
            )

    def _opened(self, key: str, stream: Stream) -> Publisher:
        self._provide(stream)
        publisher = self._publisher(key, stream)
        try:
            publisher.open()
        except DStreamError:
            publisher.close()
            raise
        return publisher

    def _publisher(
        self,
        key: str,
        stream: Stream,
        *,
        provide: Callable[[], object] | None = None,
        provide_first: bool = False,
        provide_again: bool = True,
        missing: str | None = None,
    ) -> Publisher:
        return Publisher(
            key,
            self._sender(stream),
            provide=provide or partial(self._provide, stream),
            provide_first=provide_first,
            provide_again=provide_again,
            missing=missing,
            throttling=self._throttling,
            tally=self._tally,
            label=spot(key, self._output.name),
            told=self._told(stream),
            refused=self._refusals.of(self._output, key),
        )

    def _told(self, stream: Stream) -> Mapping[str, str]:
        """What the log says of a publisher besides its topic."""
        output = self._output_told
        return output if stream.destination == stream.topic else {**output, "place": stream.destination}
