"""Settings to a running router; the only module here that names the adapters."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial

import structlog

from common.errors import ConfigurationError, DStreamError, Stopped, TransientError
from common.fetch_ahead import FetchAhead
from common.file_limit import provide_descriptors
from common.provision import QueueNeed, TopicNeed, provision
from common.servicebus import ServiceBus
from common.servicebus_entities import Entities, Storage
from common.stacks import tell_stacks
from common.throttling import Spell
from router.awaited import NotADestination
from router.forward import Forwarder, Pace
from router.fullness import Fullness
from router.gate import Gate
from router.health import Reports, endpoint
from router.interruption import Interruption
from router.observed import ObservedReceivers
from router.packs import Seen, UnpackingReceivers
from router.parking import PARKED_PER_SLOT, Parking
from router.publisher import Publisher
from router.publishers import Publishers, most_links
from router.settings import CREATE_OR_REMOVE, CREATES_NOTHING, Latest, RouterSettings
from router.tally import Tally
from router.troubled import Troubled
from router.workers import Workers

STOP_WITHIN = 18.0
"""Seconds that slots have to finish what they hold; Kubernetes kills after 30 s, and the promise is 20."""

LOOK = 10.0
"""Seconds between two looks at the slots of this process. Its parent, where it has one, finds a slot that is stuck sooner, and kills it."""

log = structlog.get_logger(__name__)


def run(
    settings: RouterSettings,
    stop: threading.Event,
    *,
    pace: Pace | None = None,
    tally: Tally | None = None,
    latest: Latest | None = None,
) -> int:
    """Route until `stop` is set, with one process or with several: 0 when everything in flight was settled or given back, else 1.

    Raises ConfigurationError, PermanentError or TransientError when it cannot start: whoever started it learns at once, and starts it
    again. Raises PermanentError when the queue is gone while it runs. `latest`: the settings as the configuration says now, from any thread
    and, pickled, from any process; asked for a destination that `settings` do not have.
    """
    for setting in settings.creating_nothing:
        log.warning("setting creates no topics", setting=setting, reason=CREATES_NOTHING, hint=CREATE_OR_REMOVE)
    if settings.workers == 1:
        tally = tally or Tally()
        with endpoint(settings.health, tally.figures):
            return route(settings, stop, pace=pace, tally=tally, latest=latest)
    reports = Reports()
    with endpoint(settings.health, reports.figures):
        source, output = ServiceBus.of(settings.source), ServiceBus.of(settings.output)
        provide_descriptors(most_links(len(settings.destinations), slots=0))
        over = threading.Event()
        reports.start.destinations = frozenset(settings.destinations)
        publishers = _publishers(settings, output, None, reports.start, over)
        try:
            _open_all(settings, source, output, publishers, stop)
            publishers.rest()
            _watch_fullness(settings, source, output, reports.start, over)
            # Those that were away are tried again here: a worker does so only when something is to be sent to them.
            threading.Thread(target=publishers.keep, args=[over], name="publishers", daemon=True).start()
            return Workers(settings, reports=reports, latest=latest).run(stop)
        except Stopped:
            return 0
        finally:
            over.set()
            publishers.close()
            source.close()
            output.close()


def route(
    settings: RouterSettings,
    stop: threading.Event,
    *,
    pace: Pace | None = None,
    tally: Tally | None = None,
    provisioned: bool = False,
    proven: bool = False,
    started: Callable[[], None] = lambda: None,
    latest: Latest | None = None,
) -> int:
    """As `run`, in this process. `provisioned`: another process has seen to queue and topics; `proven`: and has routed.

    `started` is called when all links are open. `stop` is set when it ends by an error of its own.
    """
    source, output = ServiceBus.of(settings.source, proven=proven), ServiceBus.of(settings.output, proven=proven)
    provide_descriptors(_most_links(settings))
    tally = tally or Tally()
    publishers = _publishers(settings, output, latest, tally, stop)
    try:
        if not provisioned:
            _open_all(settings, source, output, publishers, stop)
            _watch_fullness(settings, source, output, tally, stop)
        tally.opening()
        if stop.is_set():
            return 0
        _find_queue(settings, source)
        log.info(
            "router started", queue=settings.queue_name, topics=len(settings.destinations), slots=settings.sessions
        )
        started()
        began = time.monotonic()
        status = _route(settings, source, publishers, stop, pace or Pace(batch=settings.batch), tally, latest)
        log.info(
            "router stopped",
            routed=tally.routed.total(),
            dead_lettered=dict(tally.dead_lettered),
            lost_locks=tally.lost_locks,
            retries=tally.retries.total(),
            seconds=round(time.monotonic() - began, 1),
        )
        return status
    except Stopped:
        return 0
    finally:
        publishers.close()
        source.close()
        output.close()


def _most_links(settings: RouterSettings) -> int:
    """Of a process that routes: to topics, and to the queue for each session that it may hold."""
    held = (1 + 2 * PARKED_PER_SLOT) * settings.sessions
    return most_links(len(settings.destinations), settings.sessions) + held


def _publishers(
    settings: RouterSettings, output: ServiceBus, latest: Latest | None, tally: Tally, stop: threading.Event
) -> Publishers:
    spell, created = Spell(), set[str]()

    def configured(topic: str) -> Publisher:
        provide = partial(_provide_topics, settings, output, [topic], stop)
        return Publisher(topic, output.sender(topic), provide=provide, provide_again=False, spell=spell, tally=tally)

    def provided(topic: str) -> Publisher:
        provide = partial(_provide_topics, settings, output, [topic], stop)
        return Publisher(topic, output.sender(topic), provide=provide, spell=spell, tally=tally)

    def forbidden(topic: str) -> str | None:
        if not topic.startswith(settings.create_under):
            return f"it is not under {' or '.join(settings.create_under) or 'any name'} (router.create_under)"
        if len(created) >= settings.create_at_most:
            return f"{settings.create_at_most} topics were created already, and no more may be (router.create_at_most)"
        return None

    def made(topic: str) -> Publisher:
        if (why := forbidden(topic)) is not None:
            try:
                if latest is not None:
                    return configured_by_now(topic)
            except NotADestination as error:
                why = f"{why}; {error.message}"
            raise NotADestination(why)
        _provide_topics(settings, output, [topic], stop)
        publisher = provided(topic)
        try:
            publisher.open()
        except DStreamError:
            publisher.close()
            raise
        created.add(topic)
        return publisher

    def configured_by_now(topic: str) -> Publisher:
        """An ingester may have taken an edit of the configuration over already. A topic that cannot be had is its table's trouble."""
        assert latest is not None
        try:
            known = latest().destinations
        except ConfigurationError as error:
            raise TransientError(f"the configuration cannot be used: {error.problems[0]}") from error
        if topic not in known:
            raise NotADestination("the configuration does not name it by now either")
        provide = partial(_provide_topics, settings, output, [topic], stop)
        return Publisher(topic, output.sender(topic), provide=provide, provide_first=True, spell=spell, tally=tally)

    def elsewhere(topic: str) -> str | None:
        """The file is asked as well: it may have another server's or database's name by now. One that cannot be read is no answer."""
        if not settings.topics_begin or topic.startswith((*settings.topics_begin, *settings.create_under)):
            return None
        try:
            if latest is not None and topic in latest().destinations:
                return None
        except DStreamError:
            return None
        return f"no table of this configuration could have it: their topics begin with {' or '.join(settings.topics_begin)}"

    creates = settings.unknown_destination == "create"
    return Publishers(
        map(provided if creates else configured, settings.destinations),
        further=made if creates else None if latest is None else configured_by_now,
        never={settings.queue_name.lower(): "it is the ingest queue"},
        elsewhere=elsewhere,
        grace=settings.unknown_grace.total_seconds(),
        tally=tally,
    )


