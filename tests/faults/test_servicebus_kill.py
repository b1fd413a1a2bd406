"""SIGKILL of the Service Bus emulator under load: what it acknowledged is on the disk, and nothing by halves.

Each round runs the program on the same directory with Azure's client sending, settling and holding sessions, and kills it
at a random moment. The data file is then compared with what the client was told; what the client asked for without being
answered may have happened or not. The last round takes everything out through the client.
"""

from __future__ import annotations

import contextlib
import json
import random
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from azure.servicebus import (
    NEXT_AVAILABLE_SESSION,
    ServiceBusClient,
    ServiceBusMessage,
    ServiceBusReceiveMode,
    ServiceBusSubQueue,
)
from azure.servicebus.exceptions import OperationTimeoutError, ServiceBusError

from emulators.servicebus.journal import DEAD_LETTERS
from emulators.servicebus.message import Message, MessageState
from emulators.servicebus.storage.data_file import open_data
from emulators.servicebus.storage.recovery import read_messages, read_sequences, read_session_states

ENTITIES = ["--queue", "q", "--queue", "s:session", "--topic", "t=all,once"]
ALL, ONCE = "t/subscriptions/all", "t/subscriptions/once"
SESSIONS = ("red", "green", "blue")


@dataclass
class Ledger:
    """What the client asked for and what it was told; bodies are the names of messages. One writer for each part."""

    batches: dict[str, list[list[str]]] = field(default_factory=lambda: defaultdict(list))
    sent: set[str] = field(default_factory=set)
    received: Counter[str] = field(default_factory=Counter)
    asked: dict[str, str] = field(default_factory=dict)
    settled: dict[str, str] = field(default_factory=dict)
    states_asked: dict[str, list[bytes]] = field(default_factory=lambda: defaultdict(list))
    states_set: dict[str, bytes] = field(default_factory=dict)

    def settle(self, outcome: str, body: str, action: Callable[[], None]) -> None:
        self.asked[body] = outcome
        action()
        self.settled[body] = outcome


@dataclass
class Figures:
    """Of a whole campaign."""

    kills: int = 0
    batches: int = 0
    unanswered_batches: int = 0
    sent: int = 0
    settled: int = 0
    unanswered_settlements: int = 0


