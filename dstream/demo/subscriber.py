"""Subscribes to every topic with the public SDK, as any careful user of DStream does.

Careful: azure-servicebus 7.15 starts a keep-alive thread that also reads frames, every 5 seconds with prefetch 0. A message that this thread
reads can be returned after a later one, so a consumer that needs order turns the thread off (docs/guarantees.md).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence

from azure.servicebus import ServiceBusClient, ServiceBusReceiveMode
from azure.servicebus.exceptions import ServiceBusError

from common.names import TableName
from dstream.demo.verdict import BESIDE, Received

_WAIT = 0.5
"""Seconds that a receive waits, and so the longest that a stop takes."""


class Subscriber:
    """One thread for each topic. `topics`: topic by table; each is read through its subscription `subscription`.

    `ignored`: bodies that are received and not kept.
    """

    def __init__(
        self,
        connection_string: str,
        topics: Mapping[TableName, str],
        subscription: str = "sub1",
        *,
        ignored: Callable[[bytes], bool] = lambda body: False,
    ) -> None:
        self._connection_string = connection_string
        self._subscription = subscription
        self._ignored = ignored
        self._received: dict[TableName, list[Received]] = {table: [] for table in topics}
        self._changes = dict.fromkeys(topics, 0)
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(table, topic), name=f"subscriber-{topic}", daemon=True)
            for table, topic in topics.items()
        ]

    def start(self) -> None:
        """Begin to receive; wait for topics that do not exist yet."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stop, and return when every receiver is closed."""
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def counts(self) -> dict[TableName, int]:
        """Changes received so far."""
        return dict(self._changes)

    def received(self) -> dict[TableName, Sequence[Received]]:
        """What arrived, in order of arrival."""
        return {table: list(messages) for table, messages in self._received.items()}

    def _run(self, table: TableName, topic: str) -> None:
        while not self._stop.is_set():
            try:
                self._receive(table, topic)
            except ServiceBusError:  # the router has not created the topic yet, or the link was lost
                self._stop.wait(_WAIT)

    def _receive(self, table: TableName, topic: str) -> None:
        with (
            ServiceBusClient.from_connection_string(self._connection_string, retry_total=0) as client,
            client.get_subscription_receiver(
                topic,
                self._subscription,
                receive_mode=ServiceBusReceiveMode.RECEIVE_AND_DELETE,
                prefetch_count=100,
                keep_alive=None,
            ) as receiver,
        ):
            while not self._stop.is_set():
                for message in receiver.receive_messages(max_message_count=100, max_wait_time=_WAIT):
                    body = b"".join(message.body)
                    if not self._ignored(body):
                        self._received[table].append(Received(body, message.message_id or "", time.time()))
                        self._changes[table] += message.subject not in BESIDE
