"""Settings that every type of bus or output has, and what else is asked of them.

`common/buses.py` has the types of buses that hold the ingest queue, `router/outputs/registry.py` those of outputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated, Any, ClassVar, Literal, cast

from pydantic import AfterValidator, Field, PlainValidator

from common.bus.packing import MOST
from common.bus.place import rendered, values_of
from common.bus.ports import Provision
from common.config.blocks import UNLABELLED, FromLabel
from common.config.durations import Duration, between
from common.config.settings import Settings
from common.names import Ordering, Origin, TableName, shortened


def _entity_name(text: str) -> str:
    if not text or len(text) > 260 or not all((c.isalnum() and c.isascii()) or c in "._-/" for c in text):
        raise ValueError("must be 1 to 260 of the characters A-Z a-z 0-9 . _ - /")
    if not (text[0].isalnum() and text[-1].isalnum()):
        raise ValueError("must begin and end with a letter or digit")
    return text


def _pack(value: Any) -> int | Literal["max"]:
    if value == "max" or (type(value) is int and 1 <= value <= MOST):
        return cast('int | Literal["max"]', value)
    raise ValueError(f'must be a whole number from 1 to {MOST}, or "max"')


EntityName = Annotated[str, AfterValidator(_entity_name)]
Pack = Annotated[int | Literal["max"], PlainValidator(_pack)]

DuplicateWindow = Annotated[Duration, between(timedelta(seconds=20), timedelta(days=7))]
"""What Service Bus accepts (https://learn.microsoft.com/azure/service-bus-messaging/duplicate-detection)."""


class BusSettings(Settings):
    """How to reach a bus."""

    type: str

    @property
    def where(self) -> str:
        """Its host, for a person. Raises ConfigurationError when an environment variable is not set."""
        raise NotImplementedError

    @property
    def by_key(self) -> bool:
        """Whether it signs in with a key, and not with the identity that the process runs under."""
        return False

    def out_of_reach(self, entities: Sequence[str], needed: str) -> tuple[str, str] | None:
        """The setting that does not give access to all of `entities`, and the complaint about it, in which `needed` stands before the first."""
        return None

    def unusable_file(self) -> tuple[str, str] | None:
        """The setting that names a file which cannot be used on this machine, and the complaint about it. Reads the file."""
        return None


EnvelopeName = Literal["dstream", "cloudevents", "debezium", "changes"]


class OutputSettings(BusSettings):
    """An output of the router: where changes go. Each type has a setting of its own for the place in it, a template of `common.bus.place`."""

    longest_place: ClassVar[int | None] = None
    """The most characters that a place may have; longer ones are shortened, so that no two are equal. None: no limit."""

    one_process: ClassVar[bool] = False
    """Whether only one process can write to it: the router then has one."""

    name: Annotated[str, FromLabel()] = UNLABELLED
    """The label of its block; the output without one is the default."""

    @property
    def is_default(self) -> bool:
        return self.name == UNLABELLED

    @property
    def enveloped(self) -> EnvelopedOutputSettings | None:
        """The same settings where each change is written as a document; None where it is applied, as a row of a table is."""
        return None

    @property
    def place_setting(self) -> str:
        """The name of the setting for the place."""
        return "topic"

    @property
    def destination_template(self) -> str:
        """The place, with names in braces for those of a table."""
        return str(getattr(self, self.place_setting))

    def escape(self, text: str) -> str:
        """A name as part of a place. One to one; see `common.names.escaped`."""
        return text

    def place(self, origin: Origin, topic: str, table: TableName | None, *, instead: str | None = None) -> str:
        """The place of a stream. `instead`: a template to be used instead of the block's own. Without a table it is named as the stream is."""
        if table is None:
            return self._at_most(self.escape(topic))
        names = {name: self.escape(value) for name, value in values_of(origin, topic, table).items()}
        return self._at_most(rendered(self.destination_template if instead is None else instead, names))

    def _at_most(self, place: str) -> str:
        return place if self.longest_place is None else shortened(place, self.longest_place)

    @property
    def needs_order(self) -> tuple[str, str] | None:
        """The setting that needs all changes of a table in one session (`queue.ordering`), and what is wrong where they are not."""
        return None

    @property
    def without_effect(self) -> Sequence[tuple[str, str]]:
        """Settings that were given and have no effect, each with the reason, which is also what to do."""
        return ()


class EnvelopedOutputSettings(OutputSettings):
    """An output that gets each change as a document, and how it is written. The ingest queue always holds DStream's own envelope."""

    envelope: EnvelopeName = Field(
        default="dstream",
        description=(
            "How changes are written on the topics: `dstream` (messages.md), `cloudevents`, `debezium` or `changes` (envelopes.md). Ids, sessions "
            "and application properties are the same with each. `dstream` is the default because it says all that DStream knows of a change, "
            "and costs nothing."
        ),
    )
    cloudevents_mode: Literal["structured", "binary"] = Field(
        default="structured",
        description=(
            'With `envelope = "cloudevents"`: `structured` (attributes and data in one JSON object) or `binary` (the body is the data, and the '
            "attributes are application properties). `structured` is the default because every CloudEvents library reads it."
        ),
    )
    tombstones: bool = Field(
        default=False,
        description=(
            'With `envelope = "debezium"`: a message without a body follows each delete, for a bridge to a compacted Kafka topic. It is off by '
            "default because other consumers must skip them."
        ),
    )

    @property
    def enveloped(self) -> EnvelopedOutputSettings:
        return self

    @property
    def without_effect(self) -> Sequence[tuple[str, str]]:
        other = {"cloudevents_mode": "cloudevents", "tombstones": "debezium"}
        hint = 'it is a setting of envelope = "{}", and the envelope here is "{}"; remove it, or change the envelope'
        return [
            (name, hint.format(of, self.envelope))
            for name, of in other.items()
            if name in self.model_fields_set and self.envelope != of
        ]


class QueueSettings(BusSettings):
    """The ingest queue: where the ingester sends and the router receives."""

    name: EntityName = Field(description="The queue's name, 1 to 260 characters.")
    ordering: Ordering = Field(
        default="table",
        description=(
            "What keeps its order: `table` (one session a table), `key` (a session a table and bucket of its primary key) or `none` "
            "(no sessions). `table` is the default because it promises most. The queue must have been created to match. With `key` and "
            "`none` several Spark tasks read a table that has a backlog; with `table` one does."
        ),
    )
    key_buckets: int = Field(
        default=64,
        ge=1,
        le=4096,
        description=(
            "Sessions a table when `ordering` is `key`; otherwise it has no effect. 64 is more than the sessions worked on at "
            "once, and few enough to be cheap. Change it only while the queue is empty: rows move to other sessions."
        ),
    )
    pack: Pack = Field(
        default=1,
        description=(
            'Changes of one session in one message of the queue: 1 to 500, or `"max"`: as many as fit (at most 500). The router unpacks them; '
            "topics always get single messages. More than 1 saves queue operations, see cost.md, and only the router can read it. "
            "Update routers before the ingester: a router that does not know packs dead-letters them. 1 is the default because every reader of the "
            "queue understands it."
        ),
    )
    duplicate_window: DuplicateWindow = Field(
        default=timedelta(minutes=10),
        description=(
            "How long a queue that DStream creates remembers message ids, `20s` to `168h`: a change that is sent again within it is "
            "dropped. `10m` covers a failover; a longer window covers a longer outage between two sends, and costs throughput. An existing queue "
            "keeps its own."
        ),
    )
    provision: Provision = Field(
        default="create",
        description=(
            "What to do with the queue at start: `create` it when missing, `verify` that it exists and fits, or `none` "
            "(no management call, no Manage right). The default is `create`, so that a first start works."
        ),
    )

    @property
    def most_packed(self) -> int:
        """`pack` as a number of changes."""
        return MOST if self.pack == "max" else self.pack
