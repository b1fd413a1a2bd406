"""Server-sent events: what has changed since the last look, made once for all readers. A reader that is too slow is disconnected, and connects again.

An event's number is that of its look. Whoever comes again with `Last-Event-ID` gets what it missed, as long as it is still known, or all.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections import Counter, deque
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import structlog

from common.errors import DStreamError, unforeseen
from desk.console.refusals import Busy
from desk.desk import Desk
from desk.documents.tables import Table

log = structlog.get_logger(__name__)

HEARTBEAT_SECONDS: Final = 15.0
MOST_READERS: Final = 256
MOST_OF_A_CLIENT: Final = 16
_KEPT_LOOKS: Final = 24
_UNREAD: Final = 64
"""Events that a reader may be behind."""
_BATCH: Final = 200
"""Tables in one event."""
_AGAIN_MS: Final = 3000
_LOOK_WAIT: Final = 5.0
_PAUSE_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class Event:
    kind: str
    number: int
    data: str

    def line(self) -> str:
        return f"id: {self.number}\nevent: {self.kind}\ndata: {self.data}\n\n"


@dataclass(slots=True, eq=False)
class Reader:
    """One stream. None in the queue: it is over. `first`: what it gets at once, however much that is."""

    loop: asyncio.AbstractEventLoop
    client: str = ""
    first: Sequence[Event] = ()
    queue: asyncio.Queue[Event | None] = field(default_factory=lambda: asyncio.Queue(_UNREAD))

    def put(self, events: Sequence[Event | None]) -> None:
        """In the loop's thread. One that is behind by too much ends: all of its events are stale."""
        for event in events:
            try:
                self.queue.put_nowait(event)
            except asyncio.QueueFull:
                while not self.queue.empty():
                    self.queue.get_nowait()
                self.queue.put_nowait(None)
                return


@dataclass(slots=True)
class Seen:
    """What the last events said."""

    number: int = 0
    tables: dict[str, Table] = field(default_factory=dict)
    operations: str = ""
    overview: str = ""


@dataclass(slots=True)
class Events:
    """`start` begins one thread, which looks at the desk's memory; readers come and go in the loop's thread."""

    most: int = MOST_READERS
    most_each: int = MOST_OF_A_CLIENT
    heartbeat: float = HEARTBEAT_SECONDS
    _readers: dict[Reader, None] = field(default_factory=dict)
    _kept: deque[tuple[int, tuple[Event, ...]]] = field(default_factory=lambda: deque(maxlen=_KEPT_LOOKS))
    _seen: Seen = field(default_factory=Seen)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _stop: threading.Event = field(default_factory=threading.Event)
    _started: bool = False

    def start(self, desk: Desk) -> None:
        with self._lock:
            if self._started:
                return
            self._started = True
        threading.Thread(target=self._run, args=(desk,), name="console-events", daemon=True).start()

    def stop(self) -> None:
        """End all streams, so that a stop need not wait for them."""
        self._stop.set()
        with self._lock:
            readers, self._readers = list(self._readers), {}
        for reader in readers:
            reader.loop.call_soon_threadsafe(reader.put, [None])

    @property
    def readers(self) -> int:
        return len(self._readers)

    def _run(self, desk: Desk) -> None:
        failing = False
        while not self._stop.is_set():
            try:
                self._look(desk)
                failing = False
            except Exception as error:  # whatever it is: the thread must go on, or every page stands still
                if not failing:
                    why = error.message if isinstance(error, DStreamError) else unforeseen(error)
                    log.warning("events not made; pages show what they had", error=why)
                failing = True
                self._stop.wait(_PAUSE_SECONDS)

    def _look(self, desk: Desk) -> None:
        """One look, as soon as there is one, or as operations go on."""
        running = any(each.state == "running" for each in read_operations(desk))
        number = desk.watching.changed(self._seen.number, wait=_PAUSE_SECONDS if running else _LOOK_WAIT)
        events = news(desk, self._seen, number)
        if not events:
            return
        with self._lock:
            self._kept.append((number, tuple(events)))
            readers = list(self._readers)
        for reader in readers:
            reader.loop.call_soon_threadsafe(reader.put, events)

    def open(self, last: int | None, client: str = "") -> Reader:
        """Raises Busy when `client` has too many. When all have too many, the oldest of who has most is let go."""
        with self._lock:
            own = sum(each.client == client for each in self._readers)
            if self._stop.is_set() or own >= self.most_each:
                raise Busy("too many streams of events are open", after=10, hint="close other pages of the console")
            if len(self._readers) >= self.most:
                busiest, _ = Counter(each.client for each in self._readers).most_common(1)[0]
                oldest = next(each for each in self._readers if each.client == busiest)
                del self._readers[oldest]
                oldest.loop.call_soon_threadsafe(oldest.put, [None])
            reader = Reader(asyncio.get_running_loop(), client, self._missed(last))
            self._readers[reader] = None
        return reader

    def _missed(self, last: int | None) -> list[Event]:
        if last is not None and self._kept and self._kept[0][0] <= last + 1 and last <= self._seen.number:
            missed = [event for number, events in self._kept if number > last for event in events]
            if len(missed) <= _UNREAD:
                return missed
        return whole(self._seen)

    async def lines(self, reader: Reader) -> AsyncIterator[str]:
        """What is sent, until the reader is gone or let go."""
        try:
            yield f"retry: {_AGAIN_MS}\n\n"
            for first in reader.first:
                yield first.line()
            reader.first = ()
            while True:
                try:
                    event = await asyncio.wait_for(reader.queue.get(), self.heartbeat)
                except TimeoutError:
                    yield ": still there\n\n"
                    continue
                if event is None:
                    return
                yield event.line()
        finally:
            with self._lock:
                self._readers.pop(reader, None)


