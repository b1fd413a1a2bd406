"""A router killed while it takes an edited configuration over, again and again: the next one goes on by the file, and nothing is lost."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from emulators.servicebus.server import ServiceBusEmulator
from tests.contracts.bus.test_router import PERSONS, left
from tests.contracts.bus.test_router_faults import waited_for
from tests.contracts.bus.test_takeover import Traffic, all_of, in_order, numbers
from tests.contracts.bus.test_workers import Router, begun, eventually

_LONGEST = 6.0
"""Seconds from an edit to the kill: it is seen after four at the most, and taken over within another."""


def campaign(folder: Path, *, kills: int, seed: int, workers: int) -> None:
    random = Random(seed)

    def same(_: str) -> str:
        return file.read_text()

    with ServiceBusEmulator() as emulator:
        router = Router(folder, emulator, workers=workers)
        file, seen = folder / "dstream.hcl", 0
        try:
            with Traffic(emulator) as traffic:
                for number in range(kills):
                    eventually(begun(router, workers), router)
                    text = file.read_text()
                    file.write_text(
                        text.replace("sessions = ", "sessions = 1", 1)
                        if number % 2 == 0
                        else text.replace("sessions = 1", "sessions = ", 1)
                    )
                    time.sleep(random.uniform(2.0, _LONGEST))
                    seen += "configuration reloaded" in router.said
                    victims = [router.process.pid, *router.workers()]
                    with suppress(ProcessLookupError):  # a worker that has just been replaced
                        os.kill(random.choice(victims) if workers > 1 else router.process.pid, signal.SIGKILL)
                    if workers == 1:
                        router.wait()
                    router.process.kill()
                    router.wait()
                    router = Router(folder, emulator, workers=workers, change=same)
                eventually(begun(router, workers), router)
            waited_for(lambda: left(emulator) == (0, 0), seconds=180)
            router.process.terminate()
            assert router.wait() == 0
        finally:
            router.process.kill()
            router.process.wait()
        found = numbers(emulator, PERSONS)
        print(f"{kills} kills, {seen} after an edit was taken over; {traffic.count} messages", flush=True)
        assert all_of({lane: list(set(got)) for lane, got in found.items()}) == list(range(traffic.count))
        assert in_order({lane: list(dict.fromkeys(got)) for lane, got in found.items()})


@pytest.mark.timeout(300)
def test_a_kill_during_a_takeover_loses_nothing(tmp_path: Path) -> None:
    campaign(tmp_path, kills=2, seed=4, workers=1)


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("workers", [1, 2])
def test_kills_during_takeovers(tmp_path: Path, kills: int, seed: int, workers: int) -> None:
    campaign(tmp_path, kills=kills, seed=seed, workers=workers)
