"""Troubles of everything but tables: stores that could not be read, capture, processes, entities. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from desk.documents.overview import Entity, Process, Trouble
from desk.watching.entities import DEFAULT, path_of
from desk.watching.scraping import Scraped
from desk.watching.seen import Seen

_FILLING, _NEARLY_FULL = 0.5, 0.9
_EXPECTED = ("locks of type", "changes are not counted", "it does not exist yet")
"""How texts begin of what cannot be known here, and is no trouble."""
_READINESS = (
    ("the connection to SQL Server is lost", "DStreamSqlServerUnreachable"),
    ("SQL Server", "DStreamSqlServerUnreachable"),
    ("the queue refuses", "DStreamQueueRefuses"),
    ("nothing can be sent to the queue", "DStreamQueueRefuses"),
)
"""How the text of a readiness begins, and the alert that reports the same."""
_PORTS = {"ingester": 8080, "router": 8081}
_LOGIN = "login refused"
"""A cause that each part of the database reports, and the readiness of an ingester: it is one trouble."""
_OF_TABLES = "stopped with an error"
"""A readiness that tables report by themselves."""


def troubles(seen: Seen) -> Iterator[Trouble]:
    yield from _of_capture(seen)
    yield from _of_processes(seen)
    yield from _of_outputs(seen)
    yield from _of_subscriptions(seen)
    if seen.queue is not None:
        yield from _of_entity(seen.queue, "DStreamDeadLettersWait")
    for entity in seen.entities:
        yield from _of_entity(entity, None)
    yield from _of_storage(seen)
    yield from _of_unread(seen)


def _of_unread(seen: Seen) -> Iterator[Trouble]:
    refused = [each for each in seen.unread if _LOGIN in each.why]
    if refused:
        yield Trouble(
            severity="critical",
            what="SQL Server refuses the login",
            cause=refused[0].why,
            remedy=refused[0].hint,
            alert="DStreamSqlServerUnreachable",
        )
    for each in seen.unread:
        if each.why.startswith(_EXPECTED) or each in refused:
            continue
        database = each.what in ("offsets", "tables")
        yield Trouble(
            severity="critical" if database else "warning",
            what=f"{each.what} unknown",
            cause=each.why,
            remedy=each.hint,
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


def _of_processes(seen: Seen) -> Iterator[Trouble]:
    waiting = 0 if seen.queue is None else seen.queue.active or 0
    routers = [each for each in seen.processes if each.process.stage == "router"]
    if seen.scrapes and waiting and not routers:
        yield Trouble(
            severity="critical",
            what="router",
            cause=f"{waiting:,} messages wait in the queue, and no router is reached",
            remedy="start a router; if one runs, give this console the address of its health port (--scrape)",
            alert="DStreamRouterDown",
        )
    elif seen.queue_grows and waiting:
        yield Trouble(
            severity="warning",
            what="ingest queue",
            cause=f"it has grown for minutes: {waiting:,} messages wait",
            remedy="see whether a router runs and what its log says; otherwise give it more slots or workers",
            entity="queue",
            alert="DStreamQueueGrows",
        )
    gone = _gone(seen)
    for stage, lost in gone.items():
        yield _none_reached(stage, lost, waiting)
    for each in seen.processes:
        told = _LOGIN in (each.process.text or "") and any(_LOGIN in other.why for other in seen.unread)
        if each.process.stage not in gone and not told:
            yield from _of_process(each)
    for stage in seen.unwatched:
        yield Trouble(
            severity="warning",
            what=f"{stage} is not watched",
            cause=f"no health port of the {stage} is configured, so that nobody sees here whether it runs",
            remedy=f"add health {{ port = {_PORTS[stage]} }} to its block and restart it, or give this console its address (--scrape)",
        )


def _gone(seen: Seen) -> dict[str, list[Process]]:
    """Of each stage that has processes of which none is reached, all of them."""
    of: dict[str, list[Process]] = {}
    for each in seen.processes:
        of.setdefault(each.process.stage, []).append(each.process)
    of.pop("unknown", None)
    return {stage: found for stage, found in of.items() if not any(each.reached for each in found)}


def _none_reached(stage: str, lost: Sequence[Process], waiting: int) -> Trouble:
    why = lost[0].text or "its health port does not answer"
    stays = f"; {waiting:,} messages wait in the queue" if waiting and stage == "router" else ""
    return Trouble(
        severity="critical",
        what=f"no {stage} answers",
        cause=f"0 of {len(lost)} ready: {why}{stays}",
        remedy=f"start the {stage}; if one runs, correct the address of its health port (--scrape)",
        alert="DStreamRouterDown" if stage == "router" else "DStreamNotScraped",
    )


def _of_process(scraped: Scraped) -> Iterator[Trouble]:
    process = scraped.process
    who = process.address if process.stage == "unknown" else f"{process.stage} {process.address}"
    if not process.reached:
        yield Trouble(
            severity="warning",
            what=who,
            cause=process.text or "its health port does not answer",
            remedy="start it, or correct the address of its health port (--scrape)",
            alert="DStreamNotScraped",
        )
        return
    if process.alive is False:
        yield Trouble(
            severity="critical",
            what=who,
            cause="it hangs: /healthz is 503",
            remedy="restart it; an orchestrator does so by itself",
            alert="DStreamRestarts",
        )
    if process.ready is False and not (process.text or "").startswith(_OF_TABLES):
        cause = process.text or "/readyz is 503"
        alert = "DStreamIngesterNotReady" if process.stage == "ingester" else "DStreamRouterNotReady"
        alert = next((name for begin, name in _READINESS if cause.startswith(begin)), alert)
        yield Trouble(
            severity="critical" if process.stage == "ingester" else "warning",
            what=who,
            cause=cause,
            remedy="the line of its log at that time has the remedy",
            alert=alert,
        )
    if scraped.stopped:
        yield Trouble(
            severity="critical",
            what=who,
            cause=f"{scraped.stopped} sessions have stopped at poison messages",
            remedy="the router's log names the messages; correct the cause, and restart the router",
            alert="DStreamSessionsStopped",
        )


def _of_outputs(seen: Seen) -> Iterator[Trouble]:
    away = dict.fromkeys(place for each in seen.processes for place in each.away)
    for output, topic in away:
        named = f"topic {topic}" if topic else f"output {output}"
        yield Trouble(
            severity="critical",
            what=named if output == DEFAULT or not topic else f"{named} of the output {output}",
            cause="it accepts nothing; its changes wait in the queue",
            remedy="the router's log has a line with the cause and the remedy; see whether it exists, is enabled and has room",
            entity=path_of(output, topic) if topic else None,
            alert="DStreamTopicUnavailable",
        )
    behind: dict[str, int] = {}
    for each in seen.processes:
        for output, count in each.process.behind.items():
            behind[output] = behind.get(output, 0) + count
    for output, count in behind.items():
        yield Trouble(
            severity="warning",
            what=f"output {output}",
            cause=f"{count} sessions go on without it",
            remedy="see whether its server is up and how fast it is; what it misses stays in the queue",
            alert="DStreamOutputBehind",
        )


def _of_subscriptions(seen: Seen) -> Iterator[Trouble]:
    for each in seen.missing:
        yield Trouble(
            severity="critical",
            what=f"{each.topic}/{each.subscription}",
            cause=each.text if each.output == DEFAULT else f"output {each.output}: {each.text}",
            remedy=each.remedy,
            entity=path_of(each.output, each.topic, each.subscription),
        )


def _of_entity(entity: Entity, alert: str | None) -> Iterator[Trouble]:
    what = f"queue {entity.name}" if entity.kind == "queue" else f"{entity.name}/{entity.subscription or ''}"
    if entity.dead_letters:
        yield Trouble(
            severity="warning",
            what=what,
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
            what=what,
            cause=f"{entity.transfer_dead_letters:,} messages could not be forwarded",
            remedy="see whether the entity that it forwards to exists and has room",
            entity=entity.entity,
        )


def _of_storage(seen: Seen) -> Iterator[Trouble]:
    shares: dict[str, tuple[float, Entity]] = {}
    for entity in ([] if seen.queue is None else [seen.queue]) + list(seen.entities):
        if entity.used_share is not None:
            shares.setdefault(
                f"{'queue' if entity.kind == 'queue' else 'topic'} {entity.name}", (entity.used_share, entity)
            )
    for name, (share, entity) in shares.items():
        if share <= _FILLING:
            continue
        severity: Literal["warning", "critical"] = "critical" if share > _NEARLY_FULL else "warning"
        yield Trouble(
            severity=severity,
            what=name,
            cause=f"{share:.0%} of its storage is used",
            remedy="see why nobody reads it: an unread subscription fills its topic, an unavailable topic the queue",
            entity=entity.entity,
            alert="DStreamEntityNearlyFull" if severity == "critical" else "DStreamEntityFilling",
        )
