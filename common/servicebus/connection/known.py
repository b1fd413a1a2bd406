"""Which entities this process has seen at each namespace: one that it creates although it was there has lost what it held.

It lasts as long as the process, so that an edited configuration, which has connections of its own, knows it as well. Decides nothing, and asks no
service.
"""

from __future__ import annotations

import threading
from collections.abc import Collection
from typing import Final


class Known:
    """Callable from any thread. `host`: of the namespace, with its port. Names count in lower case, as the service compares them."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._seen: dict[tuple[str, str], dict[str, str]] = {}
        """The subscriptions of each, as they are spelled."""

    def there(self, host: str, name: str, subscriptions: Collection[str] = ()) -> None:
        """It exists, with at least these subscriptions."""
        with self._guard:
            held = self._seen.setdefault((host, name.lower()), {})
            held |= {each.lower(): each for each in subscriptions}

    def created(self, host: str, name: str) -> Collection[str] | None:
        """It did not exist, and does now. Returns the subscriptions that it is known to have had; None if it was never seen before."""
        with self._guard:
            held = self._seen.pop((host, name.lower()), None)
            self._seen[host, name.lower()] = {}
        return None if held is None else sorted(held.values())

    def subscribed(self, host: str, name: str, subscription: str) -> bool:
        """The subscription did not exist, and does now: whether it is known to have existed."""
        with self._guard:
            held = self._seen.setdefault((host, name.lower()), {})
            before = subscription.lower() in held
            held[subscription.lower()] = subscription
        return before


KNOWN: Final = Known()
"""Of this process."""
