"""Tables, their offsets and their snapshots."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, StrictBool

from desk.documents.shape import Document, Reason, Time

TableState = Literal["flowing", "idle", "behind", "paused", "stopped", "gap", "absent", "nobody", "unknown"]
"""`flowing`: changes wait, for less than a minute, or were sent in the last minute. `idle`: nothing waits, and nothing was sent lately, as far as
an ingester's metrics are read. `behind`: changes wait for longer than a minute. `stopped`: an ingester reports an error of this table. `nobody`:
no ingester has its lock. `unknown`: it could not be read, or not for two looks;
its lag is then null, and its offset the last that was known."""


class Lag(Document):
    seconds: float = Field(description="Since the oldest change that waits was committed; 0 if none waits.")
    changes: int = Field(description="Changes that are captured and not sent.")
    at_least: bool = Field(description="Whether there may be more; they were not counted.")


class Offset(Document):
    position: str = Field(description="In words.")
    lsn: str | None = None
    committed_at: str | None = None
    updated_at: str | None = None


class Pause(Document):
    at: str = Field(description="When, in UTC.")
    by: str = Field(description="Who asked for it: login and machine.")
    reason: str | None = None


class TableSnapshot(Document):
    id: str
    state: Literal["waiting", "running", "paused", "failed", "stopped", "done"]
    rows: int


class Table(Document):
    """A table as the stores know it. No stage has to run."""

    table: str
    state: TableState
    lock: Literal["held", "free", "unknown"]
    owner: str | None = Field(default=None, description="The ingester that claimed it last.")
    epoch: int | None = None
    offset: Offset | None = Field(default=None, description="Null before the first start.")
    lag: Lag | None = None
    headroom_seconds: float | None = Field(default=None, description="Until cleanup reaches the offset.")
    retention_seconds: float | None = Field(default=None, description="How long the server keeps changes.")
    capture_instance: str | None = None
    topic: str | None = Field(default=None, description="Where its changes go.")
    problem: str | None = Field(default=None, description="Why it cannot be read, with what to do.")
    pause: Pause | None = None
    snapshot: TableSnapshot | None = None
    changes_per_second: float | None = Field(
        default=None, description="Sent in the last minute, where an ingester's metrics can be read."
    )


class TableOffset(Document):
    """How far a table was sent, and how long that is enough."""

    table: str
    offset: Offset | None = None
    lag: Lag | None = None
    headroom_seconds: float | None = None


class Point(Document):
    at: float = Field(description="Unix time in seconds.")
    value: float | None = Field(default=None, description="Null: not known at that time.")


class History(Document):
    """Of the last hour, one point each ten seconds; only what this console has seen since its start."""

    table: str | None = Field(default=None, description="Null: all tables together.")
    lag_seconds: list[Point]
    changes_per_second: list[Point]
    queue_messages: list[Point] = Field(default_factory=list, description="Of all tables together only.")


class Move(Document):
    """An offset that somebody moved."""

    table: str
    at: str
    login: str
    host: str | None = None
    begun: str | None = None
    to: str
    reason: str | None = None


class OffsetOrder(Document):
    """Exactly one of `lsn`, `time`, `earliest` and `latest`."""

    lsn: str | None = Field(default=None, max_length=64)
    time: Time | None = Field(default=None, description="To before the first commit at this time; UTC without a zone.")
    earliest: StrictBool = False
    latest: StrictBool = False
    take: StrictBool = Field(default=False, description="Even if an ingester reads the table now.")
    skip: StrictBool = Field(default=False, description="Even if changes will never be sent.")
    dry_run: StrictBool = Field(default=True, description="Show what it would mean, and change nothing.")
    reason: Reason | None = None


class Needed(Document):
    option: Literal["take", "skip"]
    why: str


class OffsetResult(Document):
    """What a move means. `lacking`: the confirmations without which it is not made."""

    table: str
    moved: bool
    dry_run: bool
    begun: str | None = None
    to: str
    again: str | None = Field(default=None, description="Which changes are sent again.")
    skipped: str | None = Field(default=None, description="Which changes are never sent.")
    lost: str | None = Field(default=None, description="Which changes are lost already.")
    needs: list[Needed]
    lacking: list[Needed]


class PauseOrder(Document):
    reason: Reason | None = None


class Snapshot(Document):
    id: str
    table: str
    state: Literal["waiting", "running", "paused", "failed", "stopped", "done"]
    rows: int
    about: int | None = Field(default=None, description="About how many rows the table has now.")
    where: str | None = None
    topic: str | None = None
    asked_at: str
    asked_by: str | None = None
    begun_at: str | None = None
    updated_at: str | None = None
    owner: str | None = None
    error: str | None = None


class SnapshotOrder(Document):
    table: str = Field(max_length=300)
    where: str | None = Field(default=None, max_length=4000, description="A condition in T-SQL, as in WHERE.")
    topic: str | None = Field(default=None, max_length=260, description="Where it goes instead of the table's topic.")
    dry_run: StrictBool = True
    reason: Reason | None = None


class SnapshotAnswer(Document):
    table: str
    dry_run: bool
    rows: int | None = Field(default=None, description="About how many it would read.")
    id: str | None = Field(default=None, description="Null for a dry run.")
    ahead: int = Field(description="How many snapshots of the table run or wait.")
    topic: str | None = None
    remarks: list[str] = Field(default_factory=list)
