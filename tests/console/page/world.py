"""A console over an invented desk, in this process: its clock can be moved, its server can be taken away and given back."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from desk.console.access import checked
from desk.console.audited import audited
from desk.console.http.app import app_of
from desk.console.http.events import Events
from desk.console.http.served import Served
from desk.console.http.serving import listening, serve
from desk.console.limits import Limit, Limits, Rate
from desk.console.tokens import TokenFile
from desk.desk import Desk
from desk.documents.overview import Overview
from tests.fakes.desk import World, desk_of
from tests.fakes.desk.watching import FakeWatching
from tests.worlds.ports import free_port

_UNLIMITED = Rate(per_second=1e6, burst=10**6)


@dataclass(slots=True)
class Clock:
    """The world's time; `ahead` moves it. `at`: it stands still there."""

    ahead: float = 0.0
    at: float | None = None

    def __call__(self) -> float:
        return (time.time() if self.at is None else self.at) + self.ahead


@dataclass(slots=True)
class Place:
    """Where a page finds a console."""

    world: World
    clock: Clock
    served: Served
    port: int = field(default_factory=free_port)
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    def open(self) -> None:
        """Serve, at the same port as before."""
        listener = listening("127.0.0.1", self.port)
        self._stop = threading.Event()
        events = Events()
        served = replace(self.served, events=events)
        self._thread = threading.Thread(
            target=serve, args=(app_of(served), listener, self._stop), kwargs={"stopping": events.stop}, daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join(60)
            assert not self._thread.is_alive()


@contextmanager
def place(
    *,
    tables: int = 12,
    dead: int = 24,
    allow_changes: bool = True,
    token_file: Path | None = None,
    look_every: float = 0.3,
    at: float | None = None,
    changed: Callable[[World], None] | None = None,
    desk: Callable[[World], Desk] = desk_of,
) -> Iterator[Place]:
    """`changed`: make the world another before it is looked at. `desk`: what stands over it."""
    clock = Clock(at=at)
    world = World(tables=tables, seed=7, changes_allowed=allow_changes, dead=dead, now=clock, look_every=look_every)
    if changed is not None:
        changed(world)
        world.by_name = {row.name.casefold(): row for row in world.rows}
    limits = Limits(requests=Limit("requests", _UNLIMITED), changes=Limit("changes", _UNLIMITED))
    tokens = None if token_file is None else TokenFile(token_file)
    if tokens is not None:
        tokens.load()
    served = Served(
        desk=audited(desk(world), allow_changes=allow_changes, limits=limits),
        access=checked("127.0.0.1", token_file=tokens is not None, behind_proxy=None),
        allow_changes=allow_changes,
        limits=limits,
        tokens=tokens,
        local_user="anna",
    )
    found = Place(world, clock, served)
    found.open()
    try:
        yield found
    finally:
        found.close()


class _Calm(FakeWatching):
    """Nothing is wrong, and everything is known."""

    def overview(self) -> Overview:
        return FakeWatching.overview(self).model_copy(
            update={"troubles": [], "unknown": [], "complete": True, "worst_lag_seconds": 0.4, "dead_letters": 0}
        )


def calm(world: World) -> Desk:
    return replace(desk_of(world), watching=_Calm(world))
