"""Settings to the console's view: which stores it looks at, and which health ports it reads."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from importlib import metadata
from typing import Any

from desk.status import Stages
from desk.watching.overview import Console
from desk.watching.scraping import Scraper, Stage
from desk.watching.stores import Stores, names_of
from desk.watching.watch import Questions, StoresWatching

_ANY_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}


def watching_of(
    stages: Stages,
    *,
    scrape: Sequence[str] = (),
    changes_allowed: bool = False,
    look_every: float = 5.0,
    stop: threading.Event | None = None,
) -> StoresWatching:
    """`scrape`: health ports as `http://ingester:8080`; none: those that the configuration opens, on this machine.

    It looks while its context is open; `stop` ends questions that are under way. Raises ConfigurationError.
    """
    ports: dict[str, Stage] = dict.fromkeys(scrape, "unknown") or local_ports(stages)
    stores = Stores(stages, stop or threading.Event())
    questions = Questions(
        stores.tables,
        stores.queue,
        stores.topics,
        stores.capture,
        Scraper(list(ports), ports).look if ports else None,
        stores.close,
    )
    unwatched = [] if scrape else [name for name, each in _named(stages) if each.health is None]
    console = Console(names_of(stages), metadata.version("dstream-cdc"), changes_allowed, unwatched)
    return StoresWatching(questions, console, look_every=look_every)


def local_ports(stages: Stages) -> dict[str, Stage]:
    """The health ports of the stages, as a process on this machine reaches them, and whose they are."""
    blocks = [(name, each.health) for name, each in _named(stages)]
    return {f"http://{_host(block.host)}:{block.port}": name for name, block in blocks if block is not None}


def _named(stages: Stages) -> list[tuple[Stage, Any]]:
    both: tuple[tuple[Stage, Any], ...] = (("ingester", stages.ingester), ("router", stages.router))
    return [(name, each) for name, each in both if each is not None]


def _host(host: str) -> str:
    host = _ANY_ADDRESS.get(host, host)
    return f"[{host}]" if ":" in host and not host.startswith("[") else host
