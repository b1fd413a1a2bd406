"""The router's metrics: their names, and their values at a moment. A test holds the table in docs/run.md to them."""

from __future__ import annotations

from collections.abc import Iterator

from common.observability.metrics import Metric, Sample
from router.routes import REASONS
from router.spots import parts_of_spot, spot
from router.tally import UNKNOWN, Figures

ROUTED = Metric(
    "dstream_router_messages_routed_total",
    "counter",
    "Messages accepted by their topic and completed in the queue.",
    ("output", "topic"),
)
DEAD_LETTERED = Metric(
    "dstream_router_messages_dead_lettered_total",
    "counter",
    "Messages moved to the queue's dead-letter queue.",
    ("reason",),
)
RETRIES = Metric(
    "dstream_router_send_failures_total", "counter", "Sends that failed and are tried again.", ("output", "topic")
)
LOST = Metric(
    "dstream_router_locks_lost_total",
    "counter",
    "Messages whose lock was lost after they were sent and before they were completed: they come again.",
)
SESSIONS_LOST = Metric(
    "dstream_router_sessions_lost_total",
    "counter",
    "Sessions (or batches) given up: the service reported the lock lost, or did not answer a settlement (`unanswered`).",
    ("reason",),
)
PARKED = Metric(
    "dstream_router_sessions_parked",
    "gauge",
    "Sessions held without a slot for a topic that is unavailable or unknown.",
)
STOPPED = Metric(
    "dstream_router_sessions_stopped",
    "gauge",
    'Sessions that have stopped at a poison message (`on_poison = "stop"`) until a person acts.',
)
UP = Metric(
    "dstream_router_destination_up",
    "gauge",
    "0 while the topic has accepted nothing for 10 s although there is something to send, else 1.",
    ("output", "topic"),
)
MEMORY = Metric(
    "dstream_router_worker_resident_memory_bytes", "gauge", "Resident memory of a worker, in bytes.", ("worker",)
)
REPLACED = Metric(
    "dstream_router_workers_replaced_total",
    "counter",
    "Workers started again, because one `died` or `hung`.",
    ("reason",),
)
RECEIVING = Metric("dstream_router_receiving", "gauge", "1 while the queue is received from.")
TOPICS_AWAY = Metric(
    "dstream_router_topics_unavailable",
    "gauge",
    "Topics that have accepted nothing for 10 s although there is something to send.",
)
FILL = Metric(
    "dstream_router_storage_used_ratio",
    "gauge",
    "Used share of the quota of the ingest queue or a topic, checked once a minute; needs the Manage right.",
    ("entity",),
)
READY = Metric("dstream_router_ready", "gauge", "1 while `/readyz` is 200.")
SLOTS = Metric("dstream_router_slots", "gauge", "Slots of all workers: sessions that can be worked on at once.")
BUSY = Metric("dstream_router_slots_busy", "gauge", "Slots that work on a session now.")
THROTTLED = Metric("dstream_router_throttled_total", "counter", "Requests that a throttling namespace refused.")
WAITING = Metric(
    "dstream_router_queue_messages",
    "gauge",
    "Messages in the ingest queue (`active`) and in its dead-letter queue (`dead_letter`), counted once a minute; needs the Manage right.",
    ("state",),
)
FILTERED = Metric(
    "dstream_router_messages_filtered_total",
    "counter",
    "Messages completed in the queue that no route takes to any output.",
)
BEHIND = Metric(
    "dstream_router_sessions_behind",
    "gauge",
    "Sessions that go on without an output which is away or slow, and give it later what it misses.",
    ("output",),
)
IN_FORCE = Metric(
    "dstream_router_configuration_in_force",
    "gauge",
    "0 while the configuration file cannot be used, or what it names cannot be opened, so that the previous one stays in force; else 1.",
)
BATCHES = Metric("dstream_router_batch_messages", "histogram", "Messages received together.")
SETTLED = Metric(
    "dstream_router_settle_seconds",
    "histogram",
    "From receiving a batch until its messages for one topic are sent and completed.",
)

METRICS = (
    *(ROUTED, DEAD_LETTERED, RETRIES, LOST, SESSIONS_LOST, RECEIVING, TOPICS_AWAY, UP, PARKED, STOPPED),
    *(FILTERED, BEHIND),
    *(IN_FORCE, READY, SLOTS, BUSY, THROTTLED, WAITING, REPLACED, MEMORY, FILL, BATCHES, SETTLED),
)


def samples(figures: Figures) -> Iterator[Sample]:
    """Every metric with its value in `figures`."""
    yield from (ROUTED(count, *parts_of_spot(topic)) for topic, count in sorted(figures.routed.items()))
    yield from (
        DEAD_LETTERED(figures.dead_lettered[reason], reason)
        for reason in sorted(REASONS | figures.dead_lettered.keys())
    )
    yield from (RETRIES(count, *parts_of_spot(topic)) for topic, count in sorted(figures.retries.items()))
    yield LOST(figures.lost_locks)
    yield from (SESSIONS_LOST(figures.sessions_lost[reason], reason) for reason in ("lock_lost", "unanswered"))
    yield RECEIVING(int(figures.receives))
    places = _places_away(figures)
    yield TOPICS_AWAY(len(places))
    away = {topic if topic in figures.topics else _unknown(topic) for topic in places}
    yield from (UP(int(topic not in away), *parts_of_spot(topic)) for topic in sorted(figures.topics | away))
    yield PARKED(figures.parked)
    yield STOPPED(figures.stopped)
    yield FILTERED(figures.filtered)
    yield from (BEHIND(count, output) for output, count in sorted(figures.behind.items()))
    yield IN_FORCE(int(figures.not_in_force is None))
    yield READY(int(figures.ready() is None))
    yield SLOTS(figures.slots)
    yield BUSY(figures.busy)
    yield THROTTLED(figures.throttled)
    yield from (WAITING(count, state) for state, count in sorted(figures.waiting.items()))
    yield from (REPLACED(figures.replaced[reason], reason) for reason in ("died", "hung"))
    yield from (MEMORY(octets, str(worker)) for worker, octets in sorted(figures.memory.items()))
    yield from (FILL(share, entity) for entity, share in sorted(figures.fills.items()))
    yield BATCHES(figures.batches)
    yield SETTLED(figures.seconds)


def _unknown(topic: str) -> str:
    """The label of a topic that no table has; an output as a whole has none."""
    output, named = parts_of_spot(topic)
    return spot(UNKNOWN if named else "", output)


def _places_away(figures: Figures) -> frozenset[str]:
    """The topics that accept nothing. Of an output that could not be opened: those that have accepted nothing yet, or itself if none is known."""
    found: set[str] = set()
    for away in figures.topics_away:
        output, topic = parts_of_spot(away)
        own = {each for each in figures.topics if parts_of_spot(each)[0] == output}
        found |= {away} if topic or not own else {each for each in own if not figures.routed[each]}
    return frozenset(found)
