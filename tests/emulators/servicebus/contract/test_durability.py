"""Item 59: what the service has acknowledged survives its own sudden end."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.exceptions import ServiceBusError

from tests.emulators.servicebus.conftest import forget_sockets
from tests.emulators.servicebus.contract.labels import item
from tests.emulators.servicebus.contract.receiving import completed, take


class Service(NamedTuple):
    """The emulator as a program that may be killed, and a client that does not retry."""

    program: subprocess.Popen[str]
    client: ServiceBusClient


@contextmanager
def service(data: Path) -> Iterator[Service]:
    """A life of the namespace in `data`, with a queue; killed at the end."""
    command = [sys.executable, "-m", "emulators.servicebus", "--port", "0", "--http-port", "0", "--json"]
    with subprocess.Popen(
        [*command, "--queue", "q", "--data", str(data)], stdout=subprocess.PIPE, text=True
    ) as program:
        assert program.stdout is not None
        address = json.loads(program.stdout.readline())["connection_string"]
        with ServiceBusClient.from_connection_string(address, retry_total=0, keep_alive=0) as client:
            yield Service(program, client)
            program.kill()
    forget_sockets()


def bodies(client: ServiceBusClient) -> list[str]:
    """Everything that is in the queue, looked at only."""
    found: list[str] = []
    with client.get_queue_receiver("q") as receiver:
        while page := receiver.peek_messages(100):
            found += [str(message) for message in page]
    return found


def sent_until_killed(service: Service) -> int:
    """Send batches of five, kill the service amid that; how many batches were acknowledged."""
    killer = threading.Timer(0.05, service.program.kill)
    acknowledged = 0
    with service.client.get_queue_sender("q") as sender:
        try:
            while True:
                sender.send_messages([ServiceBusMessage(f"{acknowledged} {part}") for part in range(5)])
                acknowledged += 1
                if acknowledged == 20:
                    killer.start()
        except ServiceBusError:
            return acknowledged


@item(59, "documented")
@pytest.mark.emulator_only("it can be killed")
def test_acknowledged_sends_survive_a_kill_and_batches_stay_whole(impatient_client: None, tmp_path: Path) -> None:
    """Everything acknowledged is there, in order, once; of what was not, whole batches or nothing.

    Source: Microsoft, "Throttling operations on Azure Service Bus": "committed to storage before the service acknowledges the
    success of the request".
    """
    with service(tmp_path) as first:
        acknowledged = sent_until_killed(first)
    with service(tmp_path) as second:
        found = bodies(second.client)
    sent = [f"{number} {part}" for number in range(acknowledged + 1) for part in range(5)]
    assert found in (sent[:-5], sent)


@item(59, "documented")
@pytest.mark.emulator_only("it can be killed")
def test_acknowledged_settlements_survive_a_kill(impatient_client: None, tmp_path: Path) -> None:
    """What was completed stays so, what was dead-lettered or deferred too; what was only locked comes back.

    Source: Microsoft, "Message transfers, locks, and settlement"; "Throttling operations on Azure Service Bus".
    """
    with service(tmp_path) as first, first.client.get_queue_sender("q") as sender:
        sender.send_messages([ServiceBusMessage(body) for body in ("done", "dead", "deferred", "locked", "ready")])
        with first.client.get_queue_receiver("q") as receiver:
            done, dead, deferred, _ = take(receiver, 4)
            receiver.complete_message(done)
            receiver.dead_letter_message(dead, reason="why")
            receiver.defer_message(deferred)
            first.program.kill()
    number = deferred.sequence_number
    assert number is not None
    with service(tmp_path) as second:
        with second.client.get_queue_receiver("q") as receiver:
            assert sorted(str(message) for message in completed(receiver, 2)) == ["locked", "ready"]
            (kept,) = receiver.receive_deferred_messages(number)
            assert str(kept) == "deferred"
        with second.client.get_queue_receiver("q", sub_queue="deadletter") as receiver:
            assert [(str(m), m.dead_letter_reason) for m in completed(receiver)] == [("dead", "why")]
