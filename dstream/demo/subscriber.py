"""Subscribes to every topic with the public SDK, as any careful user of DStream does.

Careful: azure-servicebus 7.15 starts a keep-alive thread that also reads frames, every 5 seconds with prefetch 0. A message that this thread
reads can be returned after a later one, so a consumer that needs order turns the thread off (docs/guarantees.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from azure.servicebus import ServiceBusClient, ServiceBusReceiveMode
from azure.servicebus.exceptions import ServiceBusError

from common.names import TableName
from dstream.demo.reading import Ignored, MessageReader, nothing_ignored

_WAIT = 0.5
"""Seconds that a receive waits, and so the longest that a stop takes."""


class Subscriber(MessageReader):
    """One thread for each topic. `topics`: topic by table; each is read through its subscription `subscription`."""

    def __init__(
        self,
        connection_string: str,
        topics: Mapping[TableName, str],
        subscription: str = "sub1",
        *,
        ignored: Ignored = nothing_ignored,
    ) -> None:
        super().__init__(topics, ignored)
        self._connection_string = connection_string
        self._subscription = subscription
        self._threads = [
            self.thread(partial(self._run, table, topic), f"subscriber-{topic}") for table, topic in topics.items()
        ]

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
                    self.keep(table, b"".join(message.body), message.message_id or "", message.subject)
