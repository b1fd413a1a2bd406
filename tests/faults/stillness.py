"""How long a table stood still although changes of it waited, and whether the services knew it meanwhile.

A table stands still between two arrivals on its topic, as far as something of it was committed and had not arrived. What is known of it: a page
of an ingester's health that is not 200, or a warning or an error in a log.
"""

from __future__ import annotations

import re
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import TracebackType
from typing import Self

from common.names import TableName
from dstream.demo.processes import Service

PAGES = ("healthz", "readyz")
NO_ANSWER = "no answer"
BOUND = 60.0
"""Seconds: when a table stands still for longer somebody has to know it."""
_SHOWN = 5
_EVERY = 1.0
_PATIENCE = 5.0
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


def known(stillness: Stillness, words: Iterable[Word]) -> list[Word]:
    """What was said while it lasted, in the order in which it was; a page that was not there comes after what was said."""
    found = (word for word in words if stillness.begin <= word.at <= stillness.end)
    return sorted(found, key=lambda word: (word.text.endswith(NO_ANSWER), word.at))


def unknown(found: Iterable[Stillness], words: Sequence[Word]) -> list[Stillness]:
    """What lasted for longer than BOUND and of which nobody said a word."""
    return [each for each in found if each.seconds > BOUND and not known(each, words)]


def summary(found: Sequence[Stillness], words: Sequence[Word]) -> str:
    """The longest of all, and what was said of those that lasted. `found`: the longest first."""
    lasted = [each for each in found if each.seconds > BOUND]
    lines = [f"longest time that a table stood still: {found[0].seconds:.1f} s" if found else "no table stood still"]
    lines.append(
        f"longer than {BOUND:.0f} s: {len(lasted)}, of which nobody said a word: {len(unknown(lasted, words))}"
    )
    for each in lasted[:_SHOWN]:
        said = list(dict.fromkeys(str(word)[9:180] for word in known(each, words)))
        lines += [f"  {each.seconds:6.1f} s {each.table}", *(f"      {word}" for word in said[:_SHOWN])]
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
    """Asks the health pages of what runs, again and again while entered. `ports`: name and port of those that run now."""

    def __init__(self, ports: Callable[[], Iterable[tuple[str, int]]]) -> None:
        self._ports = ports
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="health-watch", daemon=True)
        self.words: list[Word] = []
        """Of pages that said that something was the matter."""
        self.asked = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(_EVERY):
            for name, port in self._ports():
                for page in PAGES:
                    self._ask(name, port, page)

    def _ask(self, name: str, port: int, page: str) -> None:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/{page}", timeout=_PATIENCE):
                self.asked += 1
        except urllib.error.HTTPError as error:
            with error:
                self.asked += 1
                self.words.append(Word(time.time(), name, f"{page}: {error.read().decode().strip()}"))
        except OSError:  # it is starting or ending; an orchestrator takes it for not ready
            self.words.append(Word(time.time(), name, f"{page}: {NO_ANSWER}"))
