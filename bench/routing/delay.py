"""How long a message takes through the router while it is not busy: from the call that sends it to a subscriber that has it."""

from __future__ import annotations

import threading
import time
from statistics import quantiles

from azure.servicebus import ServiceBusClient

from bench.routing.work import QUEUE, SUBSCRIPTION, TOPIC, change
from common.servicebus.wire.messages import to_sdk


def measure(connection_string: str, count: int, rate: float, sessions: int) -> tuple[float, float]:
    """(median, 99th percentile) in milliseconds of `count` messages, sent one by one at `rate` a second."""
    sent: dict[str | None, float] = {}
    taken: dict[str | None, float] = {}
    with (
        ServiceBusClient.from_connection_string(connection_string) as client,
        client.get_subscription_receiver(
            TOPIC, SUBSCRIPTION, receive_mode="receiveanddelete", prefetch_count=200, max_wait_time=20, keep_alive=None
        ) as receiver,
    ):

        def listen() -> None:
            for received in receiver:
                taken[received.message_id] = time.perf_counter()
                if len(taken) == count:
                    return

        listener = threading.Thread(target=listen)
        listener.start()
        _send(connection_string, count, rate, sessions, sent)
        listener.join(60)
    if len(taken) < count:
        raise SystemExit(f"{len(taken)} messages of {count} arrived")
    cuts = quantiles([(taken[name] - began) * 1000 for name, began in sent.items()], n=100)
    return cuts[49], cuts[98]


def _send(connection_string: str, count: int, rate: float, sessions: int, sent: dict[str | None, float]) -> None:
    with (
        ServiceBusClient.from_connection_string(connection_string) as client,
        client.get_queue_sender(QUEUE) as sender,
    ):
        began = time.perf_counter()
        for number in range(count):
            time.sleep(max(0.0, began + number / rate - time.perf_counter()))
            made = to_sdk(change(number, str(number % sessions)))
            sent[made.message_id] = time.perf_counter()
            sender.send_messages(made)
