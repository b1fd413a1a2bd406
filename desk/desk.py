"""Ports: what the desk can do. The page, the HTTP API and gRPC see only this module and `documents/`; `console/wiring.py` chooses what is behind it.

Every method may be called from any thread, takes seconds at most unless it says otherwise, and raises DStreamError: ConfigurationError for a
request that cannot be right, NotFound for something that does not exist, Conflict for something that is not as the request supposes,
TransientError and PermanentError for what a store answers. Nobody asks here whether a change is allowed: see `console/guard.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from common.errors import PermanentError
from desk.documents.audit import AuditLine
from desk.documents.configuring import Configuration, Edit, Output, OutputOrder, Source, SourceOrder
from desk.documents.messages import (
    DeadLetterCounts,
    DeadLetterOrder,
    DeadLetterResult,
    MessageDetail,
    MessageFilter,
    MessagePage,
    Operation,
    Stories,
    StoryOrder,
)
from desk.documents.overview import Entity, Overview, Unacknowledged
from desk.documents.shape import Page
from desk.documents.tables import (
    History,
    Move,
    OffsetOrder,
    OffsetResult,
    PauseOrder,
    Snapshot,
    SnapshotAnswer,
    SnapshotOrder,
    Table,
)

SnapshotChange = Literal["pause", "resume", "stop"]


class NotFound(PermanentError):
    """There is no such table, entity, message, snapshot, output or operation."""


class Conflict(PermanentError):
    """It is not (or no longer) as the request supposes: another edit came first, the snapshot is over, a confirmation is lacking."""


@dataclass(frozen=True, slots=True)
class Actor:
    """Who asks. `request`: an id that all lines of one request share."""

    who: str
    through: Literal["command", "page", "http", "grpc"]
    request: str
    address: str | None = None


class Audit(Protocol):
    """The log of changes, which cannot be switched off: a change begins only when its line is kept."""

    def write(
        self,
        actor: Actor,
        action: str,
        target: str,
        outcome: Literal["begun", "done", "refused", "failed"],
        *,
        reason: str | None = None,
        **details: Any,
    ) -> None:
        """Return when the line is on the disk. Raises PermanentError when it cannot be kept: then nothing may be changed."""
        ...

    def lines(self, *, after: str | None, most: int) -> Page[AuditLine]:
        """The newest first."""
        ...


class Watching(Protocol):
    """What this console has seen lately: it looks every few seconds, whoever asks, so that a request costs the stores nothing."""

    def overview(self) -> Overview: ...

    def tables(self) -> Sequence[Table]:
        """All, in the order of the configuration."""
        ...

    def table(self, name: str) -> Table:
        """In any case. Raises NotFound."""
        ...

    def history(self, table: str | None) -> History:
        """Raises NotFound."""
        ...

    def entities(self) -> Sequence[Entity]: ...

    def unacknowledged(self) -> Sequence[Unacknowledged]: ...

    def changed(self, since: int, *, wait: float) -> int:
        """The number of the newest look, as soon as it is higher than `since`, or after `wait` seconds."""
        ...


class Tables(Protocol):
    """What can be done to tables. `actor` is written down with each."""

    def pause(self, name: str, order: PauseOrder, actor: Actor) -> Table:
        """Raises Conflict if it is paused already."""
        ...

    def resume(self, name: str, order: PauseOrder, actor: Actor) -> Table:
        """Raises Conflict if it is not paused."""
        ...

    def move_offset(self, name: str, order: OffsetOrder, actor: Actor) -> OffsetResult:
        """Without `dry_run` it is moved if no confirmation is lacking."""
        ...

    def moves(self, name: str | None, most: int) -> Sequence[Move]: ...

    def snapshots(self, name: str | None, most: int) -> Sequence[Snapshot]: ...

    def snapshot(self, order: SnapshotOrder, actor: Actor) -> SnapshotAnswer: ...

    def change_snapshot(self, id: str, change: SnapshotChange, actor: Actor) -> Snapshot:
        """Raises NotFound or Conflict."""
        ...


class Messages(Protocol):
    """The explorer. `entity` is a name as in `Entity.entity`; see `messages/places.py`."""

    def page(
        self,
        entity: str,
        *,
        dead: bool,
        chosen: MessageFilter,
        after: str | None,
        most: int,
        newest_first: bool = False,
    ) -> MessagePage:
        """In the order of sequence numbers. Looks for two seconds at most, and says with `next` where to go on."""
        ...

    def message(self, entity: str, *, dead: bool, sequence: int) -> MessageDetail: ...

    def stories(self, order: StoryOrder) -> Stories: ...


class DeadLetters(Protocol):
    """Dead letters are looked at with `Messages`. A replay and a purge run in the background, one an entity at a time.

    The audit log's line before it is kept by who calls; the line after it, with the number of the same request, is written at its end."""

    def counts(self) -> DeadLetterCounts:
        """Counted at most a minute ago. An entity that could not be looked at is among `unknown`."""
        ...

    def plan(self, order: DeadLetterOrder) -> DeadLetterResult:
        """What `replay` would do, for what was looked at within ten seconds; nothing is changed."""
        ...

    def replay(self, order: DeadLetterOrder, actor: Actor) -> Operation:
        """Raises Conflict if an operation of this entity runs."""
        ...

    def purge(self, order: DeadLetterOrder, actor: Actor) -> Operation: ...

    def operations(self) -> Sequence[Operation]:
        """The newest first; those of this process."""
        ...

    def operation(self, id: str) -> Operation: ...

    def stop(self, id: str, actor: Actor) -> Operation:
        """What is in flight is finished; what was not begun stays where it is."""
        ...


class Configuring(Protocol):
    """The configuration file, or the ConfigMap. `revision`: of the configuration that the person saw; Conflict if it is another now."""

    def configuration(self) -> Configuration: ...

    def sources(self) -> Sequence[Source]: ...

    def outputs(self) -> Sequence[Output]: ...

    def put_source(self, order: SourceOrder, revision: str | None, actor: Actor, *, new: bool) -> Edit: ...

    def remove_source(
        self, name: str, revision: str | None, actor: Actor, *, dry_run: bool, reason: str | None = None
    ) -> Edit: ...

    def put_output(self, order: OutputOrder, revision: str | None, actor: Actor, *, new: bool) -> Edit: ...

    def remove_output(
        self, name: str, revision: str | None, actor: Actor, *, dry_run: bool, reason: str | None = None
    ) -> Edit: ...

    def undo(self, revision: str | None, actor: Actor, *, dry_run: bool, reason: str | None = None) -> Edit:
        """Take the last change back."""
        ...


@dataclass(frozen=True, slots=True)
class Desk:
    """All of it."""

    watching: Watching
    tables: Tables
    messages: Messages
    dead_letters: DeadLetters
    configuring: Configuring
    audit: Audit
