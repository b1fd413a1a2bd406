"""Whether a queue may be received from, found out without receiving: a link is opened that asks for no message, and closed again.

Of a queue with sessions it is a link to a session that nobody has used or will use, so that no session's lock is taken from a router.
"""

from __future__ import annotations

import uuid

from common.servicebus_address import ServiceBusAddress
from common.servicebus_client import OPEN_TIMEOUT, close_quietly, open_client
from common.servicebus_deadline import Guard
from common.servicebus_errors import translated
from common.servicebus_links import tend


def listen(address: ServiceBusAddress, queue: str, *, sessions: bool) -> None:
    """Raises TransientError or DestinationUnavailable, as opening a receiver does."""
    client, guard = open_client(address, try_timeout=OPEN_TIMEOUT), Guard(str(address))
    session = f"dstream-check-{uuid.uuid4()}" if sessions else None
    # The SDK gives a link credit when it is read from, and not before (azure-servicebus 7.15): this one is not.
    receiver = client.get_queue_receiver(queue, session_id=session, keep_alive=None)
    tend(receiver, guard)
    doing = f"opening a receiver for {queue}"
    try:
        with translated(doing, who=address.credential), guard.within(OPEN_TIMEOUT, doing):
            receiver.__enter__()
    finally:
        close_quietly(guard, receiver, client)
