"""Finds out without receiving whether a queue allows receiving: opens a link that asks for no message, and closes it again.

For a queue with sessions the link is to a session that nobody uses, so that no session's lock is taken from a router.
"""

from __future__ import annotations

import uuid

from common.azure_amqp.address import ServiceBusAddress
from common.azure_amqp.deadline import Guard
from common.azure_amqp.links import tend
from common.servicebus.connection.client import OPEN_TIMEOUT, close_quietly, open_client
from common.servicebus.errors import translated


def listen(address: ServiceBusAddress, queue: str, *, sessions: bool) -> None:
    """Raises TransientError or EntityUnavailable, as opening a receiver does."""
    client, guard = open_client(address, try_timeout=OPEN_TIMEOUT), Guard(address)
    session = f"dstream-check-{uuid.uuid4()}" if sessions else None
    # The SDK gives a link credit only when it is read from (azure-servicebus 7.15), and this one never is.
    receiver = client.get_queue_receiver(queue, session_id=session, keep_alive=None)
    tend(receiver, guard)
    doing = f"opening a receiver for {queue}"
    try:
        with translated(doing, who=address.credential), guard.within(OPEN_TIMEOUT, doing):
            receiver.__enter__()
    finally:
        close_quietly(guard, receiver, client)
