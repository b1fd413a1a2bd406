"""A router that runs for long, with sessions that come and go and a service that stumbles: it must not grow, and must leave nothing locked.

Locks last ten seconds instead of a minute and the service stumbles every few seconds, so that an hour holds what a day would.
"""

from __future__ import annotations

import re
import signal
import sys
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import zip_longest
from pathlib import Path
from random import Random
from statistics import median

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusReceiveMode
from azure.servicebus.exceptions import ServiceBusError

from common.errors import TransientError
from common.servicebus.namespace import ServiceBus
from emulators.servicebus.description import QueueDescription
from emulators.servicebus.faults.catalogue import LinksDetached, LocksLost, ServerBusy
from emulators.servicebus.server import ServiceBusEmulator
from tests.contracts.bus.test_router import PERSONS, change
from tests.contracts.bus.test_workers import Router, begun, eventually

QUEUE = "ingest-queue"
_SESSIONS = 40
_RATE = 150
_STUMBLES_EVERY = 7.0
_LINKS_A_WORKER = 2 + 8 * 2 + 4
"""Connections of a worker with two slots: theirs, those of parked sessions, its publisher's, and some that are just being closed."""

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")


@dataclass
class Load:
    """What was sent, in its order by session, and what a subscriber took, with the numbers that the topic gave.

    The numbers tell the order on the topic; that of delivery is the SDK's (docs/guarantees.md).
    """

    sent: dict[str, list[str]] = field(default_factory=dict)
    taken: dict[str, list[tuple[int, str]]] = field(default_factory=dict)

    def wrong(self) -> dict[str, tuple[list[str], list[str]]]:
        """By session what was sent and what was taken, from the first difference on; only those that differ."""
        found = {}
        for session in self.sent.keys() | self.taken.keys():
            sent, taken = self.sent.get(session, []), [name for _, name in sorted(self.taken.get(session, []))]
            if sent != taken:
                at = next(at for at, (one, two) in enumerate(zip_longest(sent, taken)) if one != two)
                found[session] = (sent[at : at + 5], taken[at : at + 5])
        return found

    def arrived(self) -> bool:
        return sum(map(len, self.taken.values())) >= sum(map(len, self.sent.values()))


@dataclass(frozen=True)
class Sample:
    """Of all workers together: octets resident, connections, threads."""

    memory: int
    connections: int
    threads: int


def feed(emulator: ServiceBusEmulator, load: Load, stop: threading.Event, random: Random) -> None:
    """Bursts for a few of the sessions at a time, so that others are given up and taken again."""
    bus = ServiceBus.from_connection_string(emulator.connection_string)
    number = 0
    with closing(bus.sender(QUEUE)) as sender:
        while not stop.is_set():
            lanes = random.sample(range(_SESSIONS), random.randint(1, 6))
            messages = [
                change(PERSONS, number + at, f"persons/{lanes[at % len(lanes)]}") for at in range(random.randint(1, 90))
            ]
            number += len(messages)
            while True:
                try:
                    sender.send(messages)
                    break
                except TransientError:
                    time.sleep(0.2)
            for message in messages:
                load.sent.setdefault(str(message.session_id), []).append(str(message.message_id))
            stop.wait(random.uniform(0, 2 * len(messages) / _RATE))


def take(emulator: ServiceBusEmulator, load: Load, stop: threading.Event) -> None:
    while not stop.is_set():
        try:
            with (
                ServiceBusClient.from_connection_string(emulator.connection_string, retry_total=0) as client,
                client.get_subscription_receiver(
                    PERSONS,
                    "sub1",
                    receive_mode=ServiceBusReceiveMode.RECEIVE_AND_DELETE,
                    prefetch_count=100,
                    keep_alive=None,
                ) as receiver,
            ):
                while not stop.is_set():
                    for found in receiver.receive_messages(200, max_wait_time=0.5):
                        taken = load.taken.setdefault(str(found.session_id), [])
                        taken.append((found.sequence_number or 0, str(found.message_id)))
        except ServiceBusError:
            stop.wait(0.2)


def stumble(emulator: ServiceBusEmulator, stop: threading.Event, random: Random) -> None:
    """Only of the ingest queue: what was received and deleted from the subscription when a connection is cut is nobody's to send again."""
    while not stop.wait(random.uniform(0.5, 1.5) * _STUMBLES_EVERY):
        faults = [
            LinksDetached(QUEUE),
            LocksLost(QUEUE, 3),
            ServerBusy(1.0, entity=QUEUE),
            ServerBusy(1.0, entity=PERSONS),
        ]
        with emulator.inject(random.choice(faults)):
            stop.wait(1.0)


