"""What the settings of queue and topics mean for DStream, as findings. Pure: looks at nothing by itself.

Where the judgements come from: "Duplicate detection", "Message expiration", "Message transfers, locks, and settlement", "Service Bus quotas"
and "Suspend and reactivate messaging entities" under https://learn.microsoft.com/azure/service-bus-messaging/
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from common.bus.depths import CREATE_USED_QUEUE, USED_QUEUE_MISSING
from common.bus.ports import Provision, QueueState
from common.bus.shapes import LOCK, MOST_DELIVERIES
from common.check import Finding, Fix, by_hand, fail, ok, warn
from common.config.durations import format_duration
from common.servicebus.entities import EntitySettings, QueueFacts, TopicFacts
from common.servicebus.remedies import az
from common.servicebus.remedies.az import Entity

FAILOVER = timedelta(minutes=10)
"""The longest time between a change's first send and its second, which duplicate detection must remove. A dead ingester's lease expires after
a minute, and another ingester starts Spark and reaches the table some seconds later. A database failover, or a process that is started by hand
or moved to another machine, takes minutes more. Ten minutes are also the default of DStream and of the service."""
SHORTEST_LOCK = timedelta(seconds=30)
"""A batch is routed within seconds, but a throttled topic delays it; a shorter lock is lost before its renewal can be tried a second time."""
FEWEST_DELIVERIES = 10
"""The service's default. Each lost lock counts, so with a lower limit a few restarts in a row would dead-letter good messages."""
NEARLY_FULL = 0.8
"""Of the quota: past it sends fail."""
_DECIDE = by_hand("the messages are somebody's: whether they are read, sent again or deleted is a decision")
STANDARD_MESSAGE = 256 * 1024
"""Bytes of the largest message when the entity does not state it: the Standard tier's."""
_NO_LIMIT = f"{az.FOR_EVER}, which means no limit"


def judge_queue(
    subject: str,
    facts: QueueFacts | None,
    *,
    sessions: bool,
    provision: Provision,
    entity: Entity,
    receives: bool = True,
    used: bool = False,
) -> list[Finding]:
    """`facts`: None when it does not exist. `receives`: for the stage that receives, to which the dead letters belong. `used`: it may have
    been there."""
    if facts is None and used:
        judge = warn if provision == "create" else fail
        return [judge(subject, USED_QUEUE_MISSING, CREATE_USED_QUEUE, fix=az.created(entity, sessions=sessions))]
    if facts is None:
        return [_missing(subject, provision, az.created(entity, sessions=sessions))]
    found = [*judge_use(subject, facts, sessions=sessions, entity=entity), *judge_keeping(subject, facts, entity)]
    if facts.dead and receives:
        text = f"{_messages(facts.dead)} in its dead-letter queue: changes that no subscriber got"
        found.append(warn(subject, text, "read their reasons, and send them again or complete them", fix=_DECIDE))
    return found or [ok(subject, f"{_with_sessions(sessions)}, {_messages(facts.waiting)} waiting")]


def judge_use(subject: str, facts: QueueFacts, *, sessions: bool, entity: Entity) -> list[Finding]:
    """How well the queue can be worked with; a fail: not at all."""
    found = [*judge_settings(subject, facts, entity, az.made_again(entity, sessions=sessions)), *_fill(subject, facts)]
    if facts.sessions != sessions:
        has, needs = ("has", "none") if facts.sessions else ("has no", "them")
        hint = "a queue's sessions are fixed when it is created: delete it when it is empty, or change queue.ordering"
        again = az.made_again(entity, sessions=sessions)
        found.append(fail(subject, f"it {has} sessions, and queue.ordering asks for {needs}", hint, fix=again))
    if facts.lock < SHORTEST_LOCK:
        text = f"its locks last {format_duration(facts.lock)}, and messages come again when one is lost"
        longer = az.updated(entity, f"--lock-duration {az.iso(LOCK)}")
        found.append(warn(subject, text, f"set LockDuration to {format_duration(SHORTEST_LOCK)} or more", fix=longer))
    if facts.max_deliveries < FEWEST_DELIVERIES:
        text = f"a message is dead-lettered after {facts.max_deliveries} deliveries, and each lost lock counts as one"
        more = az.updated(entity, f"--max-delivery-count {MOST_DELIVERIES}")
        found.append(warn(subject, text, f"set MaxDeliveryCount to {FEWEST_DELIVERIES} or more", fix=more))
    return found


