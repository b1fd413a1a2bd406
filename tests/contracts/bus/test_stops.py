"""`dstream router` as processes that are asked to stop in every state, peers that answer nothing included: it ends within 20 s.

The bounds are longer, for a machine that does other work. A worker that stands still: test_workers.py.
"""

from __future__ import annotations

import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from emulators.servicebus.server import ServiceBusEmulator
from tests.contracts.bus.test_router import PERSONS, change, put
from tests.contracts.bus.test_workers import Router, begun, eventually, running, unrouted
from tests.worlds.tcp_relay import TcpRelay

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="finds processes in /proc")

WITHIN = 25.0
"""Seconds: the promise is 20, on a machine that has the time."""


class Mute:
    """Accepts whoever connects, and says nothing. `asked`: somebody has."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self._taken: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, name="mute", daemon=True).start()

    def _accept(self) -> None:
        try:
            while True:
                self._taken.append(self._listener.accept()[0])
                self.asked.set()
        except OSError:
            return

    def close(self) -> None:
        for each in (self._listener, *self._taken):
            each.close()


@pytest.fixture
def mute() -> Iterator[Mute]:
    made = Mute()
    yield made
    made.close()


@contextmanager
def routing(
    folder: Path,
    emulator: ServiceBusEmulator,
    *,
    workers: int,
    provision: str = "create",
    change: Callable[[str], str] = lambda text: text,
) -> Iterator[Router]:
    """A router whose configuration is changed before it starts."""
    router = Router(folder, emulator, workers=workers, provision=provision, change=change)
    try:
        yield router
    finally:
        router.process.kill()
        router.process.wait()


def ends(router: Router, *, status: int | None) -> None:
    """Asked to stop it does, and so do its workers. None: with any status that is an answer to the signal."""
    workers, began = router.workers(), time.monotonic()
    router.process.terminate()
    ended = router.wait(WITHIN + 10)
    assert time.monotonic() - began < WITHIN, router.said
    assert ended in ((0, 1) if status is None else (status,)), router.said
    eventually(lambda: not any(map(running, workers)), router)


def test_while_the_management_endpoint_does_not_answer(
    emulator: ServiceBusEmulator, mute: Mute, tmp_path: Path
) -> None:
    """Workers are started behind it."""

    def elsewhere(text: str) -> str:
        return text.replace(f":{emulator.http_port}", f":{mute.port}")

    with routing(tmp_path, emulator, workers=2, change=elsewhere) as router:
        assert mute.asked.wait(60), router.said
        ends(router, status=0)


@pytest.mark.parametrize("workers", [1, 2])
def test_while_links_are_opened_and_nobody_answers(
    emulator: ServiceBusEmulator, mute: Mute, tmp_path: Path, workers: int
) -> None:
    def elsewhere(text: str) -> str:
        return text.replace(f":{emulator.port};", f":{mute.port};")

    with routing(tmp_path, emulator, workers=workers, provision="none", change=elsewhere) as router:
        assert mute.asked.wait(60), router.said
        ends(router, status=0)


@pytest.mark.parametrize("workers", [1, 2])
def test_while_batches_are_sent_and_the_service_falls_mute(
    emulator: ServiceBusEmulator, tmp_path: Path, workers: int
) -> None:
    with TcpRelay(emulator.port) as relay:

        def led(text: str) -> str:
            return text.replace(f":{emulator.port};", f":{relay.port};")

        with routing(tmp_path, emulator, workers=workers, change=led) as router:
            eventually(begun(router, workers), router, 90)
            put(emulator, [change(PERSONS, number, f"persons/{number % 8}") for number in range(4_000)])
            eventually(lambda: unrouted(emulator) < 4_000, router, 60)
            relay.mute()
            ends(router, status=None)


def test_workers_whose_parent_is_killed_while_the_service_is_mute_end_as_well(
    emulator: ServiceBusEmulator, tmp_path: Path
) -> None:
    with TcpRelay(emulator.port) as relay:

        def led(text: str) -> str:
            return text.replace(f":{emulator.port};", f":{relay.port};")

        with routing(tmp_path, emulator, workers=2, change=led) as router:
            eventually(begun(router), router, 90)
            put(emulator, [change(PERSONS, number, f"persons/{number % 8}") for number in range(4_000)])
            eventually(lambda: unrouted(emulator) < 4_000, router, 60)
            workers = router.workers()
            assert len(workers) == 2
            relay.mute()
            router.process.kill()
            eventually(lambda: not any(map(running, workers)), router, WITHIN + 10)


def test_while_sessions_are_parked(emulator: ServiceBusEmulator, tmp_path: Path) -> None:
    with routing(tmp_path, emulator, workers=2) as router:
        eventually(begun(router), router, 90)
        emulator.admin.delete(PERSONS)
        put(emulator, [change(PERSONS, number, f"persons/{number % 8}") for number in range(40)])
        eventually(lambda: "topic unavailable" in router.said, router, 60)
        ends(router, status=0)
