"""Troubles of ingesters and routers, and of what routers say of their outputs. Each cause is one trouble, whoever reports it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from desk.documents.overview import Process, Trouble
from desk.watching.entities import DEFAULT, path_of
from desk.watching.scraping import Scraped
from desk.watching.seen import Seen
from desk.watching.sentences import begun

_READINESS = (
    ("the connection to SQL Server is lost", "DStreamSqlServerUnreachable", "has lost SQL Server"),
    ("SQL Server", "DStreamSqlServerUnreachable", "has no answer of SQL Server"),
    ("the queue refuses", "DStreamQueueRefuses", "is refused by the queue"),
    ("nothing can be sent to the queue", "DStreamQueueRefuses", "cannot send to the queue"),
)
"""How the text of a readiness begins, the alert that reports the same, and how its title goes on."""
_PORTS = {"ingester": 8080, "router": 8081}
_LOGIN = "login refused"
DATABASE = ("offsets", "tables")
"""Parts of a look that no ingester works without."""
_OF_TABLES = "stopped with an error"
"""A readiness that tables report by themselves."""
_UNAVAILABLE = re.compile(r"(?:topic (\S+)(?: of output (\S+))?|output (\S+)) is unavailable: (.*)")
_MORE_TOPICS = re.compile(r"and \d+ more topics")
_TITLES = (
    (re.compile(r"does not exist"), "{} does not exist"),
    (re.compile(r"disabled", re.IGNORECASE), "{} is disabled"),
    (re.compile(r"maximum entity size|is full|quota", re.IGNORECASE), "{} is full"),
    (re.compile(r"is refused|unauthorized", re.IGNORECASE), "{} refuses this sender"),
)
"""Words of a cause, and the sentence about its topic or output."""


def troubles(seen: Seen) -> Iterator[Trouble]:
    yield from _of_stages(seen)
    yield from _of_outputs(seen)


def _of_stages(seen: Seen) -> Iterator[Trouble]:
    waiting = 0 if seen.queue is None else seen.queue.active or 0
    routers = [each for each in seen.processes if each.process.stage == "router"]
    if seen.scrapes and waiting and not routers:
        yield Trouble(
            severity="critical",
            what="No router is reached",
            cause=f"{waiting:,} messages wait in the queue, and no router is reached",
            remedy="start a router; if one runs, give this console the address of its health port (--scrape)",
            alert="DStreamRouterDown",
        )
    elif seen.queue_grows and waiting:
        yield Trouble(
            severity="warning",
            what="The ingest queue grows",
            cause=f"it has grown for minutes: {waiting:,} messages wait",
            remedy="see whether a router runs and what its log says; otherwise give it more slots or workers",
            entity="queue",
            alert="DStreamQueueGrows",
        )
    gone = _gone(seen)
    for stage, lost in gone.items():
        yield _none_reached(stage, lost, waiting)
    for each in seen.processes:
        if each.process.stage not in gone:
            yield from _of_process(each, seen)
    for stage in seen.unwatched:
        yield Trouble(
            severity="warning",
            what=f"The {stage} is not watched",
            cause=f"no health port of the {stage} is configured, so that nobody sees here whether it runs",
            remedy=f"add health {{ port = {_PORTS[stage]} }} to its block and restart it, or give this console its address (--scrape)",
        )


def _gone(seen: Seen) -> dict[str, list[Scraped]]:
    """Of each stage that has processes of which none is reached, all of them."""
    of: dict[str, list[Scraped]] = {}
    for each in seen.processes:
        of.setdefault(each.process.stage, []).append(each)
    of.pop("unknown", None)
    return {stage: found for stage, found in of.items() if not any(each.process.reached for each in found)}


def _none_reached(stage: str, lost: Sequence[Scraped], waiting: int) -> Trouble:
    why = lost[0].process.text or "its health port does not answer"
    stays = f"; {waiting:,} messages wait in the queue" if waiting and stage == "router" else ""
    alert = "DStreamRouterDown" if stage == "router" else "DStreamNotScraped"
    if any(each.starting for each in lost):
        return Trouble(
            severity="warning",
            what=f"No {stage} answers yet",
            cause=f"this console has just begun, and has not reached one: {why}{stays}",
            remedy=f"nothing, if the {stage} starts now; else start it, or correct the address of its health port (--scrape)",
            alert=alert,
        )
    return Trouble(
        severity="critical",
        what=f"No {stage} answers",
        cause=f"0 of {len(lost)} ready: {why}{stays}",
        remedy=f"start the {stage}; if one runs, correct the address of its health port (--scrape)",
        alert=alert,
    )


def _of_process(scraped: Scraped, seen: Seen) -> Iterator[Trouble]:
    process = scraped.process
    who = process.address if process.stage == "unknown" else f"The {process.stage} {process.address}"
    if not process.reached:
        yield Trouble(
            severity="warning",
            what=f"{who} does not answer",
            cause=process.text or "its health port does not answer",
            remedy="start it, or correct the address of its health port (--scrape)",
            alert="DStreamNotScraped",
        )
        return
    if process.alive is False:
        yield Trouble(
            severity="critical",
            what=f"{who} hangs",
            cause="it hangs: /healthz is 503",
            remedy="restart it; an orchestrator does so by itself",
            alert="DStreamRestarts",
        )
    yield from _of_readiness(scraped, who, seen)
    if scraped.stopped:
        yield Trouble(
            severity="critical",
            what=f"{who} has stopped at poison messages",
            cause=f"{scraped.stopped} sessions have stopped at poison messages",
            remedy="the router's log names the messages; correct the cause, and restart the router",
            alert="DStreamSessionsStopped",
        )


def _of_readiness(scraped: Scraped, who: str, seen: Seen) -> Iterator[Trouble]:
    process = scraped.process
    cause = _untold(process, seen)
    if process.ready is not False or cause is None:
        return
    if scraped.starting:
        yield Trouble(
            severity="warning",
            what=f"{who} is starting",
            cause=cause,
            remedy="nothing, if it is ready within some minutes; else its log says what it waits for",
            alert=_not_ready(process),
        )
        return
    named = next(((alert, title) for begin, alert, title in _READINESS if cause.startswith(begin)), None)
    alert, title = named or (_not_ready(process), "is not ready")
    yield Trouble(
        severity="critical" if process.stage == "ingester" else "warning",
        what=f"{who} {title}",
        cause=cause,
        remedy="the line of its log at that time has the remedy",
        alert=alert,
    )


def _not_ready(process: Process) -> str:
    return "DStreamIngesterNotReady" if process.stage == "ingester" else "DStreamRouterNotReady"


def _untold(process: Process, seen: Seen) -> str | None:
    """What its readiness says that no other trouble does."""
    text = process.text or ""
    if text.startswith(_OF_TABLES):
        return None
    told = [each.why for each in seen.unread if each.what in DATABASE or _LOGIN in each.why]
    if any(why in text or (_LOGIN in text and _LOGIN in why) for why in told):
        return None
    left = [line for line in text.splitlines() if not (_UNAVAILABLE.match(line) or _MORE_TOPICS.fullmatch(line))]
    return "\n".join(left) or (None if text else "/readyz is 503")


def _of_outputs(seen: Seen) -> Iterator[Trouble]:
    away: dict[tuple[str, str], str | None] = {place: None for each in seen.processes for place in each.away}
    for each in seen.processes:
        away |= _causes(each.process.text or "")
    for (output, topic), why in away.items():
        named = f"topic {topic}" if topic else f"output {output}"
        name = begun(named if output == DEFAULT or not topic else f"{named} of the output {output}")
        title = next((text for words, text in _TITLES if why is not None and words.search(why)), "{} accepts nothing")
        yield Trouble(
            severity="critical",
            what=title.format(name),
            cause="it accepts nothing; its changes wait in the queue"
            if why is None
            else f"{why}; its changes wait in the queue",
            remedy="the router's log has a line with the cause and the remedy; see whether it exists, is enabled and has room"
            if why is None
            else "correct that; the router tries again by itself",
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
            what=f"Output {output} is behind",
            cause=f"{count} sessions go on without it",
            remedy="see whether its server is up and how fast it is; what it misses stays in the queue",
            alert="DStreamOutputBehind",
        )


def _causes(text: str) -> dict[tuple[str, str], str | None]:
    """By output and topic, as a router's readiness has them."""
    found = [match.groups() for line in text.splitlines() if (match := _UNAVAILABLE.match(line))]
    return {(output or whole or DEFAULT, topic or ""): why for topic, output, whole, why in found}