class Program:
    """The emulator as a process on a directory."""

    def __init__(self, data: Path) -> None:
        command = [sys.executable, "-m", "emulators.servicebus", "--port", "0", "--http-port", "0", "--json"]
        self._process = subprocess.Popen(
            [*command, "--data", str(data), *ENTITIES], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        announcement = self._process.stdout.readline()
        assert announcement, self._process.communicate()[1]
        self.connection_string: str = json.loads(announcement)["connection_string"]

    def kill(self) -> None:
        self._process.kill()
        _, errors = self._process.communicate(timeout=60)
        assert errors == ""

    @contextlib.contextmanager
    def client(self) -> Iterator[ServiceBusClient]:
        with ServiceBusClient.from_connection_string(self.connection_string, retry_total=0, keep_alive=0) as client:
            yield client


class Load:
    """Threads that work against one run of the program until it dies."""

    def __init__(self, program: Program, ledger: Ledger, seed: int) -> None:
        self._program = program
        self._ledger = ledger
        self._over = threading.Event()
        self._at_work: dict[str, bool] = {}
        self._failures: list[BaseException] = []
        jobs = (self._send_queue, self._send_sessions, self._send_topic, self._settle, self._hold_sessions, self._take)
        self._threads = [
            threading.Thread(target=self._run, args=(job, random.Random(f"{seed} {job.__name__}"))) for job in jobs
        ]
        for thread in self._threads:
            thread.start()

    def wait(self) -> None:
        """Until every thread got something done."""
        deadline = time.monotonic() + 120
        while len(self._at_work) < len(self._threads):
            assert time.monotonic() < deadline, f"only {sorted(self._at_work)} are at work"
            assert not self._failures, self._failures
            time.sleep(0.01)

    def end(self) -> None:
        """The program is dead: wait for the threads to notice."""
        self._over.set()
        for thread in self._threads:
            thread.join(30)
            assert not thread.is_alive(), f"{thread} hangs"
        assert not self._failures, self._failures

    def _run(self, job: Callable[[ServiceBusClient, random.Random], None], dice: random.Random) -> None:
        try:
            with self._program.client() as client:
                job(client, dice)
        except (ServiceBusError, OSError):
            pass  # what the death of the program looks like
        except BaseException as error:
            self._failures.append(error)

    def _send(self, sender: Any, place: str, size: int, **properties: Any) -> None:
        batches = self._ledger.batches[place]
        bodies = [f"{place} {len(batches)} {index}" for index in range(size)]
        batches.append(bodies)
        sender.send_messages([ServiceBusMessage(body, **properties) for body in bodies])
        self._ledger.sent.update(bodies)

    def _send_queue(self, client: ServiceBusClient, dice: random.Random) -> None:
        with client.get_queue_sender("q") as sender:
            while not self._over.is_set():
                self._send(sender, "q", dice.randint(1, 12))
                self._at_work["queue"] = True

    def _send_sessions(self, client: ServiceBusClient, dice: random.Random) -> None:
        with client.get_queue_sender("s") as sender:
            while not self._over.is_set():
                self._send(sender, "s", dice.randint(1, 6), session_id=dice.choice(SESSIONS))
                self._at_work["sessions"] = True

    def _send_topic(self, client: ServiceBusClient, dice: random.Random) -> None:
        with client.get_topic_sender("t") as sender:
            while not self._over.is_set():
                self._send(sender, "t", dice.randint(1, 4))
                self._at_work["topic"] = True

    def _settle(self, client: ServiceBusClient, dice: random.Random) -> None:
        with client.get_queue_receiver("q", prefetch_count=20) as receiver:
            ways = {
                "complete": receiver.complete_message,
                "dead-letter": receiver.dead_letter_message,
                "defer": receiver.defer_message,
                "abandon": receiver.abandon_message,
            }
            while not self._over.is_set():
                for message in receiver.receive_messages(10, max_wait_time=0.2):
                    [way] = dice.choices(list(ways), weights=(12, 2, 1, 1))
                    self._ledger.settle(way, str(message), lambda m=message, way=way: ways[way](m))  # type: ignore[misc]
                    self._at_work["settle"] = True

    def _hold_sessions(self, client: ServiceBusClient, dice: random.Random) -> None:
        while not self._over.is_set():
            with (
                contextlib.suppress(OperationTimeoutError),
                client.get_queue_receiver("s", session_id=NEXT_AVAILABLE_SESSION, max_wait_time=1) as receiver,
            ):
                session = receiver.session.session_id
                for message in receiver.receive_messages(5, max_wait_time=0.2):
                    self._ledger.settle("complete", str(message), lambda m=message: receiver.complete_message(m))  # type: ignore[misc]
                    state = str(message).encode()
                    self._ledger.states_asked[session].append(state)
                    receiver.session.set_state(state)
                    self._ledger.states_set[session] = state
                    self._at_work["hold"] = True

    def _take(self, client: ServiceBusClient, dice: random.Random) -> None:
        with client.get_subscription_receiver(
            "t", "once", receive_mode=ServiceBusReceiveMode.RECEIVE_AND_DELETE
        ) as receiver:
            while not self._over.is_set():
                for message in receiver.receive_messages(20, max_wait_time=0.2):
                    self._ledger.received[str(message)] += 1
                    self._at_work["take"] = True


Shelves = dict[str, dict[str, Message]]
"""Messages by shelf and body."""


def body(message: Message) -> str:
    """The tests' bodies are the last octets of a message, behind a prefix of their length."""
    text = message.tail.rsplit(b"\x53\x75\xa0", 1)[1]
    return text[1 : 1 + text[0]].decode()


class Judge:
    """Compares the data file with the ledger."""

    def __init__(self, data: Path, ledger: Ledger) -> None:
        self._ledger = ledger
        with closing(open_data(data)) as connection:
            self.shelves: Shelves = defaultdict(dict)
            for shelf, message in read_messages(connection):
                assert body(message) not in self.shelves[shelf], "twice in one place"
                self.shelves[shelf][body(message)] = message
            self._last = dict(read_sequences(connection))
            self._states = {session: state for _, session, state, _ in read_session_states(connection)}

    def judge(self) -> None:
        for place, shelves in {"q": ("q", "q" + DEAD_LETTERS), "s": ("s",), "t": (ALL,)}.items():
            self._judge_batches(place, shelves)
        for text, outcome in self._ledger.settled.items():
            self._judge_settled(text, outcome)
        for text, count in self._ledger.received.items():
            assert count == 1, f"{text} was received and deleted {count} times"
            assert text not in self.shelves[ONCE], f"{text} was received and deleted, and is still there"
        for session, asked in self._ledger.states_asked.items():
            told = self._ledger.states_set.get(session)
            possible = asked[asked.index(told) :] if told in asked else [None, *asked]
            assert self._states.get(session) in possible, f"state of {session}"
        for shelf in ("q", "s", ALL, ONCE):
            self._judge_order(shelf)

    def _judge_batches(self, place: str, shelves: tuple[str, ...]) -> None:
        for batch in self._ledger.batches[place]:
            where = {text: [shelf for shelf in shelves if text in self.shelves[shelf]] for text in batch}
            assert all(len(found) <= 1 for found in where.values()), f"in two places: {where}"
            untouched = [text for text in batch if self._ledger.asked.get(text) != "complete"]
            there = [text for text in untouched if where[text]]
            known = batch[0] in self._ledger.sent or any(text in self._ledger.asked for text in batch)
            assert len(there) in ((len(untouched),) if known else (0, len(untouched))), f"{batch}: only {there}"

    def _judge_settled(self, text: str, outcome: str) -> None:
        place = text.split()[0]
        if outcome == "complete":
            assert text not in self.shelves[place], f"{text} was completed and is there"
            assert text not in self.shelves[place + DEAD_LETTERS], f"{text} was completed and is a dead letter"
        elif outcome == "dead-letter":
            assert text in self.shelves[place + DEAD_LETTERS], f"{text} was dead-lettered"
        elif outcome == "defer":
            assert self.shelves[place][text].state is MessageState.DEFERRED
        elif self._ledger.asked[text] == "abandon":
            assert self.shelves[place][text].delivery_count >= 1

    def _judge_order(self, shelf: str) -> None:
        """One sender each: the order of sequence numbers is the order of sending, and no number is beyond the last."""
        by_number = sorted(self.shelves[shelf].values(), key=lambda message: message.sequence)
        sent = [tuple(int(number) for number in body(message).split()[1:]) for message in by_number]
        assert sent == sorted(sent), shelf
        assert all(message.sequence <= self._last[shelf] for message in by_number)


def campaign(data: Path, kills: int, seed: int) -> Figures:
    dice = random.Random(seed)
    ledger = Ledger()
    for kill in range(kills):
        program = Program(data)
        load = Load(program, ledger, seed * 1000 + kill)
        try:
            load.wait()
            time.sleep(dice.uniform(0, 0.8))
        finally:
            program.kill()
            load.end()
        Judge(data, ledger).judge()
    take_everything_out(data, Judge(data, ledger).shelves)
    batches = [batch for place in ledger.batches.values() for batch in place]
    return Figures(
        kills=kills,
        batches=len(batches),
        unanswered_batches=sum(batch[0] not in ledger.sent for batch in batches),
        sent=len(ledger.sent),
        settled=len(ledger.settled) + ledger.received.total(),
        unanswered_settlements=len(ledger.asked) - len(ledger.settled),
    )


def take_everything_out(data: Path, kept: Shelves) -> None:
    """What the file keeps is what the emulator serves, each in its place and in order; then the file is empty."""
    take: Any = {"receive_mode": ServiceBusReceiveMode.RECEIVE_AND_DELETE}
    program = Program(data)

    def in_order(shelf: str, session: str | None = None) -> list[str]:
        messages = sorted(kept[shelf].values(), key=lambda message: message.sequence)
        ready = (message for message in messages if message.state is MessageState.ACTIVE)
        return [body(message) for message in ready if session in (None, message.session_id)]

    def expect(bodies: list[str], receiver: Any) -> None:
        with receiver:
            assert drained(receiver, len(bodies)) == bodies

    def take_deferred(client: ServiceBusClient) -> None:
        deferred = sorted(m.sequence for m in kept["q"].values() if m.state is MessageState.DEFERRED)
        with client.get_queue_receiver("q", **take) as receiver:
            found = receiver.receive_deferred_messages(deferred) if deferred else []
            assert [message.sequence_number for message in found] == deferred

    with program.client() as client, ThreadPoolExecutor() as pool:  # closing each takes up to a second
        dead_letters = client.get_queue_receiver("q", sub_queue=ServiceBusSubQueue.DEAD_LETTER, **take)
        jobs = [
            pool.submit(expect, in_order("q"), client.get_queue_receiver("q", **take)),
            pool.submit(expect, in_order("q" + DEAD_LETTERS), dead_letters),
            pool.submit(take_deferred, client),
            *(
                pool.submit(
                    expect, in_order(f"t/subscriptions/{name}"), client.get_subscription_receiver("t", name, **take)
                )
                for name in ("all", "once")
            ),
            *(
                pool.submit(expect, in_order("s", session), client.get_queue_receiver("s", session_id=session, **take))
                for session in SESSIONS
            ),
        ]
        for job in jobs:
            job.result()
    program.kill()
    assert Judge(data, Ledger()).shelves == {}


def drained(receiver: Any, count: int) -> list[str]:
    """The bodies of so many messages, which are waited for, and of more that come at once."""
    bodies: list[str] = []
    while messages := receiver.receive_messages(500, max_wait_time=60 if len(bodies) < count else 0.5):
        bodies += [str(message) for message in messages]
    return bodies


def test_four_kills_lose_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    figures = campaign(tmp_path, kills=4, seed=3)
    assert figures.sent > 100
    assert figures.settled > 20


@pytest.mark.soak
def test_fifty_kills_lose_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    print(campaign(tmp_path, kills=50, seed=17))
