"""Where changes are sent, as one text that is stored with each offset: the namespace, the queue, and the source's name in every topic.

Two ingesters that read one database for two destinations would take changes from each other, so each offset belongs to one destination.
The text has no port: a namespace has only one, and an emulator may have another after a restart. Here the queue is also opened, once, at the start.
"""

from __future__ import annotations

import threading
from contextlib import closing
from functools import partial

from common.bus.ports import QueueNeed
from common.buses import bus_of
from common.errors import TransientError
from common.in_time import in_time
from common.observability.unanswered import told_while_unanswered
from ingester.settings import IngesterSettings
from ingester.stdio.settings import StandardOutput

_REACH = "check that the namespace can be reached, and that it is not throttled"

_OPENING = 300.0
"""Seconds for the queue at a start. Each of its steps has a deadline of its own; this one bounds them all."""


def destination_of(settings: IngesterSettings) -> str:
    """`ns.servicebus.windows.net/ingest-queue (server/database)`, in lower case; of a provider `standard output (server/database)`.

    Opens nothing. Raises ConfigurationError.
    """
    queue, origin = settings.queue, settings.origin
    if isinstance(queue, StandardOutput):
        return f"{queue.where} ({origin.server}/{origin.database})".lower()
    with closing(bus_of(queue)) as bus:
        return f"{bus.hostname}/{queue.name} ({origin.server}/{origin.database})".lower()


def open_queue(settings: IngesterSettings, stop: threading.Event) -> None:
    """Provide the queue before anything is read. The router provides it too, because either may start first.

    Raises PermanentError, TransientError and, once `stop` is set, Stopped: a service that says nothing must not hold up a stop.
    """
    try:
        with told_while_unanswered(f"queue {settings.queue.name} at {settings.queue.where}", hint=_REACH):
            in_time(_OPENING, partial(_open_queue, settings, stop), stop=stop, name="queue")
    except TimeoutError as error:
        raise TransientError(
            f"opening {settings.queue.name}: it took more than {_OPENING:g} s",
            hint=_REACH,
        ) from error


def _open_queue(settings: IngesterSettings, stop: threading.Event) -> None:
    queue = settings.queue
    need = QueueNeed(queue.name, sessions=queue.ordering != "none", duplicate_window=queue.duplicate_window)
    with closing(bus_of(queue)) as bus:
        bus.entities.provision([need], how=queue.provision, stop=stop)
        with closing(bus.sender(queue.name)) as sender:
            sender.open()
