"""Where changes are sent, as one text that is stored with each offset: the namespace, the queue, and the source's name in every topic.

Two ingesters that read one database for two destinations would take changes from each other, so each offset belongs to one destination.
The text has no port: a namespace has only one, and an emulator may have another after a restart.
"""

from __future__ import annotations

from contextlib import closing

from common.buses import bus_of
from ingester.settings import IngesterSettings
from ingester.stdio.settings import StandardOutput


def destination_of(settings: IngesterSettings) -> str:
    """`ns.servicebus.windows.net/ingest-queue (server/database)`, in lower case; of a provider `standard output (server/database)`.

    Opens nothing. Raises ConfigurationError.
    """
    queue, origin = settings.queue, settings.origin
    if isinstance(queue, StandardOutput):
        return f"{queue.where} ({origin.server}/{origin.database})".lower()
    with closing(bus_of(queue)) as bus:
        return f"{bus.hostname}/{queue.name} ({origin.server}/{origin.database})".lower()
