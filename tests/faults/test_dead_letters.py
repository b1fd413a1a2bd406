"""A replay is killed at any moment, and the next one goes on: each dead letter arrives exactly once, or is reported as doubtful."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from common.message import Message
from desk.dead_letters.account import MOST_NAMED
from desk.dead_letters.journal import unfinished
from emulators.servicebus.description import QueueDescription
from emulators.servicebus.faults.frames import AnswersDelayed
from emulators.servicebus.server import ServiceBusEmulator
from tests.contracts.dead_letters.conftest import QUEUE, Namespace, change, numbers


class Desk:
    """`dstream dlq` as processes."""

    def __init__(self, namespace: Namespace, folder: Path) -> None:
        self.config = folder / "dstream.hcl"
        self.config.write_text(namespace.configuration())
        self._audit = folder / "audit.jsonl"
        self.memory = 0.0
        """MB that one of them had resident at most, as far as it was seen. `getrusage` does not say it: there a child begins with its parent's."""

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
        threading.Thread(target=self._watch, args=(process,), daemon=True).start()
        out, err = process.communicate(timeout=1200)
        assert process.returncode == status, (out, err)
        return out

    def _watch(self, process: subprocess.Popen[str]) -> None:
        while process.poll() is None:
            with suppress(OSError):
                if highest := re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{process.pid}/status").read_text()):
                    self.memory = max(self.memory, int(highest[1]) / 1024)
            time.sleep(0.2)

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


def killed_while_it_sends(desk: Desk, namespace: Namespace, chance: random.Random, most: int, *options: str) -> int:
    """Begin a replay and kill it at some moment before it has sent `most`; how many copies have arrived by then."""
    before = namespace.emulator.admin.get(QUEUE).counts.active
    process = desk.begin("replay", "queue", "--json", *options)
    deadline, kill_at = time.monotonic() + 900, before + chance.randrange(most)
    while time.monotonic() < deadline and process.poll() is None:
        if namespace.emulator.admin.get(QUEUE).counts.active > kill_at:
            time.sleep(chance.random() * 0.02)
            break
        time.sleep(0.001)
    assert process.poll() in (None, 0), process.communicate()
    process.send_signal(signal.SIGKILL)
    process.communicate()
    return namespace.emulator.admin.get(QUEUE).counts.active - before


def checked(namespace: Namespace, expected: list[int]) -> None:
    found = numbers(namespace.waiting)
    counted = Counter(found)
    if missing := set(expected) - set(counted):
        there = Counter(each.reason for each in namespace.dead if numbers([each])[0] in missing)
        raise AssertionError(f"{len(missing):,} are lost, {min(missing)} first; among the dead letters are {there}")
    assert set(counted) == set(expected)
    assert max(counted.values()) == 1, "none arrives twice"
    for session in range(3):
        mine = [number for number in found if number % 3 == session]
        assert mine == sorted(mine), "a session keeps its order"


@pytest.mark.timeout(400)
def test_five_kills(namespace: Namespace, clock: Clock, tmp_path: Path) -> None:
    namespace.create()
    namespace.bury([change(number, session=f"s{number % 3}") for number in range(600)])
    desk, chance = Desk(namespace, tmp_path), random.Random(7)
    for _ in range(5):
        killed_while_it_sends(desk, namespace, chance, 1)
        clock.ahead += 61
    result = desk.replay()
    assert result["doubtful"] == 0, result
    assert result["complete"], result
    checked(namespace, list(range(600)))
    assert namespace.dead == []


@pytest.mark.timeout(400)
def test_without_duplicate_detection_what_may_come_twice_is_reported(
    namespace: Namespace, clock: Clock, tmp_path: Path
) -> None:
    """Also what a run has sent a second time that was killed in its turn."""
    namespace.emulator.admin.create(QUEUE, QueueDescription(requires_session=True))
    namespace.bury([change(number, session=f"s{number % 3}") for number in range(90)])
    sequences = dict(zip(numbers(namespace.dead), (each.sequence for each in namespace.dead), strict=True))
    desk, chance = Desk(namespace, tmp_path), random.Random(7)
    for _ in range(3):
        killed_while_it_sends(desk, namespace, chance, 1)
        clock.ahead += 61
    result = desk.replay()
    found = Counter(numbers(namespace.waiting))
    assert set(found) == set(range(90)), "none is lost"
    twice = {sequences[number] for number, count in found.items() if count > 1}
    assert result["doubtful"] >= len(twice), result
    lines = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
    told = next(line for line in reversed(lines) if line["outcome"] == "done")["details"]
    assert told["doubtful"] == result["doubtful"]
    if result["doubtful"] <= MOST_NAMED:
        assert twice <= set(told["doubtful_sequences"])
    assert namespace.dead == []
    assert desk.replay()["doubtful"] == 0, "reported once"


