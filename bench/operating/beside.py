"""The console beside a loaded pipeline: what the pipeline routes and what its parts spend, in windows of time without a console and with one.

A console is `dstream console` as a process, and a page that is open at its first view: its stream of events, and the history every five seconds.
Windows come in the order A B B A (A: without, B: with), so that what drifts meets both alike.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

from bench.comparison.spread import spread
from bench.ingestion import system
from bench.operating.loaded import Loaded, Moment

_SETTLED: Final = 6.0
_PAGE_READS: Final = 5.0
"""Seconds between two readings of an open page."""
_READINGS: Final = ("overview", "history")


@dataclass(frozen=True, slots=True)
class Window:
    """`rate`: messages/s. `cores`: processor seconds a second, by part."""

    rate: float
    cores: dict[str, float]

    @property
    def pipeline(self) -> float:
        """Microseconds of both stages a message."""
        return 1e6 * (self.cores["ingester"] + self.cores["router"]) / self.rate

    @property
    def emulators(self) -> float:
        """Microseconds of both emulators a message."""
        return 1e6 * (self.cores["sqlserver"] + self.cores["servicebus"]) / self.rate


def compared(folder: Path, *, seconds: float, rounds: int, busy: int, idle: int) -> dict[str, Any]:
    """Four windows a round. `busy`, `idle`: tables."""
    without: list[Window] = []
    beside: list[Window] = []
    with Loaded(folder, busy=busy, idle=idle) as loaded:
        for number in range(rounds):
            without.append(_window(loaded, seconds))
            with _console(loaded, folder) as pid:
                beside += [_window(loaded, seconds, pid), _window(loaded, seconds, pid)]
            without.append(_window(loaded, seconds))
            last = [f"{each.rate:,.0f}" for each in (without[-2], *beside[-2:], without[-1])]
            print(f"round {number + 1}: messages/s {' '.join(last)} (console in the middle)", flush=True)
    return _figures(without, beside, tables=busy + idle, seconds=seconds)


def _window(loaded: Loaded, seconds: float, console: int | None = None) -> Window:
    time.sleep(_SETTLED)
    before, spent = loaded.moment(), _spent(console)
    time.sleep(seconds)
    after, then = loaded.moment(), _spent(console)
    return _between(before, after, then - spent)


def _between(before: Moment, after: Moment, console: float) -> Window:
    passed = after.at - before.at
    cores = {name: (after.processor[name] - spent) / passed for name, spent in before.processor.items()}
    return Window((after.routed - before.routed) / passed, {**cores, "console": console / passed})


def _spent(pid: int | None) -> float:
    return 0.0 if pid is None else sum(map(system.processor_seconds, [pid, *system.descendants(pid)]))


def _figures(without: list[Window], beside: list[Window], *, tables: int, seconds: float) -> dict[str, Any]:
    pairs = [100 * (1 - b.rate / a.rate) for a, b in zip(without, beside, strict=True)]
    cores = os.cpu_count() or 1
    console = [each.cores["console"] for each in beside]
    return {
        "tables": tables,
        "windows": len(without),
        "window_s": seconds,
        "load": os.getloadavg()[0],
        **_of("messages_s.without", [each.rate for each in without]),
        **_of("messages_s.with", [each.rate for each in beside]),
        **_of("throughput_lost_percent", pairs),
        **_of("pipeline_us_a_message.without", [each.pipeline for each in without]),
        **_of("pipeline_us_a_message.with", [each.pipeline for each in beside]),
        **_of("emulators_us_a_message.without", [each.emulators for each in without]),
        **_of("emulators_us_a_message.with", [each.emulators for each in beside]),
        **_of("cores_busy.without", [sum(each.cores.values()) for each in without]),
        **_of("cores_busy.with", [sum(each.cores.values()) for each in beside]),
        **_of("console_percent_of_a_core", [100 * each for each in console]),
        "console_percent_of_all_cores": 100 * median(console) / cores,
        "cores": cores,
    }


def _of(name: str, values: list[float]) -> dict[str, float]:
    found = spread(values)
    return {name: found.middle, f"{name}.low": found.low, f"{name}.high": found.high}


@contextmanager
def _console(loaded: Loaded, folder: Path) -> Iterator[int]:
    """The process id of a console with an open page."""
    files = ["--config", str(loaded.config), "--audit-file", str(folder / "audit.jsonl")]
    command = [sys.executable, "-m", "dstream", "console", "--port", "0", "--log-format", "json", *files]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env={**os.environ, **loaded.variables}, text=True
    )
    over = threading.Event()
    threads: list[threading.Thread] = []
    try:
        assert process.stdout is not None
        address = _address(process)
        work = {"output": lambda: _drain(process), "stream": lambda: _listen(address, over)}
        work["page"] = lambda: _read(address, over)
        threads = [threading.Thread(target=each, name=name, daemon=True) for name, each in work.items()]
        for thread in threads:
            thread.start()
        yield process.pid
        if process.poll() is not None:
            raise SystemExit("the console ended by itself")
    finally:
        over.set()
        process.terminate()
        process.wait(30)
        for thread in threads:
            thread.join(30)


def _address(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    for line in process.stdout:
        said = json.loads(line) if line.startswith("{") else {}
        if said.get("message") == "console started":
            return str(said["address"]).rstrip("/")
    raise SystemExit("the console has not started")


def _drain(process: subprocess.Popen[str]) -> None:
    for _ in process.stdout or ():
        pass


def _listen(address: str, over: threading.Event) -> None:
    """The stream of events, until the console ends."""
    try:
        with urllib.request.urlopen(f"{address}/api/v1/events", timeout=60) as stream:
            while not over.is_set() and stream.readline():
                pass
    except OSError:
        if not over.is_set():
            raise


def _read(address: str, over: threading.Event) -> None:
    """What the page asks for, beside its stream."""
    while True:
        for name in _READINGS:
            try:
                with urllib.request.urlopen(f"{address}/api/v1/{name}", timeout=60) as answer:
                    answer.read()
            except OSError:
                if not over.is_set():
                    raise
                return
        if over.wait(_PAGE_READS):
            return
