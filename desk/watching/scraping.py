"""What ingesters and routers report of themselves at their health ports: health, states of tables, counters. Each port is read at the same time.

Nothing of it decides where changes are: that comes from the stores.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import wait
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal

from common.clock import SteadyClock, steady
from common.errors import DStreamError
from common.in_time import begun
from common.observability.metrics import Reading, readings
from common.unread import Unread
from desk.documents.overview import Process
from desk.watching.fetching import SECONDS, Target, fetched, place_of, targets_of

Stage = Literal["ingester", "router", "unknown"]

_MOST = 64
"""Ports that are read."""
_ALL_SECONDS = 4 * SECONDS
_STARTING = "starting:"
_STARTING_SECONDS, _UNREACHED_SECONDS = 300.0, 120.0
"""A start with Spark takes most of a minute."""
_TEXT = 2_000
"""Characters of a readiness that are shown."""

_CHANGES = "dstream_ingester_changes_total"
_STATE, _LAG = "dstream_ingester_table_state", "dstream_ingester_lag_seconds"
_UP, _FILL = "dstream_router_destination_up", "dstream_router_storage_used_ratio"
_BEHIND = "dstream_router_sessions_behind"
_MEMORY = ("process_resident_memory_bytes", "dstream_router_worker_resident_memory_bytes")
NAMES = frozenset(
    {
        *(_CHANGES, _STATE, _LAG, _UP, _FILL, _BEHIND),
        *("dstream_ingester_ready", "dstream_router_ready"),
        *("dstream_ingester_slots", "dstream_router_slots", "dstream_ingester_slots_busy", "dstream_router_slots_busy"),
        *("dstream_router_sessions_parked", "dstream_router_sessions_stopped"),
        *_MEMORY,
    }
)


@dataclass(frozen=True, slots=True)
class Scraped:
    """One process. `states`, `lags`, `changes`: by table. `away`: (output, topic) that accept
    nothing. `fills`: used shares of storage, by entity as the router names it. `stopped`: sessions that stand at a poison message. `starting`: it
    is not ready, or not reached, as at a start, and this has not lasted for long."""

    process: Process
    states: Mapping[str, str] = field(default_factory=dict)
    lags: Mapping[str, float] = field(default_factory=dict)
    changes: Mapping[str, float] = field(default_factory=dict)
    away: Sequence[tuple[str, str]] = ()
    fills: Mapping[str, float] = field(default_factory=dict)
    stopped: int = 0
    starting: bool = False


class Scraper:
    """`urls`: as `http://ingester:8080`. `stages`: whose ports they are, where that is known. Raises ConfigurationError for one that cannot be
    right."""

    def __init__(
        self, urls: Sequence[str], stages: Mapping[str, Stage] | None = None, *, clock: SteadyClock = steady
    ) -> None:
        self._places = list(dict.fromkeys(place_of(url) for url in urls))
        self._clock = clock
        self._begun = clock()
        self._starts: dict[str, float] = {}
        self._stages = {place_of(url): stage for url, stage in (stages or {}).items()}
        self._seen: dict[str, Stage] = {}

    def look(self, unread: list[Unread]) -> Sequence[Scraped]:
        """In the order of the addresses. A port that does not answer is a process that is not reached."""
        targets, lost, whose_lost = dict[Target, Stage](), list[Scraped](), list[Stage]()
        for host, port in self._places:
            try:
                targets |= dict.fromkeys(targets_of(host, port), self._stages.get((host, port), "unknown"))
            except DStreamError as error:
                lost.append(_unreached(f"{host}:{port}", error.message))
                whose_lost.append(self._stages.get((host, port), "unknown"))
        if len(targets) > _MOST:
            unread.append(Unread("health ports", f"only {_MOST} of {len(targets)} are read"))
        looks = [(target, begun(partial(_scraped, target), name="scraping")) for target in list(targets)[:_MOST]]
        whose = [targets[target] for target, _ in looks]
        wait([future for _, future in looks], _ALL_SECONDS)
        found = [
            future.result() if future.done() else _unreached(str(target), f"no answer within {_ALL_SECONDS:g} s")
            for target, future in looks
        ]
        return [self._named(each, known) for each, known in zip([*found, *lost], [*whose, *whose_lost], strict=True)]

    def _named(self, scraped: Scraped, known: Stage) -> Scraped:
        """One that is not reached is what it was, or what it should be."""
        process = scraped.process
        scraped = replace(scraped, starting=self._starting(process))
        if process.stage != "unknown":
            self._seen[process.address] = process.stage
            return scraped
        stage = self._seen.get(process.address, known)
        return replace(scraped, process=process.model_copy(update={"stage": stage}))

    def _starting(self, process: Process) -> bool:
        """One that was reached once and is no longer has ended, and does not start."""
        now = self._clock()
        if not process.reached:
            self._starts.pop(process.address, None)
            return process.address not in self._seen and now - self._begun < _UNREACHED_SECONDS
        if process.ready is not False or not (process.text or "").startswith(_STARTING):
            self._starts.pop(process.address, None)
            return False
        return now - self._starts.setdefault(process.address, now) < _STARTING_SECONDS


def _unreached(address: str, why: str) -> Scraped:
    return Scraped(Process(address=address, stage="unknown", reached=False, text=why))


def _scraped(target: Target) -> Scraped:
    try:
        ready, text = fetched(target, "/readyz")
        alive, _ = fetched(target, "/healthz")
        status, exposed = fetched(target, "/metrics")
        values = list(readings(exposed, NAMES)) if status == 200 else []
    except DStreamError as error:
        return _unreached(str(target), error.message)
    except ValueError:
        return _unreached(str(target), f"{target}/metrics: this is not the text of Prometheus")
    return judged(str(target), values, ready=ready == 200, alive=alive == 200, text=text.strip()[:_TEXT])


def judged(address: str, values: Sequence[Reading], *, ready: bool, alive: bool, text: str) -> Scraped:
    """What a process says of itself. Pure."""
    of: dict[str, list[Reading]] = {}
    for each in values:
        of.setdefault(each.name, []).append(each)

    def only(*names: str) -> int | None:
        return next((int(of[name][0].value) for name in names if name in of), None)

    def by(name: str, label: str) -> dict[str, float]:
        return {each.labels.get(label, ""): each.value for each in of.get(name, ())}

    ingester = "dstream_ingester_ready" in of
    states = {each.labels["table"]: each.labels["state"] for each in of.get(_STATE, ()) if each.value == 1}
    behind = {output: int(count) for output, count in by(_BEHIND, "output").items() if count}
    process = Process(
        address=address,
        stage="ingester" if ingester else "router" if "dstream_router_ready" in of else "unknown",
        reached=True,
        ready=ready,
        alive=alive,
        text=None if ready else text,
        sessions=None if ingester else only("dstream_router_slots_busy"),
        parked=only("dstream_router_sessions_parked"),
        behind=behind,
        tables=sum(state == "read" for state in states.values()) if ingester else None,
        slots=only("dstream_ingester_slots", "dstream_router_slots"),
        slots_busy=only("dstream_ingester_slots_busy", "dstream_router_slots_busy"),
        memory_bytes=_memory(of),
    )
    return Scraped(
        process,
        states,
        by(_LAG, "table"),
        by(_CHANGES, "table"),
        [(each.labels["output"], each.labels["topic"]) for each in of.get(_UP, ()) if each.value == 0],
        by(_FILL, "entity"),
        only("dstream_router_sessions_stopped") or 0,
    )


def _memory(of: Mapping[str, Sequence[Reading]]) -> int | None:
    found = [each.value for name in _MEMORY for each in of.get(name, ())]
    return int(sum(found)) if found else None