@pytest.mark.timeout(300)
def test_an_interrupt_finishes_what_is_in_flight(namespace: Namespace, tmp_path: Path) -> None:
    namespace.create()
    namespace.bury([change(number, session=f"s{number % 3}") for number in range(1_500)])
    desk = Desk(namespace, tmp_path)
    with namespace.emulator.inject(AnswersDelayed(200)):
        process = desk.begin("replay", "queue", "--json")
        deadline = time.monotonic() + 120
        while not namespace.emulator.admin.get(QUEUE).counts.active:
            assert time.monotonic() < deadline
            time.sleep(0.001)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=120)
    assert process.returncode == 130, (out, err)
    result = json.loads(out)
    assert (result["complete"], result["replayed"] + result["left_count"]) == (False, 1_500), result
    assert 0 < result["replayed"] < 1_500
    assert "it was stopped" in " ".join(result["warnings"])
    assert len(namespace.waiting) == result["replayed"]
    assert len(namespace.dead) == result["left_count"], "what was sent is completed"
    [journal] = (tmp_path / "replays").glob("*.jsonl")
    assert unfinished(journal) == {}
    rest = desk.replay()
    assert (rest["replayed"], rest["doubtful"]) == (result["left_count"], 0)
    checked(namespace, list(range(1_500)))


def expired(namespace: Namespace, clock: Clock, count: int) -> None:
    """So many dead letters, a quarter of them of another table: by their time to live, because one by one takes too long. Their copies live as long,
    so it is longer than a campaign."""
    described = QueueDescription(
        requires_session=True, requires_duplicate_detection=True, dead_lettering_on_message_expiration=True
    )
    namespace.emulator.admin.create(QUEUE, described)
    sender = namespace.bus.sender(QUEUE)
    for first in range(0, count, 5_000):
        made = [
            replace(_of_either(number), time_to_live=timedelta(minutes=50))
            for number in range(first, min(first + 5_000, count))
        ]
        sender.send(made)
    sender.close()
    clock.ahead = 3_100  # tokens last an hour
    deadline = time.monotonic() + 600
    while namespace.emulator.admin.get(QUEUE).counts.dead_letter < count:
        assert time.monotonic() < deadline
        time.sleep(0.2)
    clock.ahead = 0


def _of_either(number: int) -> Message:
    made = change(number, session=f"s{number % 3}")
    if number % 4:
        return made
    told = {**made.application_properties, "table": "Orders"}
    return replace(made, application_properties=told, body=made.body.replace(b'"Persons"', b'"Orders"'))


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_a_hundred_thousand_with_a_filter(namespace: Namespace, clock: Clock, tmp_path: Path) -> None:
    """DSTREAM_TEST_DEAD_LETTERS: how many; DSTREAM_TEST_KILLS: how many kills."""
    count, kills = (
        int(os.environ.get(name, default))
        for name, default in (("DSTREAM_TEST_DEAD_LETTERS", "100000"), ("DSTREAM_TEST_KILLS", "3"))
    )
    begun = time.monotonic()
    expired(namespace, clock, count)
    print(f"\n{count:,} dead letters after {time.monotonic() - begun:.0f} s", flush=True)
    desk, chance = Desk(namespace, tmp_path), random.Random(int(os.environ.get("DSTREAM_TEST_SEED", "7")))
    options = ("--table", "dbo.Persons")
    for _ in range(kills):
        begun = time.monotonic()
        sent = killed_while_it_sends(desk, namespace, chance, count // 8, *options)
        print(f"killed after {time.monotonic() - begun:.0f} s and {sent:,} copies", flush=True)
        clock.ahead += 61
    begun = time.monotonic()
    result = json.loads(desk.run("replay", "queue", "--json", *options))
    print(f"the rest, {result['replayed']:,}, in {time.monotonic() - begun:.0f} s", flush=True)
    print(f"{desk.memory:.0f} MB resident at most", flush=True)
    begun = time.monotonic()
    listed = json.loads(desk.run("list", "queue", "--json"))
    print(f"a first page of {len(listed['items'])} in {time.monotonic() - begun:.1f} s", flush=True)
    assert result["doubtful"] == 0, result
    assert result["complete"], result
    checked(namespace, [number for number in range(count) if number % 4])
    assert sorted(numbers(namespace.dead)) == list(range(0, count, 4)), "what was not meant is still there"
