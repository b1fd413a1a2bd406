"""The last hour, a point each ten seconds: lag and throughput of each table and of all, and what waits in the queue. In memory only.

A table takes three kilobytes. Nothing is kept of the time before this console began.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping

from desk.documents.tables import History, Point

STEP = 10
_POINTS = 360
_MINUTE = 60 // STEP
_UNKNOWN = math.nan
_FILLED = 4
"""Points that one measurement fills at most."""


class _Line:
    """Values by the number of their ten seconds; what lies an hour back is overwritten."""

    __slots__ = ("_first", "_last", "_values")

    def __init__(self, step: int) -> None:
        self._values = array("f", [_UNKNOWN]) * _POINTS
        self._first = self._last = step

    def put(self, step: int, value: float) -> None:
        for between in range(max(self._last + 1, step - _POINTS + 1), step):
            self._values[between % _POINTS] = _UNKNOWN
        self._last = max(self._last, step)
        self._values[step % _POINTS] = value

    def at(self, step: int) -> float | None:
        if step > self._last or step < self._first or step <= self._last - _POINTS:
            return None
        value = self._values[step % _POINTS]
        return None if math.isnan(value) else value

    def points(self, begin: int, end: int) -> list[Point]:
        return [Point(at=float(step * STEP), value=self.at(step)) for step in range(begin, end + 1)]


class Kept:
    """Not thread-safe."""

    def __init__(self, now: float) -> None:
        self._begun = int(now // STEP)
        self._rated: int | None = None
        self._queued: int | None = None
        self._lags: dict[str, _Line] = {}
        self._rates: dict[str, _Line] = {}
        self._lag, self._rate, self._queue = (_Line(self._begun) for _ in range(3))

    def lags(self, now: float, lags: Mapping[str, float | None]) -> None:
        """By table; the worst of all is kept, too."""
        step = int(now // STEP)
        for table, lag in lags.items():
            if lag is not None:
                self._of(self._lags, table, step).put(step, lag)
        if known := [lag for lag in lags.values() if lag is not None]:
            self._lag.put(step, max(known))

    def rates(self, now: float, rates: Mapping[str, float]) -> None:
        """Changes a second since the last time, by table. They hold for all points since then, if that was not long ago."""
        step = int(now // STEP)
        first = step if self._rated is None or step - self._rated > _FILLED else min(step, self._rated + 1)
        self._rated = step
        for point in range(first, step + 1):
            for table, rate in rates.items():
                self._of(self._rates, table, point).put(point, rate)
            if rates:
                self._rate.put(point, sum(rates.values()))

    def queue(self, now: float, messages: int) -> None:
        """Asked about less often than there are points."""
        step = int(now // STEP)
        first = step if self._queued is None or step - self._queued > _FILLED else min(step, self._queued + 1)
        self._queued = step
        for point in range(first, step + 1):
            self._queue.put(point, messages)

    def of_minute(self, table: str, now: float) -> float | None:
        """Changes a second in the last minute; None: unknown."""
        line = self._rates.get(table)
        return None if line is None else _mean(line, int(now // STEP))

    def keep(self, tables: frozenset[str]) -> None:
        """Forget the others."""
        for lines in (self._lags, self._rates):
            for table in lines.keys() - tables:
                del lines[table]

    def grows(self, now: float, seconds: int) -> bool:
        """Whether the queue became longer for so long, and was never empty."""
        end = int(now // STEP)
        found = [value for step in range(end - seconds // STEP, end + 1) if (value := self._queue.at(step)) is not None]
        return len(found) > seconds // STEP // 3 and min(found) > 0 and found[-1] > found[0]

    def document(self, table: str | None, now: float) -> History:
        end = int(now // STEP)
        begin = max(self._begun, end - _POINTS + 1)
        nothing = _Line(self._begun)
        if table is None:
            lags, rates, queue = self._lag, self._rate, self._queue.points(begin, end)
        else:
            lags, rates, queue = self._lags.get(table, nothing), self._rates.get(table, nothing), []
        return History(
            table=table,
            lag_seconds=lags.points(begin, end),
            changes_per_second=rates.points(begin, end),
            queue_messages=queue,
        )

    @staticmethod
    def _of(lines: dict[str, _Line], table: str, step: int) -> _Line:
        return lines.get(table) or lines.setdefault(table, _Line(step))


def _mean(line: _Line, step: int) -> float | None:
    found = [value for each in range(step - _MINUTE, step + 1) if (value := line.at(each)) is not None]
    return sum(found) / len(found) if found else None


class Counters:
    """Turns counters of processes into changes a second. A counter that fell began again at zero."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[float, Mapping[str, float]]] = {}

    def rates(self, found: Mapping[str, Mapping[str, float]], now: float) -> dict[str, float]:
        """By table. `found`: by process, then by table. Empty until there is something to compare with."""
        rates: dict[str, float] = {}
        for process, counters in found.items():
            before = self._known.get(process)
            self._known[process] = now, counters
            if before is None or now <= before[0]:
                continue
            seconds, former = now - before[0], before[1]
            for table, count in counters.items():
                begun = former.get(table, 0.0)
                rates[table] = rates.get(table, 0.0) + (count - begun if count >= begun else count) / seconds
        self._known = {process: known for process, known in self._known.items() if now - known[0] < _FORGET}
        return rates


_FORGET = 300.0
"""Seconds after which a process that is no longer seen is forgotten."""
