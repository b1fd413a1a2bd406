"""How many messages wait in a queue and in subscriptions, by the management API, which needs the Manage right.

Subscriptions are listed topic by topic; the API has no other way. So of many topics only those that hold something, or lack
a subscription, are asked, at most MOST_ASKED of them, and everything ends at one deadline.
https://learn.microsoft.com/azure/service-bus-messaging/message-counters
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from azure.core.exceptions import ResourceNotFoundError

from common.azure_amqp.address import ServiceBusAddress
from common.bus.depths import Depth, TopicDepths, Unlisted
from common.errors import DStreamError, Stopped, TransientError
from common.in_time import in_time
from common.servicebus.management import AT_ONCE, administration, managing

SECONDS = 30.0
"""For all that one conversation reads."""
MOST_ASKED = 200
"""Topics whose subscriptions are listed, the fullest first: about two seconds, and a fifth of a namespace's credits on Standard."""

_T = TypeVar("_T")


class Depths:
    """One conversation, which is over after `seconds`. Once `stop` is set every method raises Stopped."""

    def __init__(
        self,
        address: ServiceBusAddress,
        management_endpoint: str | None,
        *,
        stop: threading.Event | None = None,
        seconds: float = SECONDS,
        most_asked: int = MOST_ASKED,
    ) -> None:
        self._client, self._where = administration(address, management_endpoint)
        self._address = address
        self._stop = stop
        self._most_asked = most_asked
        self._seconds = seconds
        self._until = time.monotonic() + seconds

    def close(self) -> None:
        self._client.close()

    def queue(self, name: str) -> Depth | None:
        found = self._ask(f"queue {name}", lambda: self._client.get_queue_runtime_properties(name))
        return None if found is None else _depth(name, None, found)

    def topics(self, names: Sequence[str], *, fewest: int = 0) -> TopicDepths:
        """Raises the error of the listing, where there is one. Topics with fewer than `fewest` subscriptions are asked, too, and first."""
        found: dict[str, Sequence[Depth] | Unlisted | DStreamError | None] = {}
        asked = list(names)
        if len(names) > AT_ONCE:
            sizes = self._sizes()
            there = {name: sizes[name.lower()] for name in names if name.lower() in sizes}
            found |= {name: Unlisted(there[name][1]) if name in there else None for name in names}
            chosen = [name for name, (size, subscriptions) in there.items() if size or subscriptions < fewest]
            chosen.sort(key=lambda name: (there[name][1] >= fewest, -there[name][0]))
            asked, left = chosen[: self._most_asked], chosen[self._most_asked :]
            found |= {name: self._left_out(name, there[name][0]) for name in left}
        with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="depths") as pool:
            found |= zip(asked, pool.map(self._subscriptions, asked), strict=True)
        return found

    def _left_out(self, name: str, size: int) -> DStreamError:
        return TransientError(
            f"reading the subscriptions of {name}: not asked, because {self._most_asked} topics hold more than it ({size:,} bytes)"
        )

    def _subscriptions(self, topic: str) -> Sequence[Depth] | DStreamError | None:
        try:
            listed = self._ask(
                f"subscriptions of {topic}", lambda: list(self._client.list_subscriptions_runtime_properties(topic))
            )
        except Stopped:
            raise
        except DStreamError as error:
            return error
        return None if listed is None else [_depth(topic, each.name, each) for each in listed]

    def _sizes(self) -> Mapping[str, tuple[int, int]]:
        """Bytes in each topic, and how many subscriptions it has, by its name in lower case."""
        listed = self._ask("list of topics", lambda: list(self._client.list_topics_runtime_properties()))
        return {each.name.lower(): (each.size_in_bytes or 0, each.subscription_count or 0) for each in listed or ()}

    def _ask(self, what: str, call: Callable[[], _T]) -> _T | None:
        """None where it does not exist. Raises PermanentError, TransientError and Stopped."""

        def found() -> _T | None:
            try:
                return call()
            except (ResourceNotFoundError, AttributeError):
                # AttributeError: the SDK reads a topic's entry as a queue's, or the other way round, and finds no description.
                return None

        left = self._until - time.monotonic()
        if left <= 0:
            raise TransientError(f"reading the {what} at {self._where}: the {self._seconds:g} s for all of it are over")
        with managing(f"reading the {what} at {self._where}", self._address):
            return in_time(left, found, stop=self._stop)


def _depth(entity: str, subscription: str | None, found: Any) -> Depth:
    return Depth(
        entity,
        subscription,
        active=found.active_message_count or 0,
        dead=found.dead_letter_message_count or 0,
        scheduled=getattr(found, "scheduled_message_count", 0) or 0,
        transfer_dead=found.transfer_dead_letter_message_count or 0,
    )