def judge_keeping(subject: str, facts: QueueFacts, entity: Entity) -> list[Finding]:
    """Whether the queue keeps each message until a router has read it: its change's offset is committed, so nobody sends it again."""
    found, keeping = [], facts.keeping
    if keeping.messages is not None:
        then = "dead-lettered" if keeping.dead_letters else "deleted without a trace"
        text = f"a change that waits in it for {_time(keeping.messages)} is {then} and never reaches a topic"
        found.append(fail(subject, text, f"set DefaultMessageTimeToLive to {_NO_LIMIT}", fix=_kept(entity)))
    if keeping.unused is not None:
        text = f"it is deleted, with all that is in it, when it was not used for {_time(keeping.unused)}"
        found.append(fail(subject, text, f"set AutoDeleteOnIdle to {_NO_LIMIT}", fix=_stays(entity)))
    if keeping.forwards_to is not None:
        text = f"it forwards its messages to {keeping.forwards_to}, but the router reads this queue"
        found.append(fail(subject, text, "remove ForwardTo from its settings", fix=az.without(entity, "forwardTo")))
    return found


def judge_topic(
    subject: str,
    facts: TopicFacts | None,
    *,
    subscriptions: Sequence[str],
    provision: Provision,
    entity: Entity,
    queue: QueueState | None = None,
) -> list[Finding]:
    """`facts`: None when it does not exist. `subscriptions`: those that the configuration lists. `queue`: the ingest queue, where it is known."""
    waiting = 0 if queue is None else queue.waiting
    if facts is None and waiting and provision == "create":
        text = f"it does not exist, and {_messages(waiting)} waiting in the ingest queue may be for it"
        start = "start the router, or restart one that runs: topics are created at the start"
        return [warn(subject, text, start, fix=az.created(entity, subscriptions=subscriptions))]
    if facts is None:
        return [_missing(subject, provision, az.created(entity, subscriptions=subscriptions))]
    again = az.made_again(entity, subscriptions=[each.name for each in facts.subscriptions])
    found = [
        *judge_settings(subject, facts, entity, again),
        *_fill(subject, facts),
        *_passing(subject, facts, entity),
    ]
    if queue is not None:
        found += _smaller(subject, facts, queue, entity)
    there = {each.name.lower() for each in facts.subscriptions}
    for name in subscriptions:
        if name.lower() not in there and provision != "create":
            text, subscribed = f"it has no subscription {name}", az.subscribed(entity, name)
            found.append(
                fail(subject, text, 'create it, or set provision = "create"', fix=subscribed)
                if provision == "verify"
                else warn(subject, text, "create it, or remove it from router.subscriptions", fix=subscribed)
            )
    if not there and not (subscriptions and provision == "create"):
        text, whose = (
            "it has no subscription: what is sent to it is dropped",
            by_hand("its subscribers choose the name"),
        )
        found.append(warn(subject, text, "subscribe to it", fix=whose))
    return found or [
        ok(subject, ", ".join(["there", *(f"{s.name} has {s.waiting} to read" for s in facts.subscriptions)]))
    ]


def _passing(subject: str, facts: TopicFacts, entity: Entity) -> list[Finding]:
    """What a topic does not keep. Its subscribers may intend that, hence warnings."""
    found, keeping = [], facts.keeping
    if keeping.messages is not None:
        text = f"a change that no subscriber has read after {_time(keeping.messages)} expires"
        hint = f"set DefaultMessageTimeToLive to {_NO_LIMIT}, unless that is intended"
        found.append(warn(subject, text, hint, fix=_kept(entity)))
    if keeping.unused is not None:
        text = f"it is deleted, with its subscriptions, when it was not used for {_time(keeping.unused)}"
        found.append(warn(subject, text, f"set AutoDeleteOnIdle to {_NO_LIMIT}", fix=_stays(entity)))
    return found


