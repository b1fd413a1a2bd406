"""Opens receivers of a queue: for one of its sessions after the other, or for the queue itself. Each is a connection of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from azure.servicebus import NEXT_AVAILABLE_SESSION, ServiceBusClient, ServiceBusReceiver
from azure.servicebus.exceptions import OperationTimeoutError, SessionCannotBeLockedError

from common.azure_amqp.address import ServiceBusAddress
from common.azure_amqp.deadline import Guard
from common.azure_amqp.links import Waiting, tend
from common.bus.fetch_ahead import FetchAhead
from common.bus.ports import Receiver
from common.errors import TransientError
from common.servicebus.connection.client import OPEN_TIMEOUT, close_quietly, open_client
from common.servicebus.errors import all_translated
from common.servicebus.receiver import BusReceiver
from common.servicebus.wire.arrivals import read_arrivals

HEARTBEAT = 60
"""Whole seconds within which the service must send something, at least an empty frame: the idle-time-out of AMQP 1.0, 2.4.5."""


class QueueReceivers:
    """`common.bus.ports.Receivers` of one queue: with `sessions`, one session after the other; without, the queue itself."""

    receiver_type: ClassVar[type[BusReceiver]] = BusReceiver

    def __init__(
        self, address: ServiceBusAddress, queue: str, *, sessions: bool, ahead: FetchAhead, proven: bool = False
    ) -> None:
        """`ahead`: how many messages may be fetched before they are asked for.

        `proven`: another process has received from the queue before, so a refusal is transient.
        """
        self._proven = proven
        self._address = address
        self._queue = queue
        self._sessions = sessions
        self._ahead = ahead

    def made_by(self, client: ServiceBusClient, **options: Any) -> ServiceBusReceiver:
        """The SDK's receiver, not opened yet."""
        return client.get_queue_receiver(self._queue, **options)

    def open(self, *, max_wait: float, give_up: Callable[[], bool] | None = None) -> Receiver | None:
        waits = Waiting(give_up)
        seconds = max_wait + OPEN_TIMEOUT if self._sessions else OPEN_TIMEOUT
        client, guard = open_client(self._address, try_timeout=seconds), Guard(self._address)
        receiver = self.made_by(
            client,
            session_id=NEXT_AVAILABLE_SESSION if self._sessions else None,
            max_wait_time=max_wait if self._sessions else None,
            prefetch_count=self._ahead.first(),
            # One reader only. The SDK's keep-alive thread also reads frames, without a lock over reading and queueing, so its frame
            # can be queued behind a later one. This receiver is always being read and needs no such thread.
            keep_alive=None,
        )
        tend(receiver, guard, heartbeat=HEARTBEAT, attached=read_arrivals, waits=waits)
        doing = f"opening a receiver for {self._queue}"
        try:
            with (
                all_translated(doing, proven=self._proven, who=self._address.credential),
                guard.within(seconds, doing),
            ):
                receiver.__enter__()
            self._proven = True
            _look_for_silence_here(receiver)
            return self.receiver_type(client, receiver, self._queue, guard, self._ahead)
        except TransientError as error:
            close_quietly(guard, receiver, client)
            if waits.given_up:
                return None
            if (
                self._sessions
                and not guard.over
                and isinstance(error.__cause__, (OperationTimeoutError, SessionCannotBeLockedError))
            ):
                return None
            raise
        except BaseException:
            close_quietly(guard, receiver, client)
            raise


def _look_for_silence_here(receiver: Any) -> None:
    """The SDK would check before it reads what has arrived, and take a link that was not read for a while for a silent one."""
    connection: Any = getattr(getattr(receiver, "_handler", None), "_connection", None)
    if hasattr(connection, "_idle_timeout"):
        connection._idle_timeout = None
