"""Whether a message is one that a person looks for. Pure."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from common.bus.browsing import Lying
from common.message import Message
from desk.documents.messages import MessageFilter
from desk.messages.facts import changes_of, facts_of

Chooses = Callable[[Lying], bool]


def chooses(chosen: MessageFilter) -> Chooses:
    """Of a pack, one of its changes is enough; all that is asked of a change must hold for the same one."""
    cheap, dear = list[Chooses](), list[Callable[[Message], bool]]()
    if (since := zoned(chosen.since)) is not None:
        cheap.append(lambda lying: lying.enqueued is not None and lying.enqueued >= since)
    if (until := zoned(chosen.until)) is not None:
        cheap.append(lambda lying: lying.enqueued is not None and lying.enqueued < until)
    if (reason := chosen.reason) is not None:
        cheap.append(lambda lying: (lying.reason or "").casefold() == reason.casefold())
    if (session := chosen.session_id) is not None:
        cheap.append(lambda lying: lying.message.session_id == session)
    if (text := chosen.text) is not None:
        octets = text.encode(errors="replace")
        cheap.append(lambda lying: octets in lying.message.body)
    if (message_id := chosen.message_id) is not None:
        cheap.append(lambda lying: message_id in [lying.message.message_id, *_ids(lying.message)])
    if (table := chosen.table) is not None:
        dear.append(lambda change: is_table(facts_of(change).table, table))
    if (operation := chosen.operation) is not None:
        dear.append(lambda change: (facts_of(change).operation or "").casefold() == operation.casefold())
    if (event_id := chosen.event_id) is not None:
        dear.append(lambda change: event_id in (change.message_id, facts_of(change).event_id))

    def fits(lying: Lying) -> bool:
        if not all(test(lying) for test in cheap):
            return False
        return not dear or any(all(test(change) for test in dear) for change in changes_of(lying.message))

    return fits


def is_table(found: str | None, asked: str) -> bool:
    """`asked`: with its schema or without, in any case."""
    if found is None:
        return False
    whole, wanted = found.casefold(), asked.strip().casefold()
    return wanted in (whole, whole.partition(".")[2])


def zoned(at: datetime | None) -> datetime | None:
    """A time without a zone is in UTC."""
    return at if at is None or at.tzinfo is not None else at.replace(tzinfo=UTC)


def _ids(message: Message) -> list[str | None]:
    changes = changes_of(message)
    return [] if changes[0] is message else [change.message_id for change in changes]
