"""Troubles of everything but tables: stores that could not be read, capture, subscriptions, entities; with those of processes. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from desk.documents.overview import Entity, Trouble
from desk.watching import troubles_of_processes
from desk.watching.entities import DEFAULT, path_of
from desk.watching.seen import Seen
from desk.watching.sentences import begun, listed

_FILLING, _NEARLY_FULL = 0.5, 0.9
_EXPECTED = ("locks of type", "it does not exist yet")
"""How texts begin of what cannot be known here, and is no trouble."""
_LOGIN = "login refused"
"""A cause that each part of the database reports: it is one trouble."""


def troubles(seen: Seen) -> Iterator[Trouble]:
    yield from _of_capture(seen)
    yield from troubles_of_processes.troubles(seen)
    yield from _of_subscriptions(seen)
    if seen.queue is not None:
        yield from _of_entity(seen.queue, "DStreamDeadLettersWait")
    for entity in seen.entities:
        yield from _of_entity(entity, None)
    yield from _of_storage(seen)
    yield from _of_unread(seen)


def _of_unread(seen: Seen) -> Iterator[Trouble]:
    """One for each cause: what is away makes many parts unreadable."""
    grouped: dict[tuple[str, str | None], list[str]] = {}
    refused = [each for each in seen.unread if _LOGIN in each.why]
    for each in seen.unread:
        if not each.note and not each.why.startswith(_EXPECTED) and each not in refused:
            grouped.setdefault((each.why, each.hint), []).append(each.what)
    if refused:
        yield Trouble(
            severity="critical",
            what="SQL Server refuses the login",
            cause=refused[0].why,
            remedy=refused[0].hint,
            alert="DStreamSqlServerUnreachable",
        )
    for (why, hint), parts in grouped.items():
        database = any(part in troubles_of_processes.DATABASE for part in parts)
        yield Trouble(
            severity="critical" if database else "warning",
            what=f"{begun(listed(parts))} cannot be read",
            cause=why,
            remedy=hint,
            alert="DStreamSqlServerUnreachable" if database else None,
        )


def _of_capture(seen: Seen) -> Iterator[Trouble]:
    if seen.capture is None:
        return
    state = seen.capture.state.value
    if state == "capture_stopped":
        yield Trouble(
            severity="critical",
            what="Capture has stopped",
            cause=seen.capture.text,
            remedy=seen.capture.hint,
            alert="DStreamCaptureStopped",
        )
    elif state == "capture_lagging":
        yield Trouble(
            severity="warning",
            what="Capture is late",
            cause=seen.capture.text,
            remedy=seen.capture.hint,
            alert="DStreamCaptureLagging",
        )


def _of_subscriptions(seen: Seen) -> Iterator[Trouble]:
    for each in seen.missing:
        yield Trouble(
            severity="critical",
            what=f"Topic {each.topic} has no subscription {each.subscription}",
            cause=each.text if each.output == DEFAULT else f"output {each.output}: {each.text}",
            remedy=each.remedy,
            entity=path_of(each.output, each.topic, each.subscription),
        )


def _of_entity(entity: Entity, alert: str | None) -> Iterator[Trouble]:
    where = f"queue {entity.name}" if entity.kind == "queue" else f"{entity.name}/{entity.subscription or ''}"
    if entity.dead_letters:
        yield Trouble(
            severity="warning",
            what=f"Dead letters wait in {where}",
            cause="1 dead letter waits for a person"
            if entity.dead_letters == 1
            else f"{entity.dead_letters:,} dead letters wait for a person",
            remedy="look at their reasons; correct the cause, and replay them",
            entity=entity.entity,
            alert=alert,
        )
    if entity.transfer_dead_letters:
        yield Trouble(
            severity="warning",
            what=f"Messages of {where} are not forwarded",
            cause=f"{entity.transfer_dead_letters:,} messages could not be forwarded",
            remedy="see whether the entity that it forwards to exists and has room",
            entity=entity.entity,
        )


def _of_storage(seen: Seen) -> Iterator[Trouble]:
    shares: dict[str, tuple[float, Entity]] = {}
    for entity in ([] if seen.queue is None else [seen.queue]) + list(seen.entities):
        if entity.used_share is not None:
            shares.setdefault(
                f"{'Queue' if entity.kind == 'queue' else 'Topic'} {entity.name}", (entity.used_share, entity)
            )
    for name, (share, entity) in shares.items():
        if share <= _FILLING:
            continue
        severity: Literal["warning", "critical"] = "critical" if share > _NEARLY_FULL else "warning"
        yield Trouble(
            severity=severity,
            what=f"{name} {'is nearly full' if severity == 'critical' else 'is filling up'}",
            cause=f"{share:.0%} of its storage is used",
            remedy="see why nobody reads it: an unread subscription fills its topic, an unavailable topic the queue",
            entity=entity.entity,
            alert="DStreamEntityNearlyFull" if severity == "critical" else "DStreamEntityFilling",
        )
