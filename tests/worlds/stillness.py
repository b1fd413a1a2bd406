"""How long a table stood still although changes of it waited, and whether the services knew it meanwhile.

A table stands still between two arrivals on its topic, as far as something of it was committed and had not arrived. It is known where a warning, an
error or a health page names the table, or says that all tables wait, or where the health page of its owner is not 200. What a process says while it
starts tells nothing of a table, and no answer is no word. Each owner has to say so for itself: what one said that was killed since tells nothing of
why the table stands still with the next.
"""

from __future__ import annotations

import re
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise
from typing import Self

from common.names import TableName
from dstream.demo.processes import Service

PAGES = ("healthz", "readyz")
NO_ANSWER = "no answer"
ROUTER = "router"
BOUND = 60.0
"""Seconds: when a table stands still for longer somebody has to know it."""
_SHOWN = 5
_EVERY = 1.0
_PATIENCE = 5.0
_PAGE = tuple(f"{page}: " for page in PAGES)
_STARTING = ": starting: "
_ALL_WAIT = re.compile(
    r"connection to SQL Server lost, retrying|the connection to SQL Server is lost|SQL Server does not answer for the tables"
    r"|lock service unavailable|all tables wait|nothing can run on Spark"
    r"|the ingest queue cannot be received from|opening a receiver for ingest-queue|no slot has turned"
)
"""What an ingester says that cannot work for any of its tables; and the router, that receives nothing."""
_LINE = re.compile(r"(?P<at>\S+Z) \[(?P<level>warning|error|critical)\s*\] (?P<text>.*)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Stillness:
    """From when to when (Unix time) nothing of a table arrived while something of it waited."""

    table: TableName
    begin: float
    end: float

    @property
    def seconds(self) -> float:
        return self.end - self.begin


@dataclass(frozen=True, slots=True)
class Word:
    """What a service said, and when (Unix time)."""

    at: float
    who: str
    text: str

    def __str__(self) -> str:
        return f"{time.strftime('%H:%M:%S', time.gmtime(self.at))} {self.who}: {self.text}"


def stillnesses(table: TableName, committed: Sequence[float], arrived: Sequence[float], now: float) -> list[Stillness]:
    """Of one table, in their order. `committed`, `arrived`: Unix times; the first to arrive is taken to be the first that was committed.

    `now`: the end of the last, where something is still missing.
    """
    found = []
    heard = 0.0
    commits, arrivals = sorted(committed), sorted(arrived)
    for at, commit in enumerate(commits):
        if at >= len(arrivals):
            found.append(Stillness(table, max(heard, commit), now))
            break
        if arrivals[at] > max(heard, commit):
            found.append(Stillness(table, max(heard, commit), arrivals[at]))
        heard = max(heard, arrivals[at])
    return found


@dataclass(frozen=True, slots=True)
class Life:
    """Of one process, in Unix time. `up`: when its start was over, or ought to have been."""

    who: str
    begin: float
    up: float
    end: float


@dataclass(frozen=True, slots=True)
class Reign:
    """An ingester's time with a table (its key), in Unix time."""

    table: str
    who: str
    begin: float
    end: float


@dataclass(frozen=True, slots=True)
class Heard:
    """Who was there, who had which table, and what all have said. `topics`: of each table, which is its session, too."""

    topics: Mapping[TableName, str]
    words: Sequence[Word]
    reigns: Sequence[Reign] = ()
    lives: Sequence[Life] = ()

    def tells(self, word: Word, table: TableName, owner: str | None) -> bool:
        """Whether by this word it is known that `table` waits. `owner`: who had it then."""
        if word.text.endswith(NO_ANSWER) or _STARTING in word.text:
            return False
        if any(re.search(rf"(?<![\w.]){re.escape(name)}(?!\w)", word.text) for name in (table.key, self.topics[table])):
            return True
        if _ALL_WAIT.search(word.text):
            return word.who == ROUTER or owner in {None, word.who}
        return word.who == owner and word.text.startswith(_PAGE)

    def parts(self, stillness: Stillness) -> list[tuple[Stillness, str | None]]:
        """One after the other, each with who had the table then; None: nobody."""
        reigns = [each for each in self.reigns if each.table == stillness.table.key]
        cuts = {at for each in reigns for at in (each.begin, each.end) if stillness.begin < at < stillness.end}
        found = []
        for begin, end in pairwise([stillness.begin, *sorted(cuts), stillness.end]):
            over = [each for each in reigns if each.begin <= begin and end <= each.end]
            owner = max(over, key=lambda each: each.begin, default=None)
            found.append((Stillness(stillness.table, begin, end), owner.who if owner else None))
        return found

    def known(self, stillness: Stillness) -> list[Word]:
        """By what it is known, in the order in which it was said."""
        said = []
        for part, owner in self.parts(stillness):
            meanwhile = (word for word in self.words if part.begin <= word.at <= part.end)
            said += [word for word in meanwhile if self.tells(word, part.table, owner)]
        return sorted(said, key=lambda word: word.at)

    def silences(self, found: Iterable[Stillness]) -> list[Stillness]:
        """The parts of these that lasted for longer than BOUND and of which nobody said a word."""
        parts = [(part, owner) for each in found for part, owner in self.parts(each)]
        return [part for part, owner in parts if self._waited(part, owner) > BOUND and not self.known(part)]

    def _waited(self, part: Stillness, owner: str | None) -> float:
        """Seconds in which somebody could have known: where nobody has the table, those in which an ingester was up that could take it."""
        if owner is not None:
            return part.seconds
        waited, until = 0.0, part.begin
        for life in sorted((each for each in self.lives if each.who != ROUTER), key=lambda each: each.up):
            begin, end = max(life.up, until), min(life.end, part.end)
            waited, until = waited + max(0.0, end - begin), max(until, end)
        return waited

    def summary(self, found: Sequence[Stillness]) -> str:
        """The longest of all, and what was said of those that lasted. `found`: the longest first."""
        lasted = [each for each in found if each.seconds > BOUND]
        lines = [
            f"longest time that a table stood still: {found[0].seconds:.1f} s" if found else "no table stood still"
        ]
        lines.append(f"longer than {BOUND:.0f} s: {len(lasted)}; without a word: {len(self.silences(lasted))}")
        for each in lasted[:_SHOWN]:
            said = list(dict.fromkeys(str(word)[9:180] for word in self.known(each)))
            had = [f"{owner or 'nobody'} {part.seconds:.1f}" for part, owner in self.parts(each)]
            lines += [
                f"  {each.seconds:6.1f} s {each.table}: {', '.join(had)}",
                *(f"      {word}" for word in said[:_SHOWN]),
            ]
        return "\n".join(lines)


def logged(service: Service, name: str) -> list[Word]:
    """The warnings and errors of a service's log."""
    if not service.log.exists():
        return []
    found = []
    for line in service.log.read_text(errors="replace").splitlines():
        if (told := _LINE.match(line)) is not None:
            found.append(Word(datetime.fromisoformat(told["at"]).timestamp(), name, told["text"]))
    return found


class HealthWatch:
    """Asks the health pages of what runs, again and again while entered. `pages`: name and `host:port` of those that run now."""

    def __init__(self, pages: Callable[[], Iterable[tuple[str, str]]]) -> None:
        self._pages = pages
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="health-watch", daemon=True)
        self.words: list[Word] = []
        """Of pages that said that something was the matter."""
        self.asked = 0
        self._ended: list[Life] = []
        self._now: dict[str, Life] = {}

    def lives(self) -> list[Life]:
        """Of what runs and ran, as far as it was seen so far."""
        return [*self._ended, *self._now.values()]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *details: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(_EVERY):
            seen = dict(self._pages())
            for name in self._now.keys() - seen.keys():
                self._ended.append(self._now.pop(name))
            for name, address in seen.items():
                self._live(name, up=False)
                for page in PAGES:
                    self._ask(name, address, page)

    def _live(self, name: str, *, up: bool) -> None:
        now = time.time()
        known = self._now.get(name) or Life(name, now, now + BOUND, now)
        self._now[name] = replace(known, up=min(known.up, now) if up else known.up, end=now)

    def _ask(self, name: str, address: str, page: str) -> None:
        try:
            with urllib.request.urlopen(f"http://{address}/{page}", timeout=_PATIENCE):
                self.asked += 1
                text = None
        except urllib.error.HTTPError as error:
            with error:
                self.asked += 1
                text = f"{page}: {error.read().decode().strip()}"
        except OSError:  # it is starting or ending; an orchestrator takes it for not ready
            text = f"{page}: {NO_ANSWER}"
        if text is not None:
            self.words.append(Word(time.time(), name, text))
        if page == "readyz" and (text is None or not (text.endswith(NO_ANSWER) or _STARTING in text)):
            self._live(name, up=True)
