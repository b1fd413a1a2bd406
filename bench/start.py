"""How long `dstream ingester` takes to its first change in the queue, in what steps, and what it holds in memory while nothing happens.

    .venv/bin/python -m bench.start [--rounds 5] [--tables 1] [--python .venv/bin/python --python OTHER/bin/python]

Each round starts the ingester, as a user does, on 100 captured changes of each table, and a receiver waits for the first message. Its figures:
seconds and processor seconds of the whole tree (ended processes included) from the process's start to that message; seconds to each event of its
log; resident megabytes of driver, JVM and workers `--settle` seconds after Spark has started, and of driver and JVM also in proportion (`pss`: a
page that processes share counts in equal parts). `--python` names the interpreter of an installation
and may be repeated: their rounds alternate, so that both see the same machine. Prints medians; the last line is JSON. Linux only.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Final

from azure.servicebus import NEXT_AVAILABLE_SESSION, ServiceBusClient, ServiceBusReceiveMode

from bench.ingestion import system
from bench.ingestion.ground import Ground
from bench.ingestion.whole import configuration
from common.bus.ports import QueueNeed
from common.names import TableName
from common.servicebus.provision import provision

_ROWS: Final = 100
_PATIENCE: Final = 90.0
_LOOK: Final = 0.01
_EVENTS: Final = {
    "ingester starting": "announced_s",
    "ingester started": "looping_s",
    "Spark has started, slices go there from now on": "spark_s",
}

Figures = dict[str, float]


def one(ground: Ground, folder: Path, python: str, tables: list[TableName], name: str, settle: float) -> Figures:
    """The figures of one start."""
    needs = [QueueNeed(name, sessions=True)]
    provision(ground.bus, needs, how="create", management_endpoint=ground.emulators.management_endpoint)
    ground.cursor.execute("IF OBJECT_ID(N'dbo.cdc_offsets', N'U') IS NOT NULL DELETE FROM dbo.cdc_offsets")
    config, log = folder / f"{name}.hcl", folder / f"{name}.log"
    config.write_text(configuration(ground, tables, queue=name))
    arrived = threading.Event()
    with ServiceBusClient.from_connection_string(ground.emulators.bus_connection_string) as client:
        waiting = threading.Thread(target=_receive, args=(client, name, arrived), daemon=True)
        waiting.start()
        time.sleep(1)
        with log.open("wb") as output:
            begun, wall = time.monotonic(), time.time()
            process = subprocess.Popen(
                [python, "-m", "dstream", "ingester", "--config", str(config), "--log-format", "json"],
                # As a user has it: compiled modules are kept.
                env={name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"},
                cwd=folder,  # in a checkout, `-m` would take the modules that lie there, whatever the interpreter
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        try:
            while not arrived.wait(_LOOK):
                if process.poll() is not None or time.monotonic() - begun > _PATIENCE:
                    raise SystemExit(f"no message came:\n{log.read_text()[-2000:]}")
            figures = {"first_change_s": time.monotonic() - begun, "processor_s": _tree_seconds(process.pid)}
            _await_spark(process.pid)
            time.sleep(settle)
            resident = _resident(process.pid)
            asked = time.monotonic()
            process.terminate()
            process.wait(30)
            figures["stop_s"] = time.monotonic() - asked
        finally:
            process.kill()
    return figures | _steps(log, wall) | resident


def _await_spark(pid: int) -> None:
    """Its first task has a worker."""
    deadline = time.monotonic() + _PATIENCE
    while not system.ingester_processes(pid)["workers"] and time.monotonic() < deadline:
        time.sleep(_LOOK)


def _receive(client: ServiceBusClient, queue: str, arrived: threading.Event) -> None:
    with client.get_queue_receiver(
        queue,
        session_id=NEXT_AVAILABLE_SESSION,  # type: ignore[arg-type]  # the SDK's union is about sessions
        receive_mode=ServiceBusReceiveMode.RECEIVE_AND_DELETE,
        max_wait_time=_PATIENCE,
    ) as receiver:
        if receiver.receive_messages(max_message_count=1, max_wait_time=_PATIENCE):
            arrived.set()


def _tree_seconds(pid: int) -> float:
    return sum(map(system.processor_seconds_with_ended, [pid, *system.descendants(pid)]))


def _resident(pid: int) -> Figures:
    parts = system.ingester_processes(pid)
    found = {f"{name}_mb": sum(map(system.resident_megabytes, pids)) for name, pids in parts.items()}
    shares = sum(map(system.proportional_megabytes, [*parts["driver"], *parts["jvm"]]))
    both = {"driver_and_jvm_mb": found["driver_mb"] + found["jvm_mb"], "driver_and_jvm_pss_mb": shares}
    return found | both | {"workers": len(parts["workers"])}


def _steps(log: Path, begun: float) -> Figures:
    steps: Figures = {}
    for line in log.read_text().splitlines():
        try:
            logged = json.loads(line)
            name, at = _EVENTS.get(logged["message"]), datetime.fromisoformat(logged["timestamp"])
        except (ValueError, KeyError, TypeError):
            continue
        if name is not None:
            steps[name] = at.timestamp() - begun
    return steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tables", type=int, default=1)
    parser.add_argument("--settle", type=float, default=5.0, help="seconds without a change before memory is looked at")
    parser.add_argument("--python", action="append", default=None, help="the interpreter of an installation")
    chosen = parser.parse_args()
    pythons: list[str] = chosen.python or [sys.executable]
    found: dict[str, list[Figures]] = {python: [] for python in pythons}
    with tempfile.TemporaryDirectory() as folder, Ground() as ground:
        tables = [ground.table(f"T{number}") for number in range(chosen.tables)]
        for table in tables:
            ground.fill(table, _ROWS)
        for number in range(-1, chosen.rounds):  # the first is not counted: it fills caches
            for which, python in enumerate(pythons):
                figures = one(ground, Path(folder), python, tables, f"start-{which}-{number + 1}", chosen.settle)
                print(python, {name: round(value, 2) for name, value in figures.items()}, file=sys.stderr, flush=True)
                if number >= 0:
                    found[python].append(figures)
    medians = {
        python: {name: round(median(each[name] for each in rounds), 2) for name in rounds[0]}
        for python, rounds in found.items()
    }
    for name in medians[pythons[0]]:
        print(f"{name:24}", *(f"{medians[python].get(name, float('nan')):10.2f}" for python in pythons))
    print(json.dumps(medians))


if __name__ == "__main__":
    main()
