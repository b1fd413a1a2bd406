"""Settings to a running router. The type of bus is chosen by `common/buses.py`, those of outputs by `router/outputs/registry.py`."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from typing import Protocol

import structlog

from common.bus.fetch_ahead import FetchAhead
from common.bus.ports import Bus, QueueNeed, Storage
from common.buses import bus_of
from common.errors import DStreamError, Stopped
from common.names import TableName
from router.counting import ObservedReceivers
from router.file_limit import provide_descriptors
from router.fullness import Fullness
from router.health import Reports, endpoint
from router.publishing.outputs import Outputs, most_links_of
from router.receiving.pace import Pace
from router.receiving.parking import parked_per_slot
from router.receiving.slots import Slots
from router.receiving.unpack import Seen, UnpackingReceivers
from router.routing.table import RouteTable
from router.settings import CREATE_OR_REMOVE, CREATES_NOTHING, Latest, RouterSettings
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
    _routing(settings)  # before anything is opened: a filter that cannot be evaluated ends the start
    for setting in settings.creating_nothing:
        log.warning("setting creates no topics", setting=setting, reason=CREATES_NOTHING, hint=CREATE_OR_REMOVE)
    if settings.workers == 1:
        tally = tally or Tally()
        with endpoint(settings.health, tally.figures):
            return route(settings, stop, pace=pace, tally=tally, latest=latest)
    reports = Reports()
    with endpoint(settings.health, reports.figures):
        source, over = bus_of(settings.source), threading.Event()
        outputs = Outputs(settings, None, reports.start, over)
        provide_descriptors(most_links_of(settings, slots=0))
        reports.start.topics = outputs.spots()
        try:
            _open_all(settings, source, outputs, stop)
            outputs.rest()
            _watch_fullness(settings, source, outputs, reports.start, over, reports.figures)
            # Unavailable topics are tried again here: a worker tries them only when it has a message for them.
            outputs.keep(over)
            return Workers(settings, reports=reports, latest=latest).run(stop)
        except Stopped:
            return 0
        finally:
            over.set()
            outputs.close()
            source.close()


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
    source, tally = bus_of(settings.source, proven=proven), tally or Tally()
    outputs = Outputs(settings, latest, tally, stop, proven=proven)
    provide_descriptors(_most_links(settings))
    try:
        if not provisioned:
            _open_all(settings, source, outputs, stop)
            _watch_fullness(settings, source, outputs, tally, stop, tally.figures)
        tally.opening()
        if stop.is_set():
            return 0
        with _stoppable(stop, source):
            _find_queue(settings, source)
        _tell_start(settings)
        started()
        began = time.monotonic()
        status = _route(settings, source, outputs, stop, pace or Pace(batch=settings.batch), tally, latest)
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
        outputs.close()
        source.close()


def _tell_start(settings: RouterSettings) -> None:
    log.info(
        "router started",
        queue=settings.queue_name,
        topics=len(settings.topics),
        outputs=None if len(settings.streams) == 1 else ", ".join(settings.streams),
        slots=settings.slots,
        envelope=None if (enveloped := settings.output.enveloped) is None else enveloped.envelope,
    )


def _most_links(settings: RouterSettings) -> int:
    """The most links of a process that routes: to topics, and to the queue for each session that it may hold."""
    held = (1 + 2 * parked_per_slot(routes=bool(settings.route))) * settings.slots
    return most_links_of(settings, slots=settings.slots) + held


def _open_all(settings: RouterSettings, source: Bus, outputs: Outputs, stop: threading.Event) -> None:
    """Provide queue and places, and open each once. Raises as `route`, and Stopped."""
    queue = QueueNeed(settings.queue_name, settings.ordering != "none", settings.queue_duplicate_window)
    with _stoppable(stop, source, outputs):
        source.entities.provision([queue], how=settings.provision, stop=stop)
        outputs.open(stop)
    if stop.is_set():
        raise Stopped("asked to stop")


class _Cuttable(Protocol):
    def cut_calls(self) -> None: ...


@contextmanager
def _stoppable(stop: threading.Event, *reached: _Cuttable) -> Iterator[None]:
    """A start that is asked to stop has nothing in flight: its calls are cut, and it ends as stopped, whatever else it met."""
    over = threading.Event()

    def cut() -> None:
        while not over.wait(BLINK):
            if stop.is_set():
                for each in reached:
                    each.cut_calls()

    threading.Thread(target=cut, name="start", daemon=True).start()
    try:
        yield
    except DStreamError as error:
        if stop.is_set():
            raise Stopped("asked to stop") from error
        raise
    finally:
        over.set()


def _watch_fullness(
    settings: RouterSettings,
    source: Bus,
    outputs: Outputs,
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

    def topics(name: str) -> Mapping[str, Storage]:
        return outputs.storage(name, figures().topics)

    buses = [name for name, each in outputs.opened.items() if each.bus is not None]
    fullness = Fullness([queue, *(partial(topics, name) for name in buses)], tally)
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
    """The topics in the present configuration, and the patterns; while it cannot be read, the previous ones.

    The first answer is what the start has read: reading it again takes seconds of processor time, before anything is received.
    """

    def __init__(self, settings: RouterSettings, latest: Latest | None) -> None:
        self._latest = latest
        self._asked = False
        self._last = self._of(settings)

    def __call__(self) -> object:
        if self._asked and self._latest is not None:
            with suppress(DStreamError):
                self._last = self._of(self._latest())
        self._asked = True
        return self._last

    @staticmethod
    def _of(settings: RouterSettings) -> object:
        return frozenset(settings.topics), settings.selection


def _route(
    settings: RouterSettings,
    source: Bus,
    outputs: Outputs,
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
    return Slots(
        settings,
        receivers,
        outputs.publishers,
        stop,
        pace,
        tally,
        routing=_routing(settings),
        ahead=ahead.bytes,
        news=_News(settings, latest),
        cut=outputs.cut_calls,
    ).run()


def _routing(settings: RouterSettings) -> RouteTable | None:
    """Raises PermanentError where a filter needs a library that is not installed."""
    if not settings.route:
        return None
    return RouteTable(settings.route, _table_of(settings), settings.origin, settings.all_outputs.values())


def _table_of(settings: RouterSettings) -> Callable[[str], TableName | None]:
    """By its topic's name, for messages that do not say their table."""
    origin = settings.origin

    def found(topic: str) -> TableName | None:
        return settings.topics.get(topic) or (None if origin is None else origin.table_of(topic))

    return found
