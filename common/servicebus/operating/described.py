"""What a queue or topic is like, for someone who is about to send to it again. Needs the Manage right; changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import timedelta
from typing import Any

from azure.core.exceptions import ResourceNotFoundError

from common.azure_amqp.address import ServiceBusAddress
from common.errors import EntityMissing
from common.servicebus.management import administration, asked


def duplicate_window(address: ServiceBusAddress, endpoint: str | None, entity: str) -> timedelta | None:
    """How long it remembers message ids; None: it does not."""
    found = _one(address, endpoint, entity)
    return found.duplicate_detection_history_time_window if found.requires_duplicate_detection else None


def subscriptions(address: ServiceBusAddress, endpoint: str | None, topic: str) -> Sequence[str]:
    client, where = administration(address, endpoint)
    with closing(client):
        return asked(
            f"reading the subscriptions of {topic} at {where}",
            address,
            lambda: [each.name for each in client.list_subscriptions(topic)],
        )


def _one(address: ServiceBusAddress, endpoint: str | None, entity: str) -> Any:
    client, where = administration(address, endpoint)
    doing = f"reading the settings of {entity} at {where}"
    with closing(client):
        for get in (client.get_queue, client.get_topic):
            found = asked(doing, address, lambda get=get: _found(get, entity))  # type: ignore[misc]
            if found is not None:
                return found
    raise EntityMissing(f"{doing}: it does not exist", hint="correct its name")


def _found(get: Callable[[str], Any], entity: str) -> Any:
    try:
        return get(entity)
    except (ResourceNotFoundError, AttributeError):
        # AttributeError: the SDK reads a topic's entry as a queue's, or the other way round, and finds no description.
        return None
