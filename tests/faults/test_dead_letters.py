"""A replay is killed at any moment, and the next one goes on: each dead letter arrives exactly once, or is reported as doubtful."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from emulators.servicebus.server import ServiceBusEmulator
from tests.contracts.dead_letters.conftest import QUEUE, Namespace, change, numbers

FILE = """ingester {{
  db_type = "sqlserver"
  db_connection_string = "sqlserver://u:p@127.0.0.1:1?database=db&dial+timeout=1"
  server_name = "srv"
  database = "db"
  queue {{
    name = "{queue}"
    connection_string = "{connection}"
    management_endpoint = "{endpoint}"
  }}
  tables = ["Persons"]
  locks {{
    type = "local"
  }}
}}
router {{
  source {{
    connection_string = "{connection}"
    management_endpoint = "{endpoint}"
  }}
  output {{
    type = "servicebus"
    connection_string = "{connection}"
    management_endpoint = "{endpoint}"
  }}
}}
"""


class Desk:
    """`dstream dlq` as processes."""

    def __init__(self, namespace: Namespace, folder: Path) -> None:
        self.config = folder / "dstream.hcl"
        self.config.write_text(
            FILE.format(queue=QUEUE, connection=namespace.emulator.connection_string, endpoint=namespace.endpoint)
        )
        self._audit = folder / "audit.jsonl"

    def begin(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "dstream", "dlq", *arguments, "--config", str(self.config)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "DSTREAM_AUDIT_FILE": str(self._audit)},
        )

    def run(self, *arguments: str, status: int = 0) -> str:
        process = self.begin(*arguments)
        out, err = process.communicate(timeout=1200)
        assert process.returncode == status, (out, err)
        return out

    def replay(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.run("replay", "queue", "--json"))
        return found


class Clock:
    """The service's, which can be set ahead: what a killed process holds is free once its locks are over."""

    ahead = 0.0

    def __call__(self) -> float:
        return time.time() + self.ahead


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def namespace(tmp_path: Path, clock: Clock) -> Iterator[Namespace]:
    with ServiceBusEmulator(clock=clock) as emulator:
        yield Namespace(emulator, tmp_path / "state")


def killed_while_it_sends(desk: Desk, namespace: Namespace, chance: random.Random) -> None:
    """Begin a replay and kill it once it has begun to send, at some moment after."""
    before = namespace.emulator.admin.get(QUEUE).counts.active
    process = desk.begin("replay", "queue", "--json")
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        if namespace.emulator.admin.get(QUEUE).counts.active > before:
            time.sleep(chance.random() * 0.02)
            break
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)
    process.communicate()


def arrived(namespace: Namespace) -> Counter[int]:
    return Counter(numbers(namespace.waiting))


def campaign(namespace: Namespace, clock: Clock, folder: Path, count: int, kills: int) -> None:
    namespace.create()
    namespace.bury([change(number, session=f"s{number % 3}") for number in range(count)])
    desk, chance = Desk(namespace, folder), random.Random(7)
    for _ in range(kills):
        killed_while_it_sends(desk, namespace, chance)
        clock.ahead += 61
    result = desk.replay()
    assert result["doubtful"] == 0, result
    assert result["complete"], result
    found = arrived(namespace)
    assert set(found) == set(range(count)), "none is lost"
    assert max(found.values()) == 1, "none arrives twice"
    assert namespace.dead == []
    for session in range(3):
        mine = [number for number in numbers(namespace.waiting) if number % 3 == session]
        assert mine == sorted(mine), "a session keeps its order"


@pytest.mark.timeout(400)
def test_five_kills(namespace: Namespace, clock: Clock, tmp_path: Path) -> None:
    campaign(namespace, clock, tmp_path, 600, 5)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_a_hundred_thousand(namespace: Namespace, clock: Clock, tmp_path: Path) -> None:
    campaign(namespace, clock, tmp_path, 100_000, 3)
