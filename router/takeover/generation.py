"""One set of settings with everything open that it takes to route: the queue, the outputs, the slots. `app.py` makes one, and another for each edit.

It names no adapter: the caller passes the queue's bus.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from typing import Protocol

from common.bus.fetch_ahead import FetchAhead
from common.bus.ports import Bus, QueueNeed, Storage
from common.errors import DStreamError, Stopped
from common.names import TableName
from router.counting import ObservedReceivers
from router.file_limit import provide_descriptors
from router.fullness import Fullness
from router.publishing.outputs import Outputs, most_links_of
from router.receiving.carried import Carried
from router.receiving.pace import Pace
from router.receiving.parking import parked_per_slot
from router.receiving.slots import Slots
from router.receiving.unpack import Seen, UnpackingReceivers
from router.routing.table import RouteTable
from router.settings import Latest, RouterSettings
from router.tally import Figures, Tally

BLINK = 0.2
"""Seconds until a start sees a stop while it waits for an answer."""


class Generation:
    """`over`: ends it. A `router.takeover.follow.Candidate`, and a `router.takeover.succession.Routing`."""

    def __init__(
        self,
        settings: RouterSettings,
        source: Bus,
        latest: Latest | None,
        tally: Tally,
        *,
        pace: Pace | None = None,
        proven: bool = False,
        figures: Callable[[], Figures] | None = None,
        routes: bool = True,
        fans_out: bool = False,
        asks: bool = False,
        carried: Carried | None = None,
    ) -> None:
        """`proven`: another process has routed. `figures`: of the whole router, where this process is its parent, which opens everything once and
        does not route (`routes`). `asks`: it looks whether the queue can be
        received from all the same. `fans_out`: also without routes, because sessions may say what the default output has. `carried`: what the
        process knows already.
        Raises PermanentError where a filter needs a library that is not installed."""
        self.settings = settings
        self.over = threading.Event()
        self._source, self._latest, self._tally = source, latest, tally
        self._pace = pace or Pace(batch=settings.batch)
        self._figures, self._routes = figures or tally.figures, routes
        self._asks = routes or asks
        self._carried = carried or Carried()
        self._table = _routing(settings, always=fans_out)  # before anything is opened
        self.outputs = Outputs(settings, latest, tally, self.over, proven=proven, refusals=self._carried.refusals)
        self._closing, self._closed = threading.Lock(), False
        self._succeeded = False

    def open(self, changed: Collection[str] = (), *, provisioned: bool = False) -> None:
        """Provide queue and places, and open each once. Raises as `router.app.route`, and Stopped once `over`. `changed`: see `Outputs.open`.
        `provisioned`: another process has seen to queue and places."""
        settings = self.settings
        provide_descriptors(
            _most_links(settings, fans_out=self._table is not None)
            if self._routes
            else most_links_of(settings, slots=0)
        )
        if not provisioned:
            self._open_all(changed)
            self._watch_fullness()
        if self._asks:
            self._tally.opening()
            with _stoppable(self.over, self._source):
                self._find_queue()
        if self.over.is_set():
            raise Stopped("asked to stop")

    def _open_all(self, changed: Collection[str]) -> None:
        settings = self.settings
        queue = QueueNeed(settings.queue_name, settings.ordering != "none", settings.queue_duplicate_window)
        with _stoppable(self.over, self._source, self.outputs):
            self._source.entities.provision([queue], how=settings.provision, stop=self.over)
            self.outputs.open(self.over, firm=changed)
        if self.over.is_set():
            raise Stopped("asked to stop")

    def _find_queue(self) -> None:
        """A queue that is missing, has the wrong kind or may not be read must end the start, not the first receive."""
        found = _receivers(self.settings, self._source).open(max_wait=0.1)
        if found is not None:
            found.close()

    def stand_by(self) -> None:
        """Of a parent: close links, and try again what is unavailable, because a worker does so only with a message for it."""
        self._forget_fullness()
        self.outputs.rest()
        self.outputs.keep(self.over)

    def run(self) -> int:
        """See `router.takeover.succession.Routing`."""
        self._forget_fullness()
        settings, tally = self.settings, self._tally
        ahead = _ahead(settings)

        def goes_on() -> bool:
            tally.turn()
            return not self.over.is_set()

        receivers = _receivers(settings, self._source, ahead, found=True, goes_on=goes_on)
        tally.forget_outputs_besides(settings.streams)
        return Slots(
            settings,
            ObservedReceivers(receivers, tally),
            self.outputs.publishers,
            self.over,
            self._pace,
            tally,
            routing=self._table,
            ahead=ahead.bytes,
            news=News(settings, self._latest),
            cut=self.cut,
            succeeded=lambda: self._succeeded,
            carried=self._carried,
        ).run()

    def abandon(self) -> None:
        self.over.set()

    def hand_over(self) -> None:
        """See `router.takeover.succession.Routing`."""
        self._succeeded = True
        self.over.set()

    def cut(self) -> None:
        """Also those to the queue: a session that is not given back yet would stay locked."""
        self._source.cut_calls()
        self.outputs.cut_calls()

    def close(self) -> None:
        """Once; a second time it does nothing."""
        self.over.set()
        with self._closing:
            if not self._closed:
                self._closed = True
                self.outputs.close()
                self._source.close()

    def _forget_fullness(self) -> None:
        """Of the settings before these, where nobody looks any more."""
        if self.settings.provision == "none":
            self._tally.filled({}, {})

    def _watch_fullness(self) -> None:
        """In a thread of its own; `provision = "none"` makes no management call, and so knows nothing of it. The figures have topics added since."""
        settings = self.settings
        if settings.provision == "none":
            return

        def queue() -> Mapping[str, Storage]:
            found = self._source.entities.queue_storage(settings.queue_name, stop=self.over)
            return {} if found is None else {f"queue {settings.queue_name}": found}

        def topics(name: str) -> Mapping[str, Storage]:
            return self.outputs.storage(name, self._figures().topics)

        buses = [name for name, each in self.outputs.opened.items() if each.bus is not None]
        fullness = Fullness([queue, *(partial(topics, name) for name in buses)], self._tally)
        threading.Thread(target=fullness.run, args=[self.over], name="fullness", daemon=True).start()


def _most_links(settings: RouterSettings, *, fans_out: bool) -> int:
    """The most links of a process that routes: to topics, and to the queue for each session that it may hold."""
    held = (1 + 2 * parked_per_slot(routes=fans_out)) * settings.slots
    return most_links_of(settings, slots=settings.slots) + held


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


class News:
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


def _routing(settings: RouterSettings, *, always: bool) -> RouteTable | None:
    """Raises PermanentError where a filter needs a library that is not installed."""
    if not settings.route and not always:
        return None
    return RouteTable(settings.route, _table_of(settings), settings.origin, settings.all_outputs.values())


def _table_of(settings: RouterSettings) -> Callable[[str], TableName | None]:
    """By its topic's name, for messages that do not say their table."""
    origin = settings.origin

    def found(topic: str) -> TableName | None:
        return settings.topics.get(topic) or (None if origin is None else origin.table_of(topic))

    return found
