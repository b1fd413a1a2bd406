"""What a router of many topics holds: connections, threads, memory, and how long its start takes.

    .venv/bin/python bench/topics.py [--topics 300] [--workers 8]

The namespace has the topics already; nothing is sent. Linux only. The last line is JSON with the figures.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from emulators.servicebus.description import QueueDescription, SubscriptionDescription, TopicDescription
from emulators.servicebus.server import ServiceBusEmulator

_CONFIG = """\
ingester {{
    db_type              = "sqlserver"
    db_connection_string = "Server=localhost;Database=db;User Id=u;Password=pass"
    server_name          = "srv"
    database             = "db"
    queue {{
        type              = "azure_service_bus"
        name              = "ingest-queue"
        connection_string = "{bus}"
    }}
    locks {{
        type = "local"
    }}
    tables = [{tables}]
}}
router {{
    workers = {workers}
    source {{
        type                = "azure_service_bus"
        connection_string   = "{bus}"
        management_endpoint = "{management}"
    }}
    output {{
        type                = "azure_service_bus"
        connection_string   = "{bus}"
        management_endpoint = "{management}"
    }}
}}
"""
_SETTLED = 5.0
"""Seconds after the last worker has started."""


def namespace(topics: int) -> ServiceBusEmulator:
    """One that has everything already."""
    emulator = ServiceBusEmulator()
    emulator.start()
    emulator.admin.create("ingest-queue", QueueDescription(requires_session=True, requires_duplicate_detection=True))
    for number in range(topics):
        emulator.admin.create(f"srv.db.t{number}.events", TopicDescription(requires_duplicate_detection=True))
        emulator.admin.create(f"srv.db.t{number}.events/Subscriptions/sub1", SubscriptionDescription())
    return emulator


def tree(pid: int) -> Iterator[int]:
    """The process and all below it."""
    yield pid
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        yield from tree(int(child))


def status(pid: int, field: str) -> int:
    """A number of /proc/PID/status."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(f"{field}:")).split()[1])


def connections(port: int) -> int:
    """Established ones to `port`."""
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(state == "01" and int(remote.split(":")[1], 16) == port for _, _, remote, state, *_ in lines)


def measured(folder: Path, topics: int, workers: int) -> dict[str, float]:
    emulator = namespace(topics)
    try:
        management = f"http://127.0.0.1:{emulator.http_port}"
        tables = ", ".join(f'"T{number}"' for number in range(topics))
        config = folder / "dstream.hcl"
        config.write_text(
            _CONFIG.format(bus=emulator.connection_string, management=management, tables=tables, workers=workers)
        )
        log, began = folder / "router.log", time.monotonic()
        with log.open("wb") as said:
            command = [sys.executable, "-m", "dstream", "router", "--config", str(config)]
            router = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=said, stderr=said)
        most = 0
        while log.read_text().count("router started") < workers:
            assert router.poll() is None, log.read_text()
            most = max(most, connections(emulator.port))
            time.sleep(0.05)
        start = time.monotonic() - began
        time.sleep(_SETTLED)
        pids = list(tree(router.pid))
        found = {
            "start_s": start,
            "connections.most": most,
            "connections": connections(emulator.port),
            "threads": sum(status(pid, "Threads") for pid in pids),
            "memory_mb": sum(status(pid, "VmRSS") for pid in pids) / 1024,
        }
        router.terminate()
        router.wait(60)
        return {name: round(value, 1) for name, value in found.items()}
    finally:
        emulator.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description="A router of many topics.")
    parser.add_argument("--topics", type=int, default=300)
    parser.add_argument("--workers", type=int, default=8)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = measured(Path(folder), chosen.topics, chosen.workers)
    for name, value in found.items():
        print(f"{name:24}{value:>10}")
    print(json.dumps({"topics": chosen.topics, "workers": chosen.workers, **found}))


if __name__ == "__main__":
    main()
