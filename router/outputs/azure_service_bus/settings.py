"""The settings of the output `azure_service_bus`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from pydantic import Field

from common.bus.place import SharedPlaceTemplate
from common.bus.settings import EnvelopedOutputSettings
from common.config.settings import Location
from common.names import TOPIC_LIMIT, Origin, TableName, escape_for_topics
from common.servicebus.settings import ServiceBusSettings

OWN = "{topic}"
"""The name that DStream gives to the topic of a table."""


class ServiceBusOutput(ServiceBusSettings, EnvelopedOutputSettings):
    """Topics or queues of a Service Bus namespace."""

    longest_place: ClassVar[int | None] = TOPIC_LIMIT

    topic: SharedPlaceTemplate = Field(
        default=OWN,
        description=(
            "The topic of each table, a template: `{topic}` (`SERVER.DATABASE.SCHEMA.TABLE.events` in lower case), `{server}`, `{database}`, "
            "`{schema}`, `{table}`. Without any of them all tables share one topic. The default is `{topic}`, the name that DStream gives."
        ),
    )
    queue: SharedPlaceTemplate | None = Field(
        default=None,
        description=(
            "Queues instead of topics: the queue of each table, a template as `topic` is, or one queue for all tables. It must not be the ingest "
            "queue. None, the default: topics."
        ),
    )

    @classmethod
    def conflicts(cls, given: Mapping[str, Any]) -> Iterator[tuple[Location, str]]:
        yield from super().conflicts(given)
        if given.get("queue") is not None and given.get("topic", OWN) != OWN:
            yield ("queue",), "is given as well as topic; give only one of them"

    @property
    def place_setting(self) -> str:
        return "topic" if self.queue is None else "queue"

    @property
    def of_queues(self) -> bool:
        """Whether changes go to queues."""
        return self.queue is not None

    def escape(self, text: str) -> str:
        return escape_for_topics(text)

    def place(self, origin: Origin, topic: str, table: TableName | None, *, instead: str | None = None) -> str:
        """A stream's own name is one of Service Bus already."""
        template = self.destination_template if instead is None else instead
        return topic if table is None or template == OWN else super().place(origin, topic, table, instead=instead)
