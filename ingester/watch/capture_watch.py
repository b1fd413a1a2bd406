"""Looks at the source's capture every half a minute, in a thread and on a connection of its own: lag, retention
headroom, and why no changes arrive.

The loop never waits for it and reads none of its results. It logs each thing that changed once, and keeps the rest for
metrics.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

import structlog

from common.errors import PermanentError, TransientError
from common.names import TableName
from common.periodic import repeat
from ingester.capture_status import LAG_SECONDS, CaptureError, CaptureView, Explanation, LogTimes, Retention, Silence
from ingester.watch.figures import Figures, TableFigures
from ingester.watch.retention import Alarm, alarm, headroom
from ingester.watch.stats import IngesterStats

log = structlog.get_logger("ingester")

EVERY_SECONDS = 30.0
QUIET_SECONDS = 60.0
"""Without a change for so long, the server is asked why."""
_FIRST_SECONDS = 5.0
"""Between looks until the first one that succeeds: a warning about an offset that cleanup is about to pass must not
wait longer."""
_RETENTION_SECONDS = 600.0
"""How old the known retention may be: people change it by hand."""
_TELL_IDLE_SECONDS = 300.0
"""An idle source gets one line after so long."""

_FLOWING = Explanation(Silence.FLOWING, "changes flow")
_IDLE = Explanation(Silence.IDLE, "nothing to read: capture is active and finds no changes of these tables")
_AMISS = (Silence.STOPPED, Silence.LAGGING)


@dataclass(frozen=True, slots=True)
class CaptureFigures:
    """The results of the last look. `asked`: when, on the steady clock. `waiting`, `headroom`: seconds by table, as far
    as they are known. A table that is in the middle of the newest transaction waits since that was committed.

    `newest`: seconds since the commit of the newest captured transaction. `retention`: in seconds; None where it is not
    to be seen.
    """

    asked: float | None = None
    why: Explanation = _FLOWING
    newest: float | None = None
    retention: float | None = None
    waiting: Mapping[TableName, float] = field(default_factory=dict)
    headroom: Mapping[TableName, float] = field(default_factory=dict)

    def lag(self, now: float, table: TableFigures, name: TableName) -> float:
        """Seconds since the commit of the oldest change that is not sent yet; 0 if the last look found none.

        What came since the last question is counted from when the loop saw it.
        """
        if table.behind is None:
            return 0.0
        seen = now - table.behind
        if self.asked is None or self.asked <= table.behind or name not in self.waiting:
            return seen
        return max(seen, self.waiting[name] + now - self.asked)

    def silence(self, now: float, table: TableFigures) -> Silence:
        """Why no changes of this table arrive."""
        flows = table.behind is not None or (table.changed is not None and now - table.changed < QUIET_SECONDS)
        if flows and self.why.state not in _AMISS:
            return Silence.FLOWING
        return Silence.IDLE if self.why.state is Silence.FLOWING else self.why.state


class Watch:
    """Only this object's thread uses `view`, and it closes it."""

    def __init__(self, view: CaptureView, stats: IngesterStats) -> None:
        self._view = view
        self._stats = stats
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)
        self._retention: Retention | None = None
        self._retention_at = float("-inf")
        self._alarms: dict[TableName, Alarm] = {}
        self._errors: frozenset[CaptureError] = frozenset()
        self._told: set[str] = set()
        self._told_idle = False
        self._silent: Silence | None = None
        self.seen = CaptureFigures()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Does not wait for a pending question: the thread ends with the process."""
        self._stop.set()
        self._thread.join(1.0)

    def _run(self) -> None:
        repeat(self.look, "capture", self._stop, every=self._pause)
        self._view.close()

    def _pause(self) -> float:
        return _FIRST_SECONDS if self.seen.asked is None else EVERY_SECONDS

    def look(self) -> None:
        """Ask, log what changed, keep the rest. Where there is no answer, the last explanation stays."""
        figures = self._stats.figures()
        if not figures.connected:  # the loop has logged it, and logs when it is over
            return
        try:
            times = self._times()
            retention = self._asked_retention(figures.now)
            why = self._explained(figures, times)
        except TransientError as error:
            log.debug("capture not asked, retrying", error=error.message)
            return
        except PermanentError as error:
            self._tell_once("capture state unavailable", error.message, hint=error.hint)
            return
        ours = {
            name: of
            for name, table in figures.tables.items()
            if table.ours and (of := times.offsets.get(name.key)) is not None
        }
        kept = retention.seconds
        found = CaptureFigures(
            asked=figures.now,
            why=why,
            newest=times.newest,
            retention=kept,
            waiting={name: of.waiting if of.waiting is not None else times.newest or 0.0 for name, of in ours.items()},
            headroom={} if kept is None else {name: headroom(kept, of.age) for name, of in ours.items()},
        )
        self.seen = found
        self._tell_silence(figures, why)
        self._tell_headroom(found, retention.longer)

    def _times(self) -> LogTimes:
        try:
            return self._view.times()
        except PermanentError as error:  # capture is off, or a right is missing: the explanation says which
            self._tell_once("lag and retention headroom unknown", error.message, hint=error.hint)
            return LogTimes(None, {})

    def _asked_retention(self, now: float) -> Retention:
        if self._retention is not None and now - self._retention_at < _RETENTION_SECONDS:
            return self._retention
        self._retention, self._retention_at = self._view.retention(), now
        if (hint := self._retention.unseen) is not None:
            why = "this login may not see how long changes are kept"
            self._tell_once("retention headroom unknown", why, hint=hint, warn=False)
        return self._retention

    def _explained(self, figures: Figures, times: LogTimes) -> Explanation:
        """The server is not asked while changes arrive as fast as they are captured."""
        quiet = figures.quiet >= QUIET_SECONDS
        if times.newest is not None and times.newest <= LAG_SECONDS:
            return _IDLE if quiet else _FLOWING
        found = self._view.silence(times.newest)
        self._tell_errors(frozenset(found.errors))
        return found if quiet or found.state in _AMISS else _FLOWING

    # the log

    def _tell_once(self, what: str, why: str, *, hint: str | None, warn: bool = True) -> None:
        if what + why not in self._told:
            self._told.add(what + why)
            (log.warning if warn else log.info)(what, why=why, hint=hint)

    def _tell_errors(self, errors: frozenset[CaptureError]) -> None:
        for error in sorted(errors - self._errors, key=lambda error: error.number):
            log.error("capture reported an error", number=error.number, error=error.text)
        self._errors = errors

    def _tell_silence(self, figures: Figures, why: Explanation) -> None:
        """A stop or a lag once, and its end; idleness after a while, unless changes wait to be sent; a missing right once."""
        quiet = figures.quiet
        if why.state in _AMISS:
            if why.state is not self._silent:
                stopped = why.state is Silence.STOPPED or quiet >= QUIET_SECONDS
                what = "no changes arrive" if stopped else "changes arrive late"
                log.warning(what, why=why.text, hint=why.hint)
            self._silent = why.state
            return
        if self._silent is not None and why.state is not Silence.UNKNOWN:
            self._silent = None
            log.info("capture works again")
        if why.state is Silence.UNKNOWN and figures.answers:  # else the loop has logged which right is missing
            self._tell_once("no changes arrive", why.text, hint=why.hint)
        elif why.state is Silence.IDLE and quiet >= _TELL_IDLE_SECONDS and not self._told_idle and not figures.behind:
            self._told_idle = True
            log.info("idle", why=why.text)
        elif why.state is Silence.FLOWING:
            self._told_idle = False

    def _tell_headroom(self, found: CaptureFigures, longer: str) -> None:
        if found.retention is None:
            return
        for name, left in found.headroom.items():
            former = self._alarms.get(name, Alarm.NONE)
            now = alarm(former, left, found.retention)
            self._alarms[name] = now
            if now > former:
                log.warning(
                    _HEADROOM[now],
                    table=name.key,
                    hours_left=round(max(0.0, left) / 3600, 1),
                    retention_hours=round(found.retention / 3600, 1),
                    hint=f"find out why the table is behind (lag, a stop, its lock); meanwhile lengthen the retention: {longer}",
                )
            elif now < former:
                log.info("CDC cleanup is no longer close to the table's offset", table=name.key)


_HEADROOM: Mapping[Alarm, str] = {
    Alarm.LOW: "CDC cleanup is close to the table's offset",
    Alarm.LOWER: "CDC cleanup is about to remove unread changes",
    Alarm.PASSED: "CDC cleanup may have removed unread changes",
}
