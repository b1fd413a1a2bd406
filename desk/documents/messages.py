"""Messages of queues and subscriptions, their dead letters, and the way of a change."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, StrictBool, StringConstraints

from desk.documents.shape import Document, Reason, Time, Unknown

EntityName = Annotated[str, StringConstraints(max_length=600)]
Text = Annotated[str, StringConstraints(max_length=300)]
SequenceNumber = Annotated[int, Field(ge=0, le=2**63 - 1)]


class MessageFilter(Document):
    """Each that is given must hold."""

    table: Text | None = Field(default=None, description="`dbo.Persons` or `Persons`, in any case.")
    operation: Text | None = Field(default=None, description="`Insert`, `Update`, `Delete`, `Read`, ...")
    event_id: Text | None = None
    message_id: Text | None = None
    session_id: Text | None = None
    reason: Text | None = Field(default=None, description="Of dead letters: their reason, such as `MessageTooLarge`.")
    since: Time | None = Field(default=None, description="Put into the entity at this time or later.")
    until: Time | None = Field(default=None, description="Put into the entity before this time.")
    text: Text | None = Field(default=None, description="Somewhere in the body.")

    def written(self) -> dict[str, Any]:
        """As the audit log keeps it: of `text`, which may be a value of a row, only how long it is."""
        said = self.model_dump(mode="json", exclude_none=True)
        if self.text is not None:
            said["text"] = f"{len(self.text)} characters"
        return said


class Message(Document):
    """A message as it lies in an entity. Looking at it takes nothing and locks nothing."""

    entity: str
    dead: bool
    sequence: int = Field(description="Its sequence number in the entity.")
    message_id: str | None = None
    session_id: str | None = None
    event_id: str | None = None
    table: str | None = None
    operation: str | None = None
    lsn: str | None = None
    commit_time: str | None = None
    enqueued_at: str | None = None
    state: Literal["active", "deferred", "scheduled"] = Field(
        default="active", description="`deferred`: its receiver put it off, and takes it by its sequence number alone."
    )
    delivery_count: int = 0
    size: int = Field(description="Bytes of the body.")
    changes: int = Field(default=1, description="How many changes a pack holds.")
    destination: str | None = None
    reason: str | None = Field(default=None, description="Of a dead letter.")
    description: str | None = Field(default=None, description="Of a dead letter.")
    replays: int = Field(default=0, description="How often it was replayed.")


class MessageDetail(Message):
    properties: dict[str, Any]
    body: str | None = Field(default=None, description="As text; null if it is not text, or larger than `body_limit`.")
    body_limit: int
    fault: str | None = Field(default=None, description="Why it is not what was sent.")
    remedy: str | None = Field(default=None, description="Of a dead letter: what to do about its reason.")
    packed: list[Message] = Field(default_factory=list, description="Of a pack: the changes in it, in their order.")


class MessagePage(Document):
    """`examined`: how many messages were looked at. With a filter a page ends early when that took long: go on with `next`."""

    items: list[Message]
    next: str | None = None
    examined: int
    unknown: list[Unknown] = Field(default_factory=list)


class DeadLetterCount(Document):
    """Dead letters of an entity, by reason, as far as they were looked at."""

    entity: str
    total: int | None = None
    reasons: dict[str, int] = Field(default_factory=dict)
    tables: dict[str, int] = Field(default_factory=dict)
    examined: int = 0


class DeadLetterCounts(Document):
    """Entities that have dead letters, on one page. One that is among `unknown` may have some, too."""

    items: list[DeadLetterCount]
    next: str | None = None
    total: int
    unknown: list[Unknown] = Field(default_factory=list)


class DeadLetterOrder(Document):
    """Which dead letters of one entity, and how."""

    entity: EntityName
    filter: MessageFilter = Field(default_factory=MessageFilter)
    sequences: list[SequenceNumber] | None = Field(
        default=None, max_length=10_000, description="These only, by sequence number."
    )
    dry_run: StrictBool = True
    safe: StrictBool = Field(
        default=True, description="Leave a dead letter where a newer change of its row was sent, or may have been."
    )
    most_replays: int = Field(default=3, ge=1, le=100, description="Leave a dead letter that was replayed so often.")
    unreadable: StrictBool = Field(
        default=False, description="Send also what the router could not read, and would set aside again."
    )
    reason: Reason | None = None


class LeftOut(Document):
    sequence: int
    message_id: str | None = None
    why: str


class DeadLetterResult(Document):
    """`left`: the first of those that were left where they are, and why."""

    entity: str
    dry_run: bool
    matched: int
    replayed: int = 0
    purged: int = 0
    left_count: int = 0
    left: list[LeftOut] = Field(default_factory=list)
    doubtful: int = Field(
        default=0,
        description="Sent, and perhaps sent before: an earlier run was killed longer ago than duplicates are detected.",
    )
    warnings: list[str] = Field(default_factory=list)
    complete: bool = Field(description="Whether all dead letters were looked at.")


class Operation(Document):
    """Something that takes its time."""

    id: str
    kind: Literal["replay", "purge"]
    entity: str
    state: Literal["running", "done", "failed", "stopped"]
    begun_at: str
    ended_at: str | None = None
    examined: int = 0
    done: int = 0
    result: DeadLetterResult | None = None
    error: str | None = None
    remedy: str | None = None


class StoryOrder(Document):
    """A change by its `event_id`, or the changes of a row by `table` and `key` (the key's columns with their values as text)."""

    event_id: Text | None = None
    table: Text | None = None
    key: dict[str, str] | None = Field(default=None, max_length=32)
    most: int = Field(default=20, ge=1, le=200)


class Step(Document):
    """A place on the way of a change: the transaction, capture, the ingester, the queue, the router, a topic."""

    place: Literal["commit", "change_table", "ingester", "queue", "router", "topic", "subscription", "dead_letter"]
    state: Literal["passed", "here", "waiting", "not_yet", "never", "unknown"]
    at: str | None = None
    after_seconds: float | None = Field(default=None, description="Since the commit.")
    what: str = Field(description="In words.")
    entity: str | None = None
    sequence: int | None = None


class Story(Document):
    """The way of one change. `verdict`: in a word why it is where it is."""

    event_id: str | None = None
    table: str
    operation: str | None = None
    lsn: str | None = None
    verdict: Literal[
        "delivered",
        "waiting",
        "queued",
        "filtered",
        "skipped",
        "before_offset",
        "gap",
        "poison",
        "paused",
        "not_captured",
        "no_trace",
        "unknown",
    ]
    why: str
    remedy: str | None = None
    steps: list[Step]
    unknown: list[Unknown] = Field(default_factory=list)


class Stories(Document):
    items: list[Story]
    more: bool = False
