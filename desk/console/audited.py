"""The desk as the console offers it: every change is allowed, counted and written down here, whether it comes over HTTP or gRPC.

A change is a call of a port with an `actor` that is no dry run. Nothing that merely looks is written down, and none of it is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import structlog
from pydantic import BaseModel

from common.errors import ConfigurationError, DStreamError, unforeseen
from common.observability import logs
from desk.console.brief import brief, text
from desk.console.limits import Limits, network_of
from desk.console.refusals import AuditUnavailable, GivenUp, NotAllowed
from desk.desk import Actor, Audit, Configuring, Conflict, DeadLetters, Desk, NotFound, SnapshotChange, Tables
from desk.documents.configuring import Configuration, Edit, Output, OutputOrder, Source, SourceOrder
from desk.documents.messages import DeadLetterCounts, DeadLetterOrder, DeadLetterResult, Operation
from desk.documents.tables import (
    Move,
    OffsetOrder,
    OffsetResult,
    PauseOrder,
    Snapshot,
    SnapshotAnswer,
    SnapshotOrder,
    Table,
)
from desk.patience import given_up

T = TypeVar("T")

_SETTING = re.compile(r"\b(?:ingester|router|publisher)(?:\.\w+)+")

log = structlog.get_logger(__name__)

_REFUSED = (ConfigurationError, Conflict, NotFound)
"""What a port says of a request that cannot be done; anything else is a failure."""


@dataclass(frozen=True, slots=True)
class Keeper:
    """Lets a change through, or not, and writes down which."""

    audit: Audit
    limits: Limits
    allow_changes: bool

    def change(
        self,
        actor: Actor,
        action: str,
        target: str,
        act: Callable[[], T],
        *,
        dry_run: bool = False,
        reason: str | None = None,
        goes_on: bool = False,
        **details: Any,
    ) -> T:
        """What `act` returns. `goes_on`: in the background, and what came of it is written there. Raises NotAllowed, TooMany or
        AuditUnavailable: then it was not called."""
        self.limits.changes.take(actor.who if actor.address is None else f"{actor.who} at {network_of(actor.address)}")
        if dry_run:
            return act()
        if not self.allow_changes:
            self._begin(actor, action, target, "refused", reason, {**details, "why": "the console is read-only"})
            raise NotAllowed("the console is read-only", hint="start it with --allow-changes")
        self._begin(actor, action, target, "begun", reason, details)
        try:
            if given_up():
                raise GivenUp("given up before it was begun: its caller had no answer in time", hint="ask again")
            result = act()
        except BaseException as error:
            outcome = "refused" if isinstance(error, _REFUSED) else "failed"
            self._end(actor, action, target, outcome, reason, {"why": _why(action, error)[:2000], **_late()})
            raise
        if goes_on:
            return result
        outcome, found = judged(result)
        self._end(actor, action, target, outcome, reason, {**found, **_late()})
        return result

    def _write(
        self, actor: Actor, action: str, target: str, outcome: Any, reason: str | None, details: dict[str, Any]
    ) -> None:
        self.audit.write(
            actor,
            action,
            text(target, 600),
            outcome,
            reason=None if reason is None else text(reason, 1000),
            **brief(details),
        )

    def _begin(
        self, actor: Actor, action: str, target: str, outcome: Any, reason: str | None, details: dict[str, Any]
    ) -> None:
        try:
            self._write(actor, action, target, outcome, reason, details)
        except DStreamError as error:
            raise AuditUnavailable(
                f"the audit log cannot be written, so nothing was changed: {error.message}", hint=error.hint
            ) from error

    def _end(
        self, actor: Actor, action: str, target: str, outcome: Any, reason: str | None, details: dict[str, Any]
    ) -> None:
        """The change is made, or not; a person must learn of it even if the log cannot."""
        try:
            self._write(actor, action, target, outcome, reason, details)
        except DStreamError as error:
            log.error(
                "end of a change not written to the audit log",
                request=actor.request,
                who=actor.who,
                action=action,
                target=target[:600],
                outcome=outcome,
                error=error.message,
                hint=error.hint or "make the audit file writable again; its line with `begun` is kept",
            )


def _late() -> dict[str, str]:
    """Of a change that its caller may not know to be over."""
    return {"late": "its caller had no answer in time"} if given_up() else {}


def judged(result: object) -> tuple[str, dict[str, Any]]:
    """The outcome of a change that raised nothing, and what to write down of it."""
    if isinstance(result, OffsetResult):
        found = {"begun": result.begun, "to": result.to, "lacking": [each.option for each in result.lacking]}
        return ("done" if result.moved else "refused"), found
    if isinstance(result, SnapshotAnswer | Snapshot):
        return "done", {"snapshot": result.id}
    if isinstance(result, Edit):
        return "done", {"revision": result.revision}
    return "done", {}


def _said(order: BaseModel) -> dict[str, Any]:
    """An order as the audit log keeps it: what was given, without what is written down anyway."""
    return order.model_dump(mode="json", exclude_defaults=True, exclude={"reason", "dry_run", "settings"})


def _why(action: str, error: BaseException) -> str:
    """Of an edit only the kind of error and the settings: what was asked for, and what the file has, may hold secrets."""
    if not isinstance(error, DStreamError):
        return unforeseen(error)
    if isinstance(error, GivenUp) or action.partition(".")[0] not in ("source", "output", "configuration"):
        return logs.masked(error.message)
    return " ".join([type(error).__name__, *dict.fromkeys(_SETTING.findall(error.message))])


def _route(given: dict[str, Any]) -> str:
    """Where changes go from now on. Not the condition, which may have values of rows."""
    return logs.masked("; ".join(f"{name}: {given[name]}" for name in ("from", "to", "topic") if name in given))[:600]


@dataclass(frozen=True, slots=True)
class AuditedTables:
    inner: Tables
    keeper: Keeper

    def pause(self, name: str, order: PauseOrder, actor: Actor) -> Table:
        return self.keeper.change(
            actor, "table.pause", name, lambda: self.inner.pause(name, order, actor), reason=order.reason
        )

    def resume(self, name: str, order: PauseOrder, actor: Actor) -> Table:
        return self.keeper.change(
            actor, "table.resume", name, lambda: self.inner.resume(name, order, actor), reason=order.reason
        )

    def move_offset(self, name: str, order: OffsetOrder, actor: Actor) -> OffsetResult:
        return self.keeper.change(
            actor,
            "offset.move",
            name,
            lambda: self.inner.move_offset(name, order, actor),
            dry_run=order.dry_run,
            reason=order.reason,
            order=_said(order),
        )

    def moves(self, name: str | None, most: int) -> Sequence[Move]:
        return self.inner.moves(name, most)

    def snapshots(self, name: str | None, most: int) -> Sequence[Snapshot]:
        return self.inner.snapshots(name, most)

    def snapshot(self, order: SnapshotOrder, actor: Actor) -> SnapshotAnswer:
        return self.keeper.change(
            actor,
            "snapshot.start",
            order.table,
            lambda: self.inner.snapshot(order, actor),
            dry_run=order.dry_run,
            reason=order.reason,
            order=_said(order),
        )

    def change_snapshot(self, id: str, change: SnapshotChange, actor: Actor) -> Snapshot:
        return self.keeper.change(
            actor, f"snapshot.{change}", id, lambda: self.inner.change_snapshot(id, change, actor)
        )


@dataclass(frozen=True, slots=True)
class AuditedDeadLetters:
    inner: DeadLetters
    keeper: Keeper

    def counts(self) -> DeadLetterCounts:
        return self.inner.counts()

    def plan(self, order: DeadLetterOrder) -> DeadLetterResult:
        return self.inner.plan(order)

    def replay(self, order: DeadLetterOrder, actor: Actor) -> Operation:
        return self._operate("replay", order, actor, lambda: self.inner.replay(order, actor))

    def purge(self, order: DeadLetterOrder, actor: Actor) -> Operation:
        return self._operate("purge", order, actor, lambda: self.inner.purge(order, actor))

    def _operate(self, kind: str, order: DeadLetterOrder, actor: Actor, act: Callable[[], Operation]) -> Operation:
        said = _said(order)
        if "filter" in said:
            said["filter"] = order.filter.written()
        chosen = said.get("sequences")
        if chosen is not None and len(chosen) > 100:
            said["sequences"] = [*chosen[:100], f"and {len(chosen) - 100} more"]
        return self.keeper.change(
            actor,
            f"dead_letters.{kind}",
            order.entity,
            act,
            dry_run=order.dry_run,
            reason=order.reason,
            goes_on=True,
            order=said,
        )

    def operations(self) -> Sequence[Operation]:
        return self.inner.operations()

    def operation(self, id: str) -> Operation:
        return self.inner.operation(id)

    def stop(self, id: str, actor: Actor) -> Operation:
        return self.keeper.change(actor, "operation.stop", id, lambda: self.inner.stop(id, actor))


@dataclass(frozen=True, slots=True)
class AuditedConfiguring:
    inner: Configuring
    keeper: Keeper

    def configuration(self) -> Configuration:
        return self.inner.configuration()

    def sources(self) -> Sequence[Source]:
        return self.inner.sources()

    def outputs(self) -> Sequence[Output]:
        return self.inner.outputs()

    def put_source(self, order: SourceOrder, revision: str | None, actor: Actor, *, new: bool) -> Edit:
        return self.keeper.change(
            actor,
            "source.add" if new else "source.change",
            order.name,
            lambda: self.inner.put_source(order, revision, actor, new=new),
            dry_run=order.dry_run,
            reason=order.reason,
            settings=sorted(order.settings),
            removed=sorted(name for name, value in order.settings.items() if value is None),
        )

    def remove_source(
        self, name: str, revision: str | None, actor: Actor, *, dry_run: bool, reason: str | None = None
    ) -> Edit:
        return self.keeper.change(
            actor,
            "source.remove",
            name,
            lambda: self.inner.remove_source(name, revision, actor, dry_run=dry_run, reason=reason),
            dry_run=dry_run,
            reason=reason,
        )

    def put_output(self, order: OutputOrder, revision: str | None, actor: Actor, *, new: bool) -> Edit:
        return self.keeper.change(
            actor,
            "output.add" if new else "output.change",
            order.name,
            lambda: self.inner.put_output(order, revision, actor, new=new),
            dry_run=order.dry_run,
            reason=order.reason,
            type=order.type,
            settings=sorted(order.settings),
            removed=sorted(name for name, value in order.settings.items() if value is None),
            routes=None if order.routes is None else [_route(each) for each in order.routes],
        )

    def remove_output(
        self, name: str, revision: str | None, actor: Actor, *, dry_run: bool, reason: str | None = None
    ) -> Edit:
        return self.keeper.change(
            actor,
            "output.remove",
            name,
            lambda: self.inner.remove_output(name, revision, actor, dry_run=dry_run, reason=reason),
            dry_run=dry_run,
            reason=reason,
        )

    def undo(self, revision: str | None, actor: Actor, *, dry_run: bool, reason: str | None = None) -> Edit:
        return self.keeper.change(
            actor,
            "configuration.undo",
            "configuration",
            lambda: self.inner.undo(revision, actor, dry_run=dry_run, reason=reason),
            dry_run=dry_run,
            reason=reason,
        )


def audited(desk: Desk, *, allow_changes: bool, limits: Limits) -> Desk:
    """All ways to `desk` that change something go through one keeper."""
    keeper = Keeper(desk.audit, limits, allow_changes)
    return replace(
        desk,
        tables=AuditedTables(desk.tables, keeper),
        dead_letters=AuditedDeadLetters(desk.dead_letters, keeper),
        configuring=AuditedConfiguring(desk.configuring, keeper),
    )
