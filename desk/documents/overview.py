"""The whole at a glance: what is wrong, what waits where, which processes run."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from desk.documents.shape import Document, Unknown


class Trouble(Document):
    """Something that a person should look at."""

    severity: Literal["warning", "critical"]
    what: str = Field(description="What is wrong, in a sentence.")
    cause: str
    remedy: str | None = None
    since: str | None = Field(default=None, description="When this console saw it first, in UTC.")
    table: str | None = None
    entity: str | None = Field(default=None, description="An entity, as `entity` of the explorer.")
    alert: str | None = Field(default=None, description="The alert that reports the same once it has lasted.")
    alert_after_seconds: int | None = Field(default=None, description="How long it lasts until that alert fires.")


class Entity(Document):
    """A queue, or a subscription of a topic, or a topic without one."""

    entity: str = Field(
        description="`queue`, `topic/NAME`, `topic/NAME/SUBSCRIPTION`, or `queue/NAME` (of an output of queues); behind `output/LABEL/` for a "
        "further output."
    )
    kind: Literal["queue", "topic", "subscription"]
    name: str
    subscription: str | None = None
    active: int | None = None
    dead_letters: int | None = None
    scheduled: int | None = None
    transfer_dead_letters: int | None = None
    used_share: float | None = Field(default=None, description="Of its storage, from 0 to 1.")


class Process(Document):
    """An ingester or a router whose health port this console reads."""

    address: str
    stage: Literal["ingester", "router", "unknown"]
    reached: bool
    ready: bool | None = None
    alive: bool | None = None
    text: str | None = Field(default=None, description="What `/readyz` says is wrong, or why it is not reached.")
    sessions: int | None = Field(default=None, description="Of a router: sessions in work.")
    parked: int | None = None
    behind: dict[str, int] = Field(
        default_factory=dict, description="Of a router: sessions that go on without an output, by output."
    )
    tables: int | None = Field(default=None, description="Of an ingester: tables that it reads.")
    slots: int | None = None
    slots_busy: int | None = None
    memory_bytes: int | None = None


class Owner(Document):
    owner: str
    tables: int


class Overview(Document):
    at: str
    version: str
    complete: bool = Field(description="Whether everything could be read.")
    changes_allowed: bool = Field(description="Whether this console may change anything.")
    server: str
    database: str
    namespace: str
    tables: int
    states: dict[str, int] = Field(description="How many tables are in each state.")
    worst_lag_seconds: float | None = None
    worst_headroom_seconds: float | None = None
    changes_waiting: int | None = None
    changes_per_second: float | None = None
    queue: Entity | None = None
    dead_letters: int | None = None
    owners: list[Owner]
    processes: list[Process]
    troubles: list[Trouble]
    unknown: list[Unknown]


class Unacknowledged(Document):
    """What was sent and has not arrived: `queued` waits for the router, `unread` for the subscribers."""

    table: str | None = None
    queued: int | None = None
    unread: int | None = None
    topic: str | None = None


class Topic(Document):
    """A topic with the tables whose changes go there. `entities`: its subscriptions, or the topic itself where it has none."""

    topic: str
    tables: list[str] = Field(default_factory=list)
    entities: list[Entity] = Field(default_factory=list)
