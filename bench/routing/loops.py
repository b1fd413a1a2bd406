"""The loops that the router is measured by, as processes of their own: `python -m bench.routing.loops NAME CONNECTION_STRING COUNT DUE`.

`ceiling`: iterate, send in batches, complete each batch by one disposition; nothing is looked at. `once`: the same, with messages written
once into their batch as the router does. `naive`: receive one, send one, complete one. One session. Prints JSON: messages a second by the clock,
microseconds of processor time a message.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence

from azure.servicebus import (
    NEXT_AVAILABLE_SESSION,
    ServiceBusClient,
    ServiceBusMessage,
    ServiceBusMessageBatch,
    ServiceBusReceivedMessage,
    ServiceBusReceiver,
    ServiceBusSender,
)

from bench.routing.work import QUEUE, TOPIC
from common.servicebus.settle import complete
from common.servicebus.wire.batches import add
from common.servicebus.wire.messages import from_sdk

GROUP = 200

Add = Callable[[ServiceBusMessageBatch, ServiceBusReceivedMessage], object]


def add_as_the_sdk_does(batch: ServiceBusMessageBatch, received: ServiceBusReceivedMessage) -> None:
    batch.add_message(
        ServiceBusMessage(
            b"".join(received.body),
            message_id=received.message_id,
            session_id=received.session_id,
            subject=received.subject,
            content_type=received.content_type,
            application_properties=received.application_properties,
        )
    )


def add_once(batch: ServiceBusMessageBatch, received: ServiceBusReceivedMessage) -> None:
    add(batch, from_sdk(received)[0])


def grouped(receiver: ServiceBusReceiver, sender: ServiceBusSender, count: int, put: Add) -> None:
    group: list[ServiceBusReceivedMessage] = []
    for taken, received in enumerate(receiver, 1):
        group.append(received)
        if len(group) == GROUP or taken == count:
            flush(receiver, sender, group, put)
            group = []
        if taken == count:
            return


def flush(
    receiver: ServiceBusReceiver, sender: ServiceBusSender, group: Sequence[ServiceBusReceivedMessage], put: Add
) -> None:
    batch = sender.create_message_batch()
    for received in group:
        put(batch, received)
    sender.send_messages(batch)
    complete(receiver, group, timeout=30)


def naive(receiver: ServiceBusReceiver, sender: ServiceBusSender, count: int) -> None:
    for _ in range(count):
        for received in receiver.receive_messages(1):
            sender.send_messages(ServiceBusMessage(b"".join(received.body), message_id=received.message_id))
            receiver.complete_message(received)


def main(name: str, connection_string: str, count: int, due: float) -> None:
    with (
        ServiceBusClient.from_connection_string(connection_string) as client,
        client.get_topic_sender(TOPIC) as sender,
    ):
        time.sleep(max(0.0, due - time.time()))
        # No thread beside the loop, and credit ahead: the most that one receiver can do.
        with client.get_queue_receiver(
            QUEUE, session_id=NEXT_AVAILABLE_SESSION, max_wait_time=30, prefetch_count=GROUP, keep_alive=None
        ) as receiver:
            began, spent = time.perf_counter(), time.process_time()
            if name == "naive":
                naive(receiver, sender, count)
            else:
                grouped(receiver, sender, count, add_once if name == "once" else add_as_the_sdk_does)
            seconds, spent = time.perf_counter() - began, time.process_time() - spent
    print(json.dumps({"rate": count / seconds, "cpu": spent / count * 1e6}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))
