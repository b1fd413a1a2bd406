"""Topics or queues of a Service Bus namespace as an output: a `common.bus.ports.Bus` behind the port of outputs. Decides nothing about messages."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

from common.bus.ports import Bus, Need, OpenableSender, Provision, QueueNeed, TopicNeed
from common.check import Finding
from router.outputs.around import Around
from router.outputs.azure_service_bus.settings import ServiceBusOutput
from router.outputs.port import Stream


@dataclass(frozen=True, slots=True)
class BusOutput:
    """A `router.outputs.port.Output`. `bus`: for what only a bus has, such as side topics and subscriptions."""

    bus: Bus
    settings: ServiceBusOutput
    around: Around = field(default_factory=Around)

    def sender(self, stream: Stream) -> OpenableSender:
        return self.bus.sender(stream.destination)

    def provision(
        self, streams: Sequence[Stream], *, how: Provision, stop: threading.Event | None = None
    ) -> Collection[str]:
        late = set(self.bus.entities.provision(self._needs(streams), how=how, stop=stop))
        return [stream.topic for stream in streams if stream.destination in late]

    def _needs(self, streams: Sequence[Stream]) -> Sequence[Need]:
        places, around = dict.fromkeys(stream.destination for stream in streams), self.around
        if self.settings.of_queues:
            return [QueueNeed(place, around.ordering != "none", around.duplicate_window) for place in places]
        return [TopicNeed(place, around.subscriptions, around.duplicate_window) for place in places]

    def findings(self, streams: Sequence[Stream], *, provision: Provision) -> Iterator[Finding]:
        places = list(dict.fromkeys(stream.destination for stream in streams))
        if not self.settings.of_queues:
            ingest = self.around.ingest_queue()
            yield from self.bus.entities.topic_findings(
                places, subscriptions=self.around.subscriptions, provision=provision, queue=ingest
            )
            return
        for place in places:
            yield from self.bus.entities.queue_findings(
                place, sessions=self.around.ordering != "none", provision=provision, sends=True
            )

    def cut_calls(self) -> None:
        self.bus.cut_calls()

    def close(self) -> None:
        self.bus.close()