def _open_all(
    settings: RouterSettings, source: ServiceBus, output: ServiceBus, publishers: Publishers, stop: threading.Event
) -> None:
    """Entities provided, and each topic opened once. Raises as `route`, and Stopped."""
    late = _provision(settings, source, output, stop)
    publishers.open(stop, excused=late, exist=settings.provision != "none")
    if stop.is_set():
        raise Stopped("asked to stop")


def _provision(
    settings: RouterSettings, source: ServiceBus, output: ServiceBus, stop: threading.Event
) -> Collection[str]:
    provision(
        source.address,
        [QueueNeed(settings.queue_name, settings.ordering != "none", settings.queue_duplicate_window)],
        how=settings.provision,
        management_endpoint=settings.source.management_endpoint,
        stop=stop,
    )
    return _provide_topics(settings, output, settings.destinations, stop)


def _provide_topics(
    settings: RouterSettings, output: ServiceBus, topics: Iterable[str], stop: threading.Event | None = None
) -> Collection[str]:
    return provision(
        output.address,
        [TopicNeed(topic, settings.subscriptions, settings.duplicate_window) for topic in topics],
        how=settings.provision,
        management_endpoint=settings.output.management_endpoint,
        stop=stop,
    )


def _watch_fullness(
    settings: RouterSettings, source: ServiceBus, output: ServiceBus, tally: Tally, stop: threading.Event
) -> None:
    """In a thread of its own; `provision = "none"` makes no management call, and so knows nothing of it."""
    if settings.provision == "none":
        return

    def queue() -> Mapping[str, Storage]:
        with closing(Entities(source.address, settings.source.management_endpoint, stop=stop)) as entities:
            found = entities.queue_storage(settings.queue_name)
        return {} if found is None else {f"queue {settings.queue_name}": found}

    def topics() -> Mapping[str, Storage]:
        with closing(Entities(output.address, settings.output.management_endpoint, stop=stop)) as entities:
            found = entities.topics_storage(list(settings.destinations))
        return {f"topic {topic}": storage for topic, storage in found.items()}

    fullness = Fullness([queue, topics], tally)
    threading.Thread(target=fullness.run, args=[stop], name="fullness", daemon=True).start()


