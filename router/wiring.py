"""Settings to a running router; the only module here that names the adapters."""

from __future__ import annotations

import threading
import time

import structlog

from common.errors import DStreamError
from common.provision import QueueNeed, TopicNeed, provision
from common.servicebus import ServiceBus
from common.servicebus_receiver import QueueReceivers
from router.forward import Forwarder, Gate, Pace
from router.publishers import Publisher, Publishers
from router.settings import RouterSettings
from router.tally import Tally

STOP_WITHIN = 18.0
"""Seconds that slots have to finish what they hold; Kubernetes kills after 30 s, and the promise is 20."""

log = structlog.get_logger(__name__)


def run(
    settings: RouterSettings, stop: threading.Event, *, pace: Pace | None = None, tally: Tally | None = None
) -> int:
    """Route until `stop` is set: 0 when everything in flight was settled or given back, 1 when a slot did not end in time.

    Raises ConfigurationError, PermanentError or TransientError when it cannot start: whoever started it learns at once, and starts it
    again. Raises PermanentError when the queue is gone while it runs; `stop` is set then.
    """
    source, output = ServiceBus.of(settings.source), ServiceBus.of(settings.output)
    publishers = Publishers(Publisher(topic, output.sender(topic)) for topic in settings.destinations)
    tally = tally or Tally()
    try:
        _provision(settings, source, output)
        publishers.open()
        _find_queue(settings, source)
        log.info(
            "router started", queue=settings.queue_name, topics=len(settings.destinations), slots=settings.sessions
        )
        started = time.monotonic()
        status = _route(settings, source, publishers, stop, pace or Pace(batch=settings.batch), tally)
        log.info(
            "router stopped",
            routed=tally.routed.total(),
            dead_lettered=dict(tally.dead_lettered),
            lost_locks=tally.lost_locks,
            retries=tally.retries.total(),
            seconds=round(time.monotonic() - started, 1),
        )
        return status
    finally:
        publishers.close()
        source.close()
        output.close()


def _provision(settings: RouterSettings, source: ServiceBus, output: ServiceBus) -> None:
    provision(
        source.address,
        [QueueNeed(settings.queue_name, sessions=settings.ordering != "none")],
        how=settings.provision,
        management_endpoint=settings.source.management_endpoint,
    )
    provision(
        output.address,
        [TopicNeed(topic, settings.subscriptions) for topic in settings.destinations],
        how=settings.provision,
        management_endpoint=settings.output.management_endpoint,
    )


def _find_queue(settings: RouterSettings, source: ServiceBus) -> None:
    """A queue that is missing, of the other kind, or not ours to read ends the start and not the first receive."""
    found = _receivers(settings, source).open(max_wait=0.1)
    if found is not None:
        found.close()


def _receivers(settings: RouterSettings, source: ServiceBus) -> QueueReceivers:
    return source.receivers(settings.queue_name, sessions=settings.ordering != "none", prefetch=settings.prefetch)


def _route(
    settings: RouterSettings,
    source: ServiceBus,
    publishers: Publishers,
    stop: threading.Event,
    pace: Pace,
    tally: Tally,
) -> int:
    sessions = settings.ordering != "none"
    receivers = _receivers(settings, source)
    gate = Gate()
    fatal: list[BaseException] = []

    def work() -> None:
        try:
            Forwarder(receivers, publishers, stop, sessions, pace, gate, tally).run()
        except BaseException as error:
            # Not only DStreamError: a slot that died of a defect must not leave a router that looks alive.
            fatal.append(error)
            stop.set()

    slots = [threading.Thread(target=work, name=f"slot-{number}", daemon=True) for number in range(settings.sessions)]
    for slot in slots:
        slot.start()
    stop.wait()
    deadline = time.monotonic() + STOP_WITHIN
    for slot in slots:
        slot.join(max(0.0, deadline - time.monotonic()))
    if fatal:
        raise next((error for error in fatal if isinstance(error, DStreamError)), fatal[0])
    late = sum(slot.is_alive() for slot in slots)
    if late:
        log.error("slots did not stop in time", slots=late, effect="their messages come again when their locks run out")
    return 1 if late else 0
