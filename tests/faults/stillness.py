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
    """What was said while it lasted."""
    return [word for word in words if stillness.begin <= word.at <= stillness.end]


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
        except OSError:
            return  # it is starting or ending, which is not a word about a table