def sample(workers: Sequence[int]) -> Sample:
    status = [Path(f"/proc/{pid}/status").read_text() for pid in workers]
    sockets = [link for pid in workers for link in Path(f"/proc/{pid}/fd").iterdir() if is_socket(link)]
    return Sample(
        sum(int(found[1]) * 1024 for text in status if (found := re.search(r"VmRSS:\s+(\d+)", text))),
        len(sockets),
        sum(int(found[1]) for text in status if (found := re.search(r"Threads:\s+(\d+)", text))),
    )


def is_socket(link: Path) -> bool:
    try:
        return str(link.readlink()).startswith("socket:")
    except FileNotFoundError:  # closed since it was listed
        return False


@contextmanager
def threads(*work: Callable[[], None]) -> Iterator[None]:
    running = [threading.Thread(target=each) for each in work]
    for thread in running:
        thread.start()
    yield
    for thread in running:
        thread.join()


def locked(emulator: ServiceBusEmulator) -> int:
    """Messages of the queue that somebody holds."""
    with urllib.request.urlopen(f"http://127.0.0.1:{emulator.http_port}/", timeout=30) as answer:
        row = answer.read().decode().partition(f">{QUEUE}</a>")[2].partition("</tr>")[0]
    return int(re.findall(r'<td class="n">(\d+)', row)[1])


def soak(folder: Path, *, seconds: float, seed: int) -> list[Sample]:
    """The samples, one every two seconds."""
    load, stop, later = Load(), threading.Event(), folder / "later"
    later.mkdir()
    with ServiceBusEmulator() as emulator:
        queue = QueueDescription(
            requires_session=True, requires_duplicate_detection=True, lock_duration=timedelta(seconds=10)
        )
        emulator.admin.create(QUEUE, queue)
        router = Router(folder, emulator)
        eventually(begun(router), router)
        halt = threading.Event()
        with threads(lambda: take(emulator, load, halt)):
            samples: list[Sample] = []
            with threads(
                lambda: feed(emulator, load, stop, Random(seed)), lambda: stumble(emulator, stop, Random(seed))
            ):
                deadline = time.monotonic() + seconds
                while time.monotonic() < deadline:
                    samples.append(sample(router.workers()))
                    time.sleep(2)
                router.process.send_signal(signal.SIGTERM)
                assert router.wait() == 0
                assert locked(emulator) == 0
                stop.set()
            again = Router(later, emulator)
            eventually(load.arrived, again, 60)
            again.process.send_signal(signal.SIGTERM)
            assert again.wait() == 0
            halt.set()
        assert load.wrong() == {}
        counts = emulator.admin.get(QUEUE).counts
        assert (counts.active, counts.dead_letter) == (0, 0)
    said = router.said + again.said
    told = Counter(re.findall(r"\[(?:warning|error) *\] (.+?)  ", said))
    print(f"{sum(map(len, load.sent.values()))} messages; {dict(told)}", flush=True)
    assert "Traceback" not in said
    return samples


def flat(samples: Sequence[Sample]) -> bool:
    """Whether the last quarter is as the second was; the first warms up."""
    quarter = len(samples) // 4
    early, late = samples[quarter : 2 * quarter], samples[-quarter:]
    memory = [median(each.memory for each in part) for part in (early, late)]
    links = [median(each.connections for each in part) for part in (early, late)]
    running = [median(each.threads for each in part) for part in (early, late)]
    most = max(each.connections for each in samples)
    print(f"medians: memory {memory}, connections {links} (at most {most}), threads {running}", flush=True)
    return memory[1] <= memory[0] * 1.05 and links[1] <= links[0] + 2 and running[1] <= running[0] + 2


@pytest.mark.timeout(120)
def test_a_router_with_sessions_that_come_and_go_keeps_few_links_and_leaves_nothing_locked(tmp_path: Path) -> None:
    samples = soak(tmp_path, seconds=10, seed=3)
    assert max(each.connections for each in samples) <= 2 * _LINKS_A_WORKER


@pytest.mark.soak
@pytest.mark.timeout(4500)
def test_an_hour_leaves_the_router_as_it_was(tmp_path: Path) -> None:
    samples = soak(tmp_path, seconds=3600, seed=5)
    assert max(each.connections for each in samples) <= 2 * _LINKS_A_WORKER
    assert flat(samples)
