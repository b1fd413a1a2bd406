"""The outputs of a process, each with its senders: made, opened at the start, kept and closed together. No other module opens one.

With one output a start ends with the output's error. With several it ends with a fault of the configuration, or when none can be used. One that is
away, or that lacks a right, a place or a login, holds up its own changes, and is tried again beside the routing. Decides nothing about messages.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import structlog
from structlog.contextvars import bound_contextvars

from common.bus.ports import Bus, Storage
from common.bus.settings import OutputSettings
from common.errors import ConfigurationError, DStreamError, PermanentError, Stopped, TransientError
from common.observability.tracing import spans_of
from common.retry import Backoff
from router.envelopes.sender import in_envelope
from router.outputs.port import Output, Stream
from router.outputs.registry import bus_behind, output_of
from router.publishing.further import Further
from router.publishing.publishers import Publishers, most_links
from router.publishing.refusals import Refusals
from router.publishing.topics import Topics
from router.publishing.traced import traced
from router.settings import Latest, RouterSettings
from router.side_topic import mark_of
from router.spots import spot
from router.tally import Tally

OPEN_WITHIN: Final = 15.0
"""Seconds that a start waits for the other outputs once one is open."""

AGAIN: Final = Backoff(first=1.0, longest=30.0)
"""Between two attempts to open an output beside the routing."""

WAITS = "its changes wait in the queue, and the other outputs go on; it is tried again by itself"

log = structlog.get_logger(__name__)

Make = Callable[[OutputSettings], Output]


@dataclass(frozen=True, slots=True)
class Opened:
    """One output of a process. `streams`: those that the configuration names, by their keys."""

    settings: OutputSettings
    output: Output
    streams: Mapping[str, Stream]
    publishers: Publishers

    @property
    def name(self) -> str:
        return self.settings.name

    @property
    def bus(self) -> Bus | None:
        return bus_behind(self.output)


@dataclass(slots=True)
class _Start:
    """Which outputs a start still waits for, and what it heard of the others."""

    left: set[str]
    heard: queue.Queue[tuple[str, DStreamError | None]] = field(default_factory=queue.Queue)
    guard: threading.Lock = field(default_factory=threading.Lock)


class Outputs:
    """By name, the default first; those alone that get something."""

    def __init__(
        self,
        settings: RouterSettings,
        latest: Latest | None,
        tally: Tally,
        stop: threading.Event,
        *,
        make: Make | None = None,
        proven: bool = False,
        within: float = OPEN_WITHIN,
        again: Backoff = AGAIN,
        refusals: Refusals | None = None,
    ) -> None:
        """`stop`: ends what goes on beside the routing. `latest`: see `router.app.run`. `proven`: see `router.outputs.registry.output_of`.
        `within`, `again`: see OPEN_WITHIN and AGAIN. `refusals`: of the process."""
        self._settings = settings
        self._tally = tally
        self._stop = stop
        self._within, self._again = within, again
        self._refusals = refusals or Refusals()
        make = make or partial(output_of, around=settings.around, proven=proven)
        made = {name: make(settings.all_outputs[name]) for name in settings.streams}
        further = Further(settings, latest, self._marked(made, latest))
        self.opened: Mapping[str, Opened] = {
            name: self._of(settings.all_outputs[name], output, further) for name, output in made.items()
        }

    @property
    def publishers(self) -> Mapping[str, Publishers]:
        return {name: each.publishers for name, each in self.opened.items()}

    def spots(self) -> frozenset[str]:
        """Of all streams that the configuration names; see router/spots.py."""
        return frozenset(spot(key, each.name) for each in self.opened.values() for key in each.streams)

    def open(self, stop: threading.Event, *, firm: Collection[str] = ()) -> None:
        """Provide each place, and open each once. Raises as the outputs do, and Stopped once `stop` is set. `firm`: a lasting fault of one of these
        is raised although another works."""
        if len(self.opened) == 1:
            self._open_one(next(iter(self.opened.values())), stop)
            return
        start = _Start(set(self.opened))
        for each in self.opened.values():
            args = (each, start, stop)
            threading.Thread(target=self._attempt, args=args, name=f"open-{each.name}", daemon=True).start()
        away = dict(self._heard(start, stop, firm))
        with start.guard:
            late, start.left = set(start.left), set()
        for name, error in away.items():
            self._tell_away(self.opened[name], error)
            self._try_again(self.opened[name], error)
        for name in sorted(late):
            error = TransientError("it has not been opened yet: it does not answer, or it is slow")
            self._tell_away(self.opened[name], error)

    def _heard(self, start: _Start, stop: threading.Event, firm: Collection[str]) -> Iterator[tuple[str, DStreamError]]:
        """The outputs that cannot be used, as long as a start waits. Raises a fault of the configuration, and what all met if none works."""
        until, works = None, False
        left, met = set(self.opened), list[DStreamError]()
        while left and not stop.is_set():
            if until is not None and time.monotonic() >= until:
                return
            try:
                name, error = start.heard.get(timeout=0.2)
            except queue.Empty:
                continue
            left.discard(name)
            if error is None:
                works, until = True, until or time.monotonic() + self._within
            elif isinstance(error, TransientError) or (isinstance(error, PermanentError) and name not in firm):
                met.append(_naming(name, error))
                yield name, error
            else:
                raise _naming(name, error)
        if stop.is_set():
            raise Stopped("asked to stop")
        if not works and met:
            raise _together(met)

    def _attempt(self, each: Opened, start: _Start, stop: threading.Event) -> None:
        error = None
        try:
            self._open_one(each, stop)
        except DStreamError as fault:
            error = fault
        with start.guard:
            if each.name in start.left:
                start.left.discard(each.name)
                start.heard.put((each.name, error))
                return
        if error is None:
            self._tell_back(each)
        else:
            if isinstance(error, PermanentError):
                self._tell_away(each, error)  # until now the log says that it has not answered
            self._try_again(each, error)

    def _open_one(self, each: Opened, stop: threading.Event) -> None:
        how = self._settings.provision
        with bound_contextvars(**({"output": each.name} if len(self.opened) > 1 else {})):
            late = set(each.output.provision(list(each.streams.values()), how=how, stop=stop))
        excused = [key for key, stream in each.streams.items() if stream.topic in late]
        each.publishers.open(stop, excused=excused, exist=how != "none")

    def _try_again(self, each: Opened, error: DStreamError) -> None:
        threading.Thread(target=self._open_later, args=(each, error), name=f"open-{each.name}", daemon=True).start()

    def _open_later(self, each: Opened, error: DStreamError) -> None:
        """Until it works, or a stop. Meanwhile its publishers are tried by what is sent to them."""
        failures, reported = 1, isinstance(error, PermanentError)
        while not self._stop.wait(self._again.delay(failures)):
            try:
                self._open_one(each, self._stop)
            except Stopped:
                return
            except DStreamError as fault:
                failures += 1
                self._tally.topic_failed(spot("", each.name), str(fault))
                if isinstance(fault, PermanentError) and not reported:
                    reported = True
                    self._tell_away(each, fault)
            else:
                self._tell_back(each)
                return

    def _tell_away(self, each: Opened, error: DStreamError) -> None:
        self._tally.topic_failed(spot("", each.name), str(error))
        report = log.error if isinstance(error, PermanentError) else log.warning
        report("output unavailable", output=each.name, error=error.message, hint=error.hint, effect=WAITS)

    def _tell_back(self, each: Opened) -> None:
        self._tally.topic_works(spot("", each.name))
        log.info("output available again", output=each.name)

    def cut_calls(self) -> None:
        for each in self.opened.values():
            each.output.cut_calls()

    def keep(self, stop: threading.Event) -> None:
        """Start the threads that look after links, until `stop`."""
        for each in self.opened.values():
            threading.Thread(target=each.publishers.keep, args=[stop], name="publishers", daemon=True).start()

    def rest(self) -> None:
        for each in self.opened.values():
            each.publishers.rest()

    def close(self) -> None:
        for each in self.opened.values():
            each.publishers.close()
        for each in self.opened.values():
            each.output.close()

    def storage(self, name: str, topics: Collection[str]) -> Mapping[str, Storage]:
        """How full the topics of this output are. `topics`: the spots that are known now. Raises as `EntityManager.topics_storage`."""
        each = self.opened[name]
        places = dict.fromkeys(stream.destination for stream in each.streams.values())
        if each.settings.is_default:
            places |= dict.fromkeys(sorted(topic for topic in topics if spot(topic) == topic))
        assert each.bus is not None
        found = each.bus.entities.topics_storage(list(places), stop=self._stop)
        where = "" if each.settings.is_default else f"output {name}: "
        return {f"{where}topic {topic}": storage for topic, storage in found.items()}

    def _of(self, output: OutputSettings, made: Output, further: Further) -> Opened:
        streams = self._settings.streams[output.name]

        def provide(stream: Stream) -> None:
            made.provision([stream], how=self._settings.provision, stop=self._stop)

        senders = traced(output, in_envelope(output, made.sender), spans_of("dstream-router"))
        topics = Topics(self._settings, output, streams, senders, provide, further, self._tally, self._refusals)
        return Opened(output, made, streams, topics.publishers())

    def _marked(self, made: Mapping[str, Output], latest: Latest | None) -> Callable[[], Collection[str]] | None:
        """Lists side topics, which only a bus has; None if they cannot be seen."""
        bus = None if (default := made.get(self._settings.output.name)) is None else bus_behind(default)
        if bus is None or latest is None or self._settings.provision == "none":
            return None
        return partial(bus.entities.marked, mark_of(self._settings), stop=self._stop)


def most_links_of(settings: RouterSettings, *, slots: int) -> int:
    """The most links of a process to all of its outputs, with those to the places of tables that patterns may match."""
    further = settings.match_at_most if settings.selection.patterns else 0
    return sum(most_links(len(streams) + further, slots) for streams in settings.streams.values())


def _naming(name: str, error: DStreamError) -> DStreamError:
    """An error of the same kind with the output's name; a stop stays one."""
    if isinstance(error, Stopped):
        return error
    if isinstance(error, ConfigurationError):
        return ConfigurationError([f"output {name}: {problem}" for problem in error.problems], hint=error.hint)
    kind = PermanentError if isinstance(error, PermanentError) else TransientError
    named = kind(f"output {name}: {error.message}", hint=error.hint)
    named.__cause__ = error
    return named


def _together(met: Sequence[DStreamError]) -> DStreamError:
    """What all outputs met, as one error: it lasts if one of them does, as only a person can end that."""
    lasting = [error for error in met if isinstance(error, PermanentError)]
    first = (lasting or met)[0]
    rest = [str(error) for error in met if error is not first]
    kind = PermanentError if lasting else TransientError
    error = kind("; ".join([*rest, first.message]), hint=first.hint)
    error.__cause__ = first
    return error
