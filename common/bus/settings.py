"""Settings that every type of bus has, and what else is asked of its settings. `common/buses.py` has the types."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated, Any, Literal, cast

from pydantic import AfterValidator, Field, PlainValidator

from common.bus.packing import MOST
from common.bus.ports import Provision
from common.config.durations import Duration, between
from common.config.settings import Settings
from common.names import Ordering


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
    """The bus of the topics, and how a change is written there. The ingest queue always holds DStream's own envelope."""

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
    def without_effect(self) -> Sequence[tuple[str, str]]:
        """Settings that were given and have no effect with this envelope, each with the envelope that has it."""
        other = {"cloudevents_mode": "cloudevents", "tombstones": "debezium"}
        return [(name, of) for name, of in other.items() if name in self.model_fields_set and self.envelope != of]


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
