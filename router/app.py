"""Settings to a running router. The type of bus is chosen by `common/buses.py`; no other module here opens one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial

import structlog

from common.bus.fetch_ahead import FetchAhead
from common.bus.ports import Bus, QueueNeed, Storage, TopicNeed
from common.buses import bus_of
from common.errors import DStreamError, Stopped
from router.counting import ObservedReceivers
from router.envelopes.sender import in_envelope
from router.file_limit import provide_descriptors
from router.fullness import Fullness
from router.health import Reports, endpoint
from router.publishing.publishers import Publishers, most_links
from router.publishing.topics import Topics
from router.receiving.pace import Pace
from router.receiving.parking import PARKED_PER_SLOT
from router.receiving.slots import Slots
from router.receiving.unpack import Seen, UnpackingReceivers
from router.settings import CREATE_OR_REMOVE, CREATES_NOTHING, Latest, RouterSettings
from router.side_topic import mark_of
from router.supervisor import Workers
from router.tally import Figures, Tally

BLINK = 0.2
"""Seconds until a start sees a stop while it waits for an answer."""

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

    Raises ConfigurationError, PermanentError or TransientError when it cannot start, so that a supervisor learns at once and restarts it.
    Raises PermanentError when the queue is deleted while it runs. `latest` returns the settings of the present configuration, from any thread
    and, pickled, from any process; it is called for a topic that `settings` do not have.
    """
    for setting in settings.creating_nothing:
        log.warning("setting creates no topics", setting=setting, reason=CREATES_NOTHING, hint=CREATE_OR_REMOVE)
    if settings.workers == 1:
        tally = tally or Tally()
        with endpoint(settings.health, tally.figures):
            return route(settings, stop, pace=pace, tally=tally, latest=latest)
    reports = Reports()
    with endpoint(settings.health, reports.figures):
        source, output = bus_of(settings.source), bus_of(settings.output)
        provide_descriptors(most_links(_most_topics(settings), slots=0))
        over = threading.Event()
        reports.start.topics = frozenset(settings.topics)
        publishers = _publishers(settings, output, None, reports.start, over)
        try:
            _open_all(settings, source, output, publishers, stop)
            publishers.rest()
            _watch_fullness(settings, source, output, reports.start, over, reports.figures)
            # Unavailable topics are tried again here: a worker tries them only when it has a message for them.
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

    `started` is called when all links are open. `stop` is set when it ends with an error of its own.
    """
    source, output = bus_of(settings.source, proven=proven), bus_of(settings.output, proven=proven)
    provide_descriptors(_most_links(settings))
    tally = tally or Tally()
    publishers = _publishers(settings, output, latest, tally, stop)
    try:
        if not provisioned:
            _open_all(settings, source, output, publishers, stop)
            _watch_fullness(settings, source, output, tally, stop, tally.figures)
        tally.opening()
        if stop.is_set():
            return 0
        with _stoppable(stop, source):
            _find_queue(settings, source)
        _tell_start(settings)
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


def _tell_start(settings: RouterSettings) -> None:
    log.info(
        "router started",
        queue=settings.queue_name,
        topics=len(settings.topics),
        slots=settings.slots,
        envelope=None if (enveloped := settings.output.enveloped) is None else enveloped.envelope,
    )


def _most_links(settings: RouterSettings) -> int:
    """The most links of a process that routes: to topics, and to the queue for each session that it may hold."""
    held = (1 + 2 * PARKED_PER_SLOT) * settings.slots
    return most_links(_most_topics(settings), settings.slots) + held


def _most_topics(settings: RouterSettings) -> int:
    """With those of tables that patterns may match."""
    return len(settings.topics) + (settings.match_at_most if settings.selection.patterns else 0)


def _publishers(
    settings: RouterSettings, output: Bus, latest: Latest | None, tally: Tally, stop: threading.Event
) -> Publishers:
    def provide(topic: str) -> None:
        _provide_topics(settings, output, [topic], stop)

    marked = partial(output.entities.marked, mark_of(settings), stop=stop)
    seen = latest is not None and settings.provision != "none"
    senders = in_envelope(settings.output, output.sender)
    return Topics(settings, senders, provide, latest, tally, marked if seen else None).publishers()


def _open_all(
    settings: RouterSettings, source: Bus, output: Bus, publishers: Publishers, stop: threading.Event
) -> None:
    """Provide the entities, and open each topic once. Raises as `route`, and Stopped."""
    with _stoppable(stop, source, output):
        late = _provision(settings, source, output, stop)
        publishers.open(stop, excused=late, exist=settings.provision != "none")
    if stop.is_set():
        raise Stopped("asked to stop")


@contextmanager
def _stoppable(stop: threading.Event, *buses: Bus) -> Iterator[None]:
    """A start that is asked to stop has nothing in flight: its calls are cut, and it ends as stopped, whatever else it met."""
    over = threading.Event()

    def cut() -> None:
        while not over.wait(BLINK):
            if stop.is_set():
                for bus in buses:
                    bus.cut_calls()

    threading.Thread(target=cut, name="start", daemon=True).start()
    try:
        yield
    except DStreamError as error:
        if stop.is_set():
            raise Stopped("asked to stop") from error
        raise
    finally:
        over.set()


def _provision(settings: RouterSettings, source: Bus, output: Bus, stop: threading.Event) -> Collection[str]:
    queue = QueueNeed(settings.queue_name, settings.ordering != "none", settings.queue_duplicate_window)
    source.entities.provision([queue], how=settings.provision, stop=stop)
    return _provide_topics(settings, output, settings.topics, stop)


def _provide_topics(
    settings: RouterSettings, output: Bus, topics: Iterable[str], stop: threading.Event | None = None
) -> Collection[str]:
    needs = [TopicNeed(topic, settings.subscriptions, settings.duplicate_window) for topic in topics]
    return output.entities.provision(needs, how=settings.provision, stop=stop)


def _watch_fullness(
    settings: RouterSettings,
    source: Bus,
    output: Bus,
    tally: Tally,
    stop: threading.Event,
    figures: Callable[[], Figures],
) -> None:
    """In a thread of its own; `provision = "none"` makes no management call, and so knows nothing of it. `figures` have topics added since."""
    if settings.provision == "none":
        return

    def queue() -> Mapping[str, Storage]:
        found = source.entities.queue_storage(settings.queue_name, stop=stop)
        return {} if found is None else {f"queue {settings.queue_name}": found}

    def topics() -> Mapping[str, Storage]:
        names = dict.fromkeys([*settings.topics, *sorted(figures().topics)])
        found = output.entities.topics_storage(list(names), stop=stop)
        return {f"topic {topic}": storage for topic, storage in found.items()}

    fullness = Fullness([queue, topics], tally)
    threading.Thread(target=fullness.run, args=[stop], name="fullness", daemon=True).start()


def _find_queue(settings: RouterSettings, source: Bus) -> None:
    """A queue that is missing, has the wrong kind or may not be read must end the start, not the first receive."""
    found = _receivers(settings, source).open(max_wait=0.1)
    if found is not None:
        found.close()


def _ahead(settings: RouterSettings) -> FetchAhead:
    """Half of the memory is for the slots. Of a slot's share, one part is fetched ahead, one is the batch in work, and two are what both take
    beyond their octets."""
    return FetchAhead(max(settings.prefetch, 1), settings.memory / 2 / settings.slots / 4)


def _receivers(
    settings: RouterSettings,
    source: Bus,
    ahead: FetchAhead | None = None,
    *,
    found: bool = False,
    goes_on: Callable[[], bool] = lambda: True,
) -> UnpackingReceivers:
    """Packs are taken apart whatever `queue.pack` says: messages of another ingester, or of an earlier setting, may be there.

    `found`: the queue was found. The right to send to it was never tested: a router needs it only for poison in a pack.
    """
    queue, sessions = settings.queue_name, settings.ordering != "none"
    return UnpackingReceivers(
        source.receivers(queue, sessions=sessions, prefetch=settings.prefetch, ahead=ahead, proven=found),
        resend=lambda: source.sender(queue, proven=False),
        seen=Seen(settings.most_packed),
        goes_on=goes_on,
    )


class _News:
    """The topics in the present configuration, and the patterns; while it cannot be read, the previous ones."""

    def __init__(self, latest: Latest | None) -> None:
        self._latest = latest
        self._last: object = None

    def __call__(self) -> object:
        if self._latest is not None:
            with suppress(DStreamError):
                present = self._latest()
                self._last = frozenset(present.topics), present.selection
        return self._last


def _route(
    settings: RouterSettings,
    source: Bus,
    publishers: Publishers,
    stop: threading.Event,
    pace: Pace,
    tally: Tally,
    latest: Latest | None,
) -> int:
    ahead = _ahead(settings)

    def goes_on() -> bool:
        tally.turn()
        return not stop.is_set()

    receivers = ObservedReceivers(_receivers(settings, source, ahead, found=True, goes_on=goes_on), tally)
    outputs = {settings.output.name: publishers}
    return Slots(settings, receivers, outputs, stop, pace, tally, ahead=ahead.bytes, news=_News(latest)).run()