def _smaller(subject: str, facts: TopicFacts, queue: QueueState, entity: Entity) -> list[Finding]:
    here, there = facts.largest or STANDARD_MESSAGE, queue.largest or STANDARD_MESSAGE
    if here >= there:
        return []
    text = f"it takes messages of up to {here // 1024} KB, and the ingest queue of up to {there // 1024} KB: larger ones are dead-lettered"
    hint = f"set MaxMessageSizeInKilobytes to {there // 1024} (Premium), or lower the queue's"
    return [warn(subject, text, hint, fix=az.updated(entity, f"--max-message-size {there // 1024}"))]


def judge_settings(subject: str, facts: EntitySettings, entity: Entity, again: Fix) -> list[Finding]:
    """What holds for queues and topics alike. `again`: makes the entity once more, with what cannot be changed."""
    found = []
    if facts.status != "Active":
        enabled = az.updated(entity, "--status Active")
        found.append(fail(subject, f"its status is {facts.status}", "enable it in the portal", fix=enabled))
    if facts.duplicate_window is None:
        text = "no duplicate detection: a change that is sent again after a crash arrives twice"
        hint = "it is fixed when an entity is created: delete the entity and create it again, or let subscribers ignore a message_id they have had"
        found.append(warn(subject, text, hint, fix=again))
    elif facts.duplicate_window < FAILOVER:
        window, needed = format_duration(facts.duplicate_window), format_duration(FAILOVER)
        text = f"duplicates are remembered for {window}, and a failover may take {needed}"
        longer = az.updated(entity, f"--duplicate-detection-history-time-window {az.iso(FAILOVER)}")
        hint = f"set DuplicateDetectionHistoryTimeWindow to {needed} or more"
        found.append(warn(subject, text, hint, fix=longer))
    return found


def _fill(subject: str, facts: QueueFacts | TopicFacts) -> list[Finding]:
    if facts.storage.share < NEARLY_FULL:
        return []
    return [warn(subject, _fullness(facts), "read it, or delete subscriptions that nobody reads", fix=_DECIDE)]


def _kept(entity: Entity) -> Fix:
    return az.updated(entity, f"--default-message-time-to-live {az.FOR_EVER}")


def _stays(entity: Entity) -> Fix:
    return az.updated(entity, f"--auto-delete-on-idle {az.FOR_EVER}")


def _fullness(facts: QueueFacts | TopicFacts) -> str:
    text = f"it has used {facts.storage.share:.0%} of its {facts.storage.limit // 2**20} MB, and sends fail when it is full"
    if isinstance(facts, QueueFacts):
        return f"{text}; {_messages(facts.waiting)} waiting and {facts.dead} dead letters"
    unread = [each for each in facts.subscriptions if each.waiting or each.dead]
    if not unread:
        return text
    most = max(unread, key=lambda each: each.waiting + each.dead)
    return f"{text}; the subscription {most.name} has {most.waiting} unread and {most.dead} dead letters"


def _missing(subject: str, provision: Provision, created: Fix) -> Finding:
    if provision == "create":
        return ok(subject, "it does not exist yet, and is created at a start, or when it is first needed")
    return fail(subject, "it does not exist", 'create it, or set provision = "create"', fix=created)


def _time(value: timedelta) -> str:
    days, rest = divmod(value, timedelta(days=1))
    return format_duration(value) if rest or not days else "1 day" if days == 1 else f"{days} days"


def _with_sessions(sessions: bool) -> str:
    return "with sessions" if sessions else "without sessions"


def _messages(count: int) -> str:
    return "1 message" if count == 1 else f"{count} messages"