def read_operations(desk: Desk) -> Sequence[Any]:
    """None where the console has no such part."""
    try:
        return desk.dead_letters.operations()
    except DStreamError:
        return []


def news(desk: Desk, seen: Seen, number: int) -> list[Event]:
    """What is new, and `seen` brought up to it."""
    found = list[Event]()
    if number > seen.number:
        tables = desk.watching.tables()
        seen.overview = desk.watching.overview().model_dump_json()
        found.append(Event("overview", number, seen.overview))
        now = {table.table: table for table in tables}
        changed = [table for table in tables if is_news(seen.tables.get(table.table), table)]
        gone = [name for name in seen.tables if name not in now]
        found += tables_events(number, changed, gone, complete=False)
        seen.tables = {
            name: table if is_news(seen.tables.get(name), table) else seen.tables[name] for name, table in now.items()
        }
    operations = "[" + ",".join(each.model_dump_json() for each in read_operations(desk)[:50]) + "]"
    if operations != seen.operations:
        seen.operations = operations
        found.append(Event("operations", number, f'{{"items":{operations}}}'))
    seen.number = max(number, seen.number)
    return found


def whole(seen: Seen) -> list[Event]:
    """All there is, for one that comes first; nothing before the first look."""
    if not seen.overview:
        return []
    tables = tables_events(seen.number, list(seen.tables.values()), [], complete=True)
    operations = Event("operations", seen.number, f'{{"items":{seen.operations or "[]"}}}')
    return [Event("overview", seen.number, seen.overview), *tables, operations]


def tables_events(number: int, tables: Sequence[Table], gone: Sequence[str], *, complete: bool) -> list[Event]:
    """`complete`: the first of the events replaces all that a page knows; further ones add to it."""
    found = list[Event]()
    for start in range(0, max(len(tables), 1 if gone or complete else 0), _BATCH):
        items = ",".join(table.model_dump_json() for table in tables[start : start + _BATCH])
        first = "true" if complete and start == 0 else "false"
        left = json.dumps(list(gone) if start == 0 else [], ensure_ascii=False)
        found.append(Event("tables", number, f'{{"complete":{first},"items":[{items}],"gone":{left}}}'))
    return found


def is_news(before: Table | None, now: Table) -> bool:
    """Whether a person would see a difference: times that only go on are none, until they have changed by a hundredth."""
    if before is None:
        return True
    if before == now:
        return False
    return _plain(before) != _plain(now) or _apart(before.headroom_seconds, now.headroom_seconds)


def _plain(table: Table) -> Mapping[str, Any]:
    moving = table.offset is not None and table.lag is not None and table.lag.changes > 0
    return {
        **table.model_dump(exclude={"headroom_seconds", "offset", "epoch"}),
        "lsn": table.offset.lsn if table.offset is not None and moving else None,
    }


def _apart(before: float | None, now: float | None) -> bool:
    if before is None or now is None:
        return before is not now
    return abs(before - now) > 0.01 * max(abs(before), abs(now), 1.0)
