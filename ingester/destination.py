"""Where changes are sent, as one text that is stored beside each offset: namespace, queue, and the source's name in every topic.

Two ingesters that read one database for two destinations would take changes away from each other, so an offset says whose it is. Ports
are left out: a namespace has one, and an emulator that is started again may have another.
"""

from __future__ import annotations

from contextlib import closing

from common.buses import bus_of
from ingester.settings import IngesterSettings


def destination_of(settings: IngesterSettings) -> str:
    """`ns.servicebus.windows.net/ingest-queue (server/database)`, in lower case. Opens nothing. Raises ConfigurationError."""
    queue, origin = settings.queue, settings.origin
    with closing(bus_of(queue)) as bus:
        return f"{bus.hostname}/{queue.name} ({origin.server}/{origin.database})".lower()
