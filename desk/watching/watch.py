"""The console's view: one thread looks at stores and processes, and keeps the newest look. Requests read that look and ask nobody.

Each part has its own rhythm: the management API throttles, and counting what waits in many tables costs the server something.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import structlog

from common.bus.depths import Depth
from common.clock import SteadyClock, SteadyTime, steady
from common.errors import TransientError
from desk.desk import NotFound
from desk.documents.overview import Entity, Overview, Trouble, Unacknowledged
from desk.documents.tables import History, Table
from desk.times import written
from desk.watching.entities import DEFAULT, Topics, path_of, queue_entity, topic_entities, unacknowledged
from desk.watching.history import Counters, Kept
from desk.watching.overview import Console, overview
from desk.watching.parts import Part, Question
from desk.watching.scraping import Scraped
from desk.watching.seen import Seen
from desk.watching.stores import SeenTables
from desk.watching.tables import aged, document
from desk.watching.troubles import troubles

if TYPE_CHECKING:  # a router is installed without the ingester's packages
    from ingester.capture_status import Explanation

log = structlog.get_logger("console")

_TICK = 0.25
_GROWS_SECONDS = 300
_QUEUE_SECONDS, _TOPICS_SECONDS, _SCRAPE_SECONDS, _CAPTURE_SECONDS = 15.0, 30.0, 15.0, 15.0
_FIRST_LOOK_SECONDS = 10.0
"""Who asks for a table before the first look waits so long."""
_COMPOSED_SHARE = 40.0
"""A look that takes a second to put together is followed by another one after so many seconds at the earliest."""


@dataclass(frozen=True, slots=True)
class Questions:
    """What is asked, one for each part."""

    tables: Question[SeenTables]
    queue: Question[Depth | None]
    topics: Question[Topics]
    capture: Question[Explanation | None]
    processes: Question[Sequence[Scraped]] | None = None
    close: Callable[[], None] = lambda: None
    """Gives back what the questions keep; waits for none."""


@dataclass(frozen=True, slots=True)
class _Look:
    overview: Overview
    tables: Mapping[str, Table] = field(default_factory=dict)
    entities: Sequence[Entity] = ()
    unacknowledged: Sequence[Unacknowledged] = ()
    knows_tables: bool = False
    """Whether the tables have been looked at."""


class StoresWatching:
    """`look_every`: seconds between two looks at the tables. Looks from `__enter__` to `__exit__`. `now`: Unix time."""

    def __init__(
        self,
        questions: Questions,
        console: Console,
        *,
        look_every: float = 5.0,
        clock: SteadyClock = steady,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._console = console
        self._close = questions.close
        self._clock, self._now = clock, now
        self._every = look_every
        self._tables = Part("tables", look_every, questions.tables, SeenTables(), clock=clock)
        self._queue: Part[Depth | None] = Part(
            "ingest queue", max(look_every, _QUEUE_SECONDS), questions.queue, None, clock=clock
        )
        self._topics = Part("topics", max(look_every, _TOPICS_SECONDS), questions.topics, Topics(), clock=clock)
        self._capture: Part[Explanation | None] = Part(
            "capture", max(look_every, _CAPTURE_SECONDS), questions.capture, None, clock=clock
        )
        nothing: Sequence[Scraped] = ()
        self._processes = (
            None
            if questions.processes is None
            else Part("health ports", max(look_every, _SCRAPE_SECONDS), questions.processes, nothing, clock=clock)
        )
        self._history = Kept(now())
        self._counters = Counters()
        self._since: dict[tuple[str | None, ...], str] = {}
        self._changed = threading.Condition()
        self._number = 0
        self._stop = threading.Event()
        self._made: (
            tuple[Topics, Entity, Mapping[str, float], list[str], tuple[list[Entity], list[Unacknowledged]]] | None
        ) = None
        self._news: set[str] = set()
        self._aged = False
        self._next = clock()
        self._look = self._composed()
        self._thread = threading.Thread(target=self._run, name="looks", daemon=True)

    def __enter__(self) -> StoresWatching:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Waits for no store."""
        self._stop.set()
        self._thread.join(2.0)
        self._close()
        with self._changed:
            self._changed.notify_all()

    # the port

    def overview(self) -> Overview:
        return self._look.overview

    def tables(self) -> Sequence[Table]:
        return list(self._look.tables.values())

    def table(self, name: str) -> Table:
        """Waits for the first look, for `_FIRST_LOOK_SECONDS` at most."""
        with self._changed:
            self._changed.wait_for(lambda: self._look.knows_tables or self._stop.is_set(), _FIRST_LOOK_SECONDS)
        look = self._look
        found = look.tables.get(_key(name))
        if found is None and not look.knows_tables:
            raise TransientError(
                f"{name}: the tables are not known yet", hint="ask again; the overview says what is not known, and why"
            )
        if found is None:
            raise NotFound(f"{name}: there is no such table in the configuration", hint="see the list of tables")
        return found

    def history(self, table: str | None) -> History:
        name = None if table is None else self.table(table).table
        with self._changed:
            return self._history.document(name, self._now())

    def entities(self) -> Sequence[Entity]:
        return self._look.entities

    def unacknowledged(self) -> Sequence[Unacknowledged]:
        return self._look.unacknowledged

    def changed(self, since: int, *, wait: float) -> int:
        with self._changed:
            self._changed.wait_for(lambda: self._number > since or self._stop.is_set(), wait)
            return self._number

    def soon(self) -> None:
        """Look at the tables at once: something was changed."""
        self._tables.soon()

    # looking

    def _run(self) -> None:
        while not self._stop.wait(_TICK):
            try:
                self.turn()
            except Exception:
                log.exception("a look failed", of="the whole", hint="this is a defect of DStream: report this line")
                self._stop.wait(self._every)

    @property
    def _parts(self) -> list[Part[Any]]:
        parts: list[Part[Any]] = [self._tables, self._queue, self._topics, self._capture]
        return parts if self._processes is None else [*parts, self._processes]

    def turn(self) -> None:
        """Take in what has come, and ask what is due."""
        new = {part.what for part in self._parts if part.turn()}
        if new:
            self._news |= new
            with self._changed:
                self._keep(new)
        if self._tables.answer().old is not self._aged:  # nobody has answered, and that is news, too
            self._aged = not self._aged
            self._news.add(self._tables.what)
        if not self._news or self._clock() < self._next:
            return
        begun = self._clock()
        self._news = set()
        look = self._composed()
        self._next = SteadyTime(self._clock() + _COMPOSED_SHARE * (self._clock() - begun))
        with self._changed:
            self._look = look
            self._number += 1
            self._changed.notify_all()

    def _keep(self, new: set[str]) -> None:
        """For the history."""
        now = self._now()
        if self._processes is not None and self._processes.what in new:
            scraped = self._processes.answer().value
            counters = {each.process.address: each.changes for each in scraped if each.process.stage == "ingester"}
            self._history.rates(now, self._counters.rates(counters, self._clock()))
        if self._tables.what in new:
            tables = self._tables.answer().value.tables
            self._history.lags(now, {each.table: None if each.lag is None else each.lag.seconds for each in tables})
            if tables:
                self._history.keep(frozenset(each.table for each in tables))
        if self._queue.what in new and (depth := self._queue.answer().value) is not None:
            self._history.queue(now, depth.active)

    def _composed(self) -> _Look:
        topics = self._topics.answer()
        scraped: Sequence[Scraped] = () if self._processes is None else self._processes.answer().value
        fills = {entity: share for each in scraped for entity, share in each.fills.items()}
        queue = queue_entity(self._console.names.queue, self._queue.answer().value, fills)
        tables = self._documents(topics.value, scraped)
        entities, waiting = self._places(topics.value, queue, fills, [table.table for table in tables])
        seen = Seen(
            tables=tables,
            queue=queue,
            entities=entities,
            processes=scraped,
            capture=self._capture.answer().value,
            unread=[each for part in self._parts for each in part.answer().unread],
            queue_grows=self._history.grows(self._now(), _GROWS_SECONDS),
            scrapes=self._processes is not None,
            unwatched=self._console.unwatched,
            missing=topics.value.missing,
            database=self._console.names.database,
        )
        at = written(datetime.fromtimestamp(self._now(), UTC))
        found = self._dated(troubles(seen), at)
        return _Look(
            overview(self._console, at, seen, self._tables.answer().value.owners, found),
            {_key(table.table): table for table in tables},
            [queue, *entities],
            waiting,
            self._tables.answer().age is not None,
        )

    def _places(
        self, topics: Topics, queue: Entity, fills: Mapping[str, float], tables: list[str]
    ) -> tuple[Sequence[Entity], Sequence[Unacknowledged]]:
        """Made again only when something of it is new: topics are asked about less often than tables."""
        if self._made is None or self._made[0] is not topics or self._made[1:4] != (queue, fills, tables):
            found = topic_entities(topics, fills), unacknowledged(tables, queue, topics)
            self._made = topics, queue, fills, tables, found
        return self._made[4]

    def _documents(self, topics: Topics, scraped: Sequence[Scraped]) -> list[Table]:
        answer = self._tables.answer()
        standings: dict[str, list[str]] = {}
        lags: dict[str, float] = {}
        for each in scraped:
            for name, standing in each.states.items():
                standings.setdefault(name, []).append(standing)
            for name, lag in each.lags.items():
                lags[name] = max(lag, lags.get(name, 0.0))
        now = self._now()
        found = [
            document(
                seen,
                topic=_topic(topics, seen.table),
                standings=standings.get(seen.table, ()),
                lag=lags.get(seen.table),
                rate=self._history.of_minute(seen.table, now),
            )
            for seen in answer.value.tables
        ]
        return [aged(table) for table in found] if answer.old else found

    def _dated(self, found: Sequence[Trouble], at: str) -> list[Trouble]:
        """With the time when each was seen first."""
        keys = [(each.what, each.alert, each.table, each.entity) for each in found]
        self._since = {key: self._since.get(key, at) for key in keys}
        return [
            each.model_copy(update={"since": each.since or self._since[key]})
            for each, key in zip(found, keys, strict=True)
        ]


def _key(name: str) -> str:
    lowered = name.strip().lower()
    return lowered if "." in lowered else f"dbo.{lowered}"


def _topic(topics: Topics, table: str) -> str | None:
    places = topics.of_tables.get(table.lower(), ())
    return ", ".join(topic if output == DEFAULT else path_of(output, topic) for output, topic in places) or None
