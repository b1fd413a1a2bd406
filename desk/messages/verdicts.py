"""What a trail means: where a change is, why, what to do, and the steps of its way. Pure.

A message that a subscriber has completed leaves no trace anywhere, and neither does one that the router has delivered, beyond the topic. So
`delivered` is concluded: the offset is past the change, and it lies neither in the queue nor among its dead letters. Where that could not be looked
at completely, the verdict is `unknown`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from desk.documents.messages import Step, Story
from desk.messages.facts import facts_of, instant
from desk.messages.remedies import remedy
from desk.messages.searching import Sighting
from desk.messages.trail import Trail
from ingester.operating.finding import Treated

Verdict = Literal[
    "delivered", "waiting", "queued", "filtered", "skipped", "before_offset", "gap", "poison", "paused", "not_captured", "no_trace", "unknown"
]  # fmt: skip

_EVENTS = {
    "read": "a row that a snapshot read is in no change table",
    "gap": "an event about a gap is in no change table",
    "schema": "an event about columns is in no change table",
    "transaction": "an event about a transaction is in no change table",
}
_CONSUMED = "a message that its subscriber has completed leaves no trace"
_BY_EVENT_ID = "compare the EventID with that of a message: database.schema.table:LSN-command-sequence-operation"


@dataclass(frozen=True, slots=True)
class _Judged:
    verdict: Verdict
    why: str
    remedy: str | None = None


def story(trail: Trail) -> Story:
    judged = _seen(trail) or _unseen(trail)
    operation = trail.captured.operation if trail.captured is not None else _operation(trail)
    return Story(
        event_id=trail.event_id,
        table=trail.table,
        operation=operation,
        lsn=trail.lsn,
        verdict=judged.verdict,
        why=judged.why,
        remedy=judged.remedy,
        steps=steps(trail, judged.verdict),
        unknown=[*trail.unknown, *trail.bus.unknown],
    )


def _operation(trail: Trail) -> str | None:
    for each in _sightings(trail):
        return facts_of(each.lying.message).operation
    return None


def _sightings(trail: Trail) -> list[Sighting]:
    bus = trail.bus
    return [each for each in (bus.queue, bus.dead, *bus.subscriptions, *bus.dead_there) if each is not None]


def _seen(trail: Trail) -> _Judged | None:
    """Where it lies decides, whatever the change tables and the settings say by now."""
    bus = trail.bus
    if (dead := bus.dead) is not None:
        return _poison(dead, "the queue's dead letters")
    if bus.dead_there:
        return _poison(bus.dead_there[0], f"the dead letters of {bus.dead_there[0].place.entity}")
    if bus.queue is not None:
        return _queued(bus.queue)
    if bus.subscriptions:
        where = ", ".join(each.place.entity for each in bus.subscriptions)
        return _Judged(
            "delivered",
            f"it was delivered, and waits for its subscriber in {where}",
            "start the subscriber, if it does not run",
        )
    return None


def _poison(found: Sighting, where: str) -> _Judged:
    reason = found.lying.reason or "no reason"
    described = f": {found.lying.description}" if found.lying.description else ""
    return _Judged(
        "poison", f"it is in {where}, with the reason {reason}{described}"[:2_000], remedy(found.lying.reason)
    )


def _queued(found: Sighting) -> _Judged:
    if found.lying.state == "deferred":
        return _Judged(
            "queued", "it was put off in the queue (deferred)", "receive it by its sequence number, or remove it"
        )
    count = found.lying.delivery_count
    tried = f"; a router has taken it {count} times and not completed it" if count > 1 else ""
    return _Judged(
        "queued",
        f"it was sent to the queue and waits there for the router{tried}",
        "look whether routers run, and whether its topic accepts messages: /readyz of a router says why sessions are parked",
    )


def _unseen(trail: Trail) -> _Judged:
    if trail.kind is None:
        return _Judged(
            "no_trace", "no configured table has changes with this id, and no message with it was found", _BY_EVENT_ID
        )
    if trail.kind != "change":
        return _Judged(
            "no_trace",
            f"{_EVENTS[trail.kind]}, and no message with this id waits anywhere; if it was delivered, {_CONSUMED}",
        )
    look = trail.look
    if look is None:
        return _Judged("unknown", "SQL Server could not be asked about it", "look at what is unknown below")
    if look.absence is not None:
        return _Judged("not_captured", look.absence)
    if look.dropped:
        return _Judged("gap", "its table was dropped and created again since the offset was stored: unread changes of the former one are lost",
                       "see \"When changes were lost\" in docs/fail.md")  # fmt: skip
    if trail.captured is None:
        return _gone(trail)
    return _kept(trail)


def _gone(trail: Trail) -> _Judged:
    """It is not in the change table."""
    if trail.ahead:
        return _Judged(
            "waiting",
            "capture has not come as far as this LSN: no change was captured there yet",
            "see whether capture runs",
        )
    if not trail.removed:
        return _Judged(
            "no_trace", "its table's change table reaches back to its LSN, and has no such change", _BY_EVENT_ID
        )
    if trail.sent is False:
        return _Judged(
            "gap",
            "cleanup has removed it from its change table before it was read: the offset is before it, and the change tables begin behind it",
            'see "When changes were lost" in docs/fail.md; raise the retention of the cleanup job',
        )
    if trail.moved is not None:
        return _moved(trail)
    if trail.sent is None:
        return _Judged(
            "no_trace", "it is older than what the change tables have, and the table has no offset: it was never read"
        )
    return _Judged(
        "no_trace",
        "it is older than what the change tables have; the offset is past it, and no message with its id waits: it was delivered, left out by "
        f"the table's shape or the routes, or lost to a gap that was skipped. {_CONSUMED[0].upper()}{_CONSUMED[1:]}",
    )


def _kept(trail: Trail) -> _Judged:
    captured = trail.captured
    assert captured is not None
    if captured.treated is Treated.FILTERED:
        return _Judged(
            "filtered",
            f"{captured.why}: it is not sent",
            "change the filter, and send the range again with dstream replay",
        )
    if captured.treated is Treated.SKIPPED:
        return _Judged("skipped", f"{captured.why}: it is not sent")
    if trail.sent is not True:
        return _not_sent(trail)
    if trail.moved is not None:
        return _moved(trail)
    if trail.route_fails is not None:
        return _Judged(
            "unknown",
            f"it was sent to the queue; {trail.route_fails}, so a router dead-letters it (RouteFailed), and it is not among the dead letters",
            remedy("RouteFailed"),
        )
    if trail.destinations is not None and not trail.destinations:
        return _Judged(
            "filtered",
            "no route takes it: the router completed it and sent it nowhere",
            "change the routes, and send the range again with dstream replay",
        )
    if not trail.bus.complete:
        return _Judged(
            "unknown",
            "it was sent to the queue; whether it still waits could not be looked at completely",
            "look at what is unknown below",
        )
    where = ", ".join(f"{each.output}: {each.place}" for each in trail.destinations or ())
    to = f" ({where})" if where else ""
    return _Judged(
        "delivered",
        "it was sent to the queue (the offset is past it), and is neither in the queue nor among its dead letters: so the router has delivered "
        f"it{to}. {_CONSUMED[0].upper()}{_CONSUMED[1:]}",
    )


def _not_sent(trail: Trail) -> _Judged:
    captured, look = trail.captured, trail.look
    assert captured is not None
    assert look is not None
    if trail.pause is not None:
        reason = f": {trail.pause.reason}" if trail.pause.reason else ""
        return _Judged(
            "paused",
            f"its table was paused at {trail.pause.at} by {trail.pause.by}{reason}",
            "resume the table: the change waits in SQL Server",
        )
    if captured.treated is Treated.STOPS:
        return _Judged(
            "waiting",
            f"its table stops before it: {captured.why}",
            "correct the filter or the shape: a running ingester takes it over",
        )
    if trail.sent is None:
        return _Judged(
            "waiting", "its table has no offset yet: no ingester has read it", "start an ingester that has this table"
        )
    return _Judged(
        "waiting",
        f"it waits in SQL Server: the offset ({look.offset_words}) is before it",
        "look at the table's state: who owns it, whether an ingester reports an error of it, and how far behind it is",
    )


def _moved(trail: Trail) -> _Judged:
    moved = trail.moved
    assert moved is not None
    return _Judged(
        "before_offset",
        f"the offset was moved over it, from {moved.begun} to {moved.to}, at {moved.at} by {moved.by}; unless it was sent before, it never was",
        "send the range with dstream replay, or move the offset back",
    )


def steps(trail: Trail, verdict: Verdict) -> list[Step]:
    """From the commit to the subscribers, as far as it is known."""
    found = [_commit(trail), _in_change_table(trail), _ingester(trail, verdict), _queue(trail, verdict)]
    if trail.bus.dead is not None:
        found.append(_lying(trail, trail.bus.dead, "dead_letter", "in the queue's dead letters"))
        return found
    found += _beyond(trail, verdict)
    return found


def _commit(trail: Trail) -> Step:
    if trail.commit_time is None:
        return Step(place="commit", state="unknown", what="when its transaction was committed is not known any longer")
    return Step(
        place="commit", state="passed", at=trail.commit_time, after_seconds=0.0, what="its transaction was committed"
    )


def _in_change_table(trail: Trail) -> Step:
    if trail.captured is not None:
        return Step(
            place="change_table",
            state="passed" if trail.sent else "here",
            what="capture has written it to the change table",
        )
    if trail.ahead:
        return Step(place="change_table", state="not_yet", what="capture has not come so far")
    if trail.removed:
        return Step(place="change_table", state="passed", what="cleanup has removed it from the change table")
    if trail.look is None or trail.kind != "change":
        return Step(place="change_table", state="unknown", what="it was not looked for in a change table")
    return Step(place="change_table", state="never", what="it is not in the change table")


def _ingester(trail: Trail, verdict: Verdict) -> Step:
    seen = bool(_sightings(trail))
    if (
        not seen
        and verdict in ("filtered", "skipped", "gap", "before_offset", "not_captured")
        and not _by_routes(trail)
    ):
        words = {
            "gap": "it was lost before it was read",
            "before_offset": "the offset was moved over it",
            "not_captured": "its table is not read",
        }
        return Step(place="ingester", state="never", what=words.get(verdict, "the table's shape leaves it out"))
    if seen or trail.sent:
        return Step(place="ingester", state="passed", what="the ingester has sent it, and the queue has accepted it")
    state: Literal["waiting", "unknown"] = "waiting" if trail.sent is False or trail.captured is not None else "unknown"
    return Step(
        place="ingester", state=state, what="the offset is before it" if trail.sent is False else "no offset is known"
    )


def _by_routes(trail: Trail) -> bool:
    return trail.captured is not None and trail.captured.treated is Treated.SENT and trail.sent is True


def _queue(trail: Trail, verdict: Verdict) -> Step:
    if trail.bus.queue is not None:
        return _lying(trail, trail.bus.queue, "queue", "in the queue")
    if _sightings(trail):
        return Step(place="queue", state="passed", what="it is no longer in the queue", entity="queue")
    if verdict == "delivered" or (verdict == "filtered" and _by_routes(trail)):
        return Step(
            place="queue", state="passed", what="it is neither in the queue nor among its dead letters", entity="queue"
        )
    if verdict in ("waiting", "paused"):
        return Step(place="queue", state="not_yet", what="it was not sent yet", entity="queue")
    state: Literal["unknown", "never"] = "unknown" if verdict in ("unknown", "no_trace") else "never"
    return Step(
        place="queue",
        state=state,
        what="it was not found there" if state == "unknown" else "it was not sent",
        entity="queue",
    )


def _beyond(trail: Trail, verdict: Verdict) -> list[Step]:
    """The router, the topics and their subscriptions."""
    lying = [*trail.bus.subscriptions, *trail.bus.dead_there]
    if lying:
        found = [Step(place="router", state="passed", what="the router has delivered it")]
        found += [_lying(trail, each, "subscription", f"in {each.place.entity}") for each in trail.bus.subscriptions]
        return found + [
            _lying(trail, each, "dead_letter", f"in the dead letters of {each.place.entity}")
            for each in trail.bus.dead_there
        ]
    if verdict == "filtered" and _by_routes(trail):
        return [Step(place="router", state="never", what="no route takes it")]
    if verdict != "delivered":
        state: Literal["not_yet", "never", "unknown"] = (
            "not_yet"
            if verdict in ("waiting", "paused", "queued")
            else "unknown"
            if verdict in ("unknown", "no_trace")
            else "never"
        )
        return [
            Step(
                place="router",
                state=state,
                what="it is not known to have come so far" if state == "unknown" else "it has not come so far",
            )
        ]
    found = [Step(place="router", state="passed", what="the router has delivered it")]
    for each in trail.destinations or ():
        where = "topic" if each.output == "default" else f"output {each.output}"
        found.append(Step(place="topic", state="passed", what=f"delivered to {where} {each.place}", entity=each.entity))
        if each.entity is not None:
            found.append(Step(place="subscription", state="unknown", what=_CONSUMED, entity=each.entity))
    return found


def _lying(trail: Trail, found: Sighting, place: Literal["queue", "subscription", "dead_letter"], what: str) -> Step:
    enqueued = found.lying.enqueued
    at = None if enqueued is None else instant(enqueued)
    return Step(
        place=place,
        state="here",
        at=at,
        after_seconds=_after(trail.commit_time, enqueued),
        what=f"it lies {what}",
        entity=found.place.entity,
        sequence=found.lying.sequence,
    )


def _after(commit_time: str | None, at: datetime | None) -> float | None:
    """Never below 0: the clocks of two servers differ."""
    if commit_time is None or at is None:
        return None
    try:
        return round(max(0.0, (at - datetime.fromisoformat(commit_time)).total_seconds()), 3)
    except (ValueError, TypeError):
        return None
