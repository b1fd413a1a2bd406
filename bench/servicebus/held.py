"""What clients cost that do nothing but hold a connection, a link, a session; and whether the others notice.

The holders are frames on sockets (`wire`), each with a connection of its own; whoever sends meanwhile is Azure's own client.
"""

from __future__ import annotations

import time
from contextlib import ExitStack, closing
from statistics import median
from typing import Final

from azure.servicebus import ServiceBusClient, ServiceBusMessage

from emulators.servicebus.amqp import performatives as p
from emulators.servicebus.amqp.encode import encode
from emulators.servicebus.amqp.values import Described, ULong

from .broker import Broker
from .wire import WireClient, message

_IDLE: Final = 10
_SENDS: Final = 200
_KILOBYTE: Final = 1024
Figures = dict[str, float]


def connections(count: int) -> Figures:
    """Each with a receiver that has credit."""
    with Broker("--queue", "held", "--queue", "sent") as broker, ExitStack() as stack:
        figures: Figures = {"connections": count, "latency before, ms": latency(broker)}
        memory, started = broker.memory(), time.perf_counter()
        clients = [stack.enter_context(closing(WireClient(broker.port))) for _ in range(count)]
        for client in clients:
            client.attach("held", 0, receives=True)
            client.credit(0, 10)
        for client in clients:
            client.until(p.ATTACH)
        figures["opened in, s"] = time.perf_counter() - started
        figures |= _meanwhile(broker, memory, count)
        started = time.perf_counter()
        broker.stop()
        figures["stopped in, s"] = time.perf_counter() - started
    return figures


def sessions(count: int) -> Figures:
    """Each held by its receiver; all renewed, one request after the other, then each gets a message."""
    with Broker("--queue", "held:session", "--queue", "sent") as broker, ExitStack() as stack:
        figures: Figures = {"sessions": count}
        memory, started = broker.memory(), time.perf_counter()
        clients = [stack.enter_context(closing(WireClient(broker.port))) for _ in range(count)]
        for number, client in enumerate(clients):
            client.attach("held", 0, receives=True, session=str(number))
            client.credit(0, 10)
        for client in clients:
            client.until(p.ATTACH)
        figures["held after, s"] = time.perf_counter() - started
        figures |= _meanwhile(broker, memory, count)
        manager = stack.enter_context(closing(WireClient(broker.port)))
        manager.attach("held/$management", 0, receives=False)
        manager.attach("held/$management", 1, receives=True)
        manager.credit(1, count)
        spent, started = broker.processor(), time.perf_counter()
        for number in range(count):
            manager.send(0, _renewal(str(number)))
            _, _, answer = manager.until(p.TRANSFER)
            if b"expiration" not in answer:
                raise SystemExit(f"session {number} was lost: {answer!r}")
        figures["all renewed in, s"] = time.perf_counter() - started
        figures["broker us a renewal"] = (broker.processor() - spent) / count * 1e6
        sender = stack.enter_context(closing(WireClient(broker.port)))
        sender.attach("held", 0, receives=False)
        started = time.perf_counter()
        for number in range(count):
            sender.send(0, message(b"x" * 500, session=str(number)))
        for client in clients:
            client.until(p.TRANSFER)
        figures["a message to each in, s"] = time.perf_counter() - started
    return figures


def _renewal(session: str) -> bytes:
    sections = (
        (0x73, ["request", None, None, None, "1"]),
        (0x74, {"operation": "com.microsoft:renew-session-lock"}),
        (0x77, {"session-id": session}),
    )
    return b"".join(encode(Described(ULong(code), value)) for code, value in sections)


def _meanwhile(broker: Broker, memory: int, count: int) -> Figures:
    figures = {"kB each": (broker.memory() - memory) / count / _KILOBYTE}
    spent = broker.processor()
    time.sleep(_IDLE)
    figures["processor while idle, %"] = (broker.processor() - spent) / _IDLE * 100
    figures["latency meanwhile, ms"] = latency(broker)
    return figures


def latency(broker: Broker) -> float:
    """Milliseconds that one message takes to be sent and answered; the median."""
    taken = []
    with (
        ServiceBusClient.from_connection_string(broker.connection_string) as client,
        client.get_queue_sender("sent") as sender,
    ):
        for _ in range(_SENDS):
            started = time.perf_counter()
            sender.send_messages(ServiceBusMessage("x"))
            taken.append(time.perf_counter() - started)
    return median(taken) * 1000