def _find_queue(settings: RouterSettings, source: ServiceBus) -> None:
    """A queue that is missing, of the other kind, or not ours to read ends the start and not the first receive."""
    found = _receivers(settings, source).open(max_wait=0.1)
    if found is not None:
        found.close()


def _ahead(settings: RouterSettings) -> FetchAhead:
    """Half of the memory is the slots'. Of a slot's, one part is fetched ahead, one is the batch that it works on, and two are what both of them
    take beyond their octets."""
    return FetchAhead(max(settings.prefetch, 1), settings.memory / 2 / settings.sessions / 4)


def _receivers(
    settings: RouterSettings,
    source: ServiceBus,
    ahead: FetchAhead | None = None,
    *,
    found: bool = False,
    goes_on: Callable[[], bool] = lambda: True,
) -> UnpackingReceivers:
    """Packs are taken apart whatever `queue.pack` says: messages of another ingester, or of an earlier setting, may be there.

    `found`: the queue was there. The right to send to it never was: a router needs it for poison in a pack alone.
    """
    queue, sessions = settings.queue_name, settings.ordering != "none"
    return UnpackingReceivers(
        source.receivers(queue, sessions=sessions, prefetch=settings.prefetch, ahead=ahead, proven=found),
        resend=lambda: source.sender(queue, proven=False),
        seen=Seen(settings.most_packed),
        goes_on=goes_on,
    )


class _News:
    """The destinations that the configuration names by now; while it cannot be read, those of before."""

    def __init__(self, latest: Latest | None) -> None:
        self._latest = latest
        self._last: object = None

    def __call__(self) -> object:
        if self._latest is not None:
            with suppress(DStreamError):
                self._last = frozenset(self._latest().destinations)
        return self._last


def _route(
    settings: RouterSettings,
    source: ServiceBus,
    publishers: Publishers,
    stop: threading.Event,
    pace: Pace,
    tally: Tally,
    latest: Latest | None,
) -> int:
    sessions = settings.ordering != "none"
    ahead = _ahead(settings)

    def goes_on() -> bool:
        tally.turn()
        return not stop.is_set()

    receivers = ObservedReceivers(_receivers(settings, source, ahead, found=True, goes_on=goes_on), tally)
    gate, spell, troubled, interruption = Gate(), Spell(), Troubled(), Interruption()
    parking = Parking(
        stop,
        room=PARKED_PER_SLOT * settings.sessions,
        memory=settings.memory / 4,
        ahead=ahead.bytes,
        news=_News(latest),
        turn=tally.turn,
    )
    tally.destinations, tally.interrupted = frozenset(settings.destinations), interruption.lasting
    tally.held = lambda: replace(parking.held(), failing=troubled.failing(time.monotonic()))
    fatal: list[BaseException] = []

    def work() -> None:
        try:
            Forwarder(
                receivers,
                publishers,
                stop,
                sessions,
                pace,
                gate,
                tally,
                parking=parking,
                on_poison=settings.on_poison,
                spell=spell,
                troubled=troubled,
                interruption=interruption,
            ).run()
        except BaseException as error:
            # Not only DStreamError: a slot that died of a defect must not leave a router that looks alive.
            fatal.append(error)
            stop.set()

    slots = [threading.Thread(target=work, name=f"slot-{number}", daemon=True) for number in range(settings.sessions)]
    slots.append(threading.Thread(target=parking.keep, name="parking", daemon=True))
    threading.Thread(target=publishers.keep, args=[stop], name="publishers", daemon=True).start()
    for slot in slots:
        slot.start()
    while not stop.wait(LOOK):
        if (still := tally.figures().still).stuck:
            tell_stacks()
            fatal.append(
                TransientError(f"routing: {still}", hint="the stacks of all threads, above, show where it hangs")
            )
            stop.set()
    deadline = time.monotonic() + STOP_WITHIN
    for slot in slots:
        slot.join(max(0.0, deadline - time.monotonic()))
    if fatal:
        raise next((error for error in fatal if isinstance(error, DStreamError)), fatal[0])
    late = sum(slot.is_alive() for slot in slots)
    if late:
        log.error("slots did not stop in time", slots=late, effect="their messages come again when their locks run out")
    return 1 if late else 0
