"""What a message costs the broker and what it costs Azure's own client: sent, delivered, completed.

The client is this process and the broker another; both are charged with the processor time that the system counted for them
between the first send and the last answer. A message is 500 octets of JSON with message-id, subject, content type and three
properties. It is sent in batches of 200 and taken by the iterator with a prefetch of 200; a hundred at a time are completed
by one disposition. `singly` sends and completes one by one, as the public methods do.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any, Final

from azure.servicebus import ServiceBusClient, ServiceBusMessage, ServiceBusReceiver, ServiceBusSender

from common.servicebus.settle import complete

from .broker import Broker

BATCH: Final = 200
GROUP: Final = 100
SESSIONS: Final = 64
SUBSCRIPTIONS: Final = 4
_PATIENCE: Final = 30
_BODY: Final = json.dumps({"id": 1, "text": "x" * 477}).encode()

_SQL_RULE: Final = {
    "Name": "sql",
    "Properties": {
        "FilterType": "Sql",
        "SqlFilter": {"SqlExpression": "table = 'Orders' AND sys.Label LIKE 'o%' AND attempt > 0"},
    },
}


def entities() -> dict[str, Any]:
    """A configuration with everything the cases use."""

    def topic(name: str, subscriptions: int, *rules: object) -> dict[str, Any]:
        made = [{"Name": f"s{n}", **({"Rules": rules} if rules else {})} for n in range(subscriptions)]
        return {"Name": name, "Subscriptions": made}

    queues = [{"Name": "queue"}, {"Name": "sessions", "Properties": {"RequiresSession": True, "LockDuration": "PT5M"}}]
    topics = [topic("one", 1), topic("four", SUBSCRIPTIONS), topic("sql", 1, _SQL_RULE)]
    return {"UserConfig": {"Namespaces": [{"Name": "sbemulatorns", "Queues": queues, "Topics": topics}]}}


@dataclass(frozen=True, slots=True)
class Cost:
    """Microseconds of processor time a message, and messages a second by the clock."""

    broker: float
    client: float
    rate: float

    @property
    def ratio(self) -> float:
        """The broker's share of the client's."""
        return self.broker / self.client


Run = Callable[[int], None]
Case = Callable[[ServiceBusClient], AbstractContextManager[Run]]


def message(number: int, session: str | None = None) -> ServiceBusMessage:
    """615 octets on the wire."""
    return ServiceBusMessage(
        _BODY,
        message_id=f"{number:06}",
        subject="orders",
        content_type="application/json",
        session_id=session,
        application_properties={"table": "Orders", "operation": "insert", "attempt": 1},
    )


def send(sender: ServiceBusSender, count: int, session: Callable[[int], str | None] = lambda number: None) -> None:
    """In batches."""
    for first in range(0, count, BATCH):
        batch = sender.create_message_batch()
        for number in range(first, min(first + BATCH, count)):
            batch.add_message(message(number, session(number)))
        sender.send_messages(batch)


def drain(receiver: ServiceBusReceiver, count: int) -> None:
    """Take and complete so many, in groups."""
    group, taken = [], 0
    for received in receiver:
        group.append(received)
        taken += 1
        if len(group) == GROUP or taken == count:
            if complete(receiver, group, timeout=_PATIENCE):
                raise SystemExit("a message could not be completed")
            group = []
        if taken == count:
            return
    raise SystemExit(f"{taken} messages of {count} arrived")


@contextmanager
def queue(client: ServiceBusClient) -> Iterator[Run]:
    """Through a queue."""
    with (
        client.get_queue_sender("queue") as sender,
        client.get_queue_receiver("queue", prefetch_count=BATCH, max_wait_time=_PATIENCE) as receiver,
    ):

        def run(count: int) -> None:
            send(sender, count)
            drain(receiver, count)

        yield run


@contextmanager
def singly(client: ServiceBusClient) -> Iterator[Run]:
    """Through a queue, one at a time."""
    with (
        client.get_queue_sender("queue") as sender,
        client.get_queue_receiver("queue", prefetch_count=BATCH, max_wait_time=_PATIENCE) as receiver,
    ):

        def run(count: int) -> None:
            for number in range(count):
                sender.send_messages(message(number))
            for received in islice(receiver, count):
                receiver.complete_message(received)

        yield run


def topic(name: str, subscriptions: int) -> Case:
    """Through a topic, to each of its subscriptions."""

    @contextmanager
    def case(client: ServiceBusClient) -> Iterator[Run]:
        with client.get_topic_sender(name) as sender, ExitStack() as stack:
            receivers = [
                stack.enter_context(
                    client.get_subscription_receiver(name, f"s{n}", prefetch_count=BATCH, max_wait_time=_PATIENCE)
                )
                for n in range(subscriptions)
            ]

            def run(count: int) -> None:
                send(sender, count)
                for receiver in receivers:
                    drain(receiver, count)

            yield run

    return case


@contextmanager
def sessions(client: ServiceBusClient) -> Iterator[Run]:
    """Through a queue with sessions, each message of another one than the last; every session has its receiver."""
    with client.get_queue_sender("sessions") as sender, ExitStack() as stack:
        receivers = [
            stack.enter_context(
                client.get_queue_receiver("sessions", session_id=str(n), prefetch_count=BATCH, max_wait_time=_PATIENCE)
            )
            for n in range(SESSIONS)
        ]

        def run(count: int) -> None:
            send(sender, count, lambda number: str(number % SESSIONS))
            for number, receiver in enumerate(receivers):
                drain(receiver, len(range(number, count, SESSIONS)))

        yield run


CASES: Final[dict[str, tuple[Case, float]]] = {
    "queue": (queue, 1),
    "queue, singly": (singly, 0.1),
    "topic, 1 subscription": (topic("one", 1), 1),
    f"topic, {SUBSCRIPTIONS} subscriptions": (topic("four", SUBSCRIPTIONS), 0.5),
    "topic, SQL filter": (topic("sql", 1), 1),
    f"queue, {SESSIONS} sessions": (sessions, 1),
}
"""By name: what is done, and the share of the messages that it is done with."""


@contextmanager
def running(data: Path | None, folder: Path) -> Iterator[Broker]:
    """A broker with the entities, in memory or in a directory."""
    configuration = folder / "Config.json"
    configuration.write_text(json.dumps(entities()))
    kept = [] if data is None else ["--data", str(data)]
    with Broker("--config", str(configuration), *kept) as broker:
        yield broker


def measure(data: Path | None, folder: Path, messages: int, rounds: int) -> Iterator[tuple[str, Cost]]:
    """Case by case; medians of the rounds. The links are open before anything is counted."""
    with (
        running(data, folder) as broker,
        ServiceBusClient.from_connection_string(broker.connection_string) as client,
    ):
        for name, (case, share) in CASES.items():
            with case(client) as run:
                run(BATCH)
                each = [_cost(broker, run, int(messages * share)) for _ in range(rounds)]
            costs = (median(getattr(cost, field) for cost in each) for field in ("broker", "client", "rate"))
            yield name, Cost(*costs)


def _cost(broker: Broker, run: Run, count: int) -> Cost:
    before, own, started = broker.processor(), time.process_time(), time.perf_counter()
    run(count)
    took = time.perf_counter() - started
    own = time.process_time() - own
    return Cost((broker.processor() - before) / count * 1e6, own / count * 1e6, count / took)
