"""Settings to a running router. The type of bus is chosen by `common/buses.py`, those of outputs by `router/outputs/registry.py`."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager

import structlog

from common.buses import bus_of
from common.errors import Stopped
from common.observability.unanswered import told_while_unanswered
from router.health import Reports, endpoint
from router.receiving.carried import Carried
from router.receiving.pace import Pace
from router.settings import CREATE_OR_REMOVE, CREATES_NOTHING, Latest, RouterSettings
from router.supervisor import Workers
from router.takeover.follow import Follower, Watch, unwatched
from router.takeover.generation import Generation
from router.takeover.succession import Succession, passed_on
from router.tally import Tally

log = structlog.get_logger(__name__)


def run(
    settings: RouterSettings,
    stop: threading.Event,
    *,
    pace: Pace | None = None,
    tally: Tally | None = None,
    latest: Latest | None = None,
    watched: Watch = unwatched,
) -> int:
    """Route until `stop` is set, with one process or with several: 0 when everything in flight was settled or given back, else 1.

    Raises ConfigurationError, PermanentError or TransientError when it cannot start, so that a supervisor learns at once and restarts it.
    Raises PermanentError when the queue is deleted while it runs. `latest` returns the settings of the present configuration, from any thread
    and, pickled, from any process; it is called for a topic that `settings` do not have. `watched`: reports edits, which are taken over.
    """
    for setting in settings.creating_nothing:
        log.warning("setting creates no topics", setting=setting, reason=CREATES_NOTHING, hint=CREATE_OR_REMOVE)
    if settings.workers == 1:
        tally = tally or Tally()
        with endpoint(settings.health, tally.figures):
            return route(settings, stop, pace=pace, tally=tally, latest=latest, watched=watched)
    reports = Reports()
    with endpoint(settings.health, reports.figures):
        return _Parent(settings, stop, reports, latest).run(watched)


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
    watched: Watch = unwatched,
    fans_out: bool = False,
    carried: Carried | None = None,
) -> int:
    """As `run`, in this process. `provisioned`: another process has seen to queue and topics; `proven`: and has routed.
    `fans_out`, `carried`: see `Generation`.

    `started` is called when all links are open. `stop` is set when it ends with an error of its own.
    """
    own, known = tally or Tally(), carried or Carried()

    def make(chosen: RouterSettings, *, proven: bool = False) -> Generation:
        nonlocal fans_out
        fans_out = fans_out or bool(chosen.route)
        source = bus_of(chosen.source, proven=proven)
        return Generation(chosen, source, latest, own, pace=pace, proven=proven, fans_out=fans_out, carried=known)

    first = make(settings, proven=proven)
    succession = Succession(first, stop)
    try:
        with passed_on(stop, succession.end):
            with _opening(settings):
                first.open(provisioned=provisioned)
            _tell_start(settings)
            started()
            with (
                Follower(settings, make, succession.succeed, own) as follower,
                watched(follower.edited, follower.refused),
            ):
                return _routed(succession, own)
    except Stopped:
        return 0
    finally:
        succession.now.close()


def _routed(succession: Succession, tally: Tally) -> int:
    began = time.monotonic()
    status = succession.run()
    log.info(
        "router stopped",
        routed=tally.routed.total(),
        dead_lettered=dict(tally.dead_lettered),
        lost_locks=tally.lost_locks,
        retries=tally.retries.total(),
        seconds=round(time.monotonic() - began, 1),
    )
    return status


def _opening(settings: RouterSettings) -> AbstractContextManager[None]:
    return told_while_unanswered(
        f"queue {settings.queue_name} at {settings.source.where}, and the outputs",
        hint="check that they can be reached, and are not throttled; thousands of topics take minutes",
    )


def _tell_start(settings: RouterSettings) -> None:
    log.info(
        "router started",
        queue=settings.queue_name,
        topics=len(settings.topics),
        outputs=None if len(settings.streams) == 1 else ", ".join(settings.streams),
        slots=settings.slots,
        envelope=None if (enveloped := settings.output.enveloped) is None else enveloped.envelope,
    )


class _Parent:
    """Opens everything once and routes nothing: its workers do."""

    def __init__(
        self, settings: RouterSettings, stop: threading.Event, reports: Reports, latest: Latest | None
    ) -> None:
        self._settings, self._stop, self._reports, self._latest = settings, stop, reports, latest
        self._workers = Workers(settings, reports=reports, latest=latest)
        self._now = self._made(settings)
        self._follower: Follower[Generation] | None = None

    def run(self, watched: Watch) -> int:
        """See `run`."""
        try:
            with passed_on(self._stop, lambda: self._now.over.set()):
                with _opening(self._settings):
                    self._now.open()
                self._stands_by(self._now)
                with (
                    Follower(self._settings, self._candidate, self._adopted, self._reports.start) as follower,
                    watched(follower.edited, follower.refused),
                ):
                    self._follower = follower
                    return self._workers.run(self._stop)
        except Stopped:
            return 0
        finally:
            self._now.close()

    def _made(self, settings: RouterSettings, *, asks: bool = False) -> Generation:
        source, start = bus_of(settings.source), self._reports.start
        return Generation(settings, source, self._latest, start, figures=self._reports.figures, routes=False, asks=asks)

    def _candidate(self, settings: RouterSettings) -> Generation:
        """It asks the queue as well: what a worker would find is found before a worker has left."""
        return self._made(settings, asks=True)

    def _stands_by(self, opened: Generation) -> None:
        self._counts(opened)
        opened.stand_by()

    def _counts(self, opened: Generation) -> None:
        self._reports.begin(opened.outputs.spots())
        self._reports.start.forget_outputs_besides(opened.settings.streams)

    def _adopted(self, opened: Generation) -> bool:
        """Returns once every worker has the settings. Raises what a worker met with them; the previous ones are in force then."""
        self._stands_by(opened)
        try:
            taken = self._workers.take_over(opened.settings, gives_way=self._has_news)
        except BaseException:
            self._counts(self._now)
            opened.close()
            raise
        if taken:
            previous, self._now = self._now, opened
            previous.close()
            self._counts(opened)  # without those of the workers that have left
        return taken

    def _has_news(self) -> bool:
        return self._follower is not None and self._follower.has_news
