"""How many messages wait in the entities of a bus. Values; reading them takes no message and locks none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from common.errors import DStreamError

USED_QUEUE_MISSING = (
    "it does not exist, although changes may have been sent to it: it may have been deleted, or its name changed; messages that it held are lost "
    "then"
)
"""Offsets show no more: they move past changes that were sent, and also by hand and while a table is idle."""
CREATE_USED_QUEUE = (
    'create it again, or restart the router (the ingester, where no router runs) with provision = "create"; "When a queue was deleted" in '
    "docs/fail.md says how to send lost messages again"
)


@dataclass(frozen=True, slots=True)
class Depth:
    """Of a queue, or of a `subscription` of a topic. `active`: may be received now. `dead`: dead letters. `scheduled`: for
    later. `transfer_dead`: could not be forwarded."""

    entity: str
    subscription: str | None
    active: int
    dead: int
    scheduled: int = 0
    transfer_dead: int = 0


@dataclass(frozen=True, slots=True)
class Unlisted:
    """Of a topic that holds nothing, and whose subscriptions were not listed: they would be one request each. `subscriptions`: how many."""

    subscriptions: int


TopicDepths = Mapping[str, Sequence[Depth] | Unlisted | DStreamError | None]
"""By topic, as it was named: all its subscriptions, why they could not be read, or None if it does not exist. `Unlisted`: only where many topics
are asked about."""


@dataclass(frozen=True, slots=True)
class NoSubscription:
    """A configured `subscription` that its topic has not. `only`: the topic has no other. `remedy`: how to create it."""

    output: str
    topic: str
    subscription: str
    only: bool
    remedy: str

    @property
    def text(self) -> str:
        lost = "what is sent to it is thrown away" if self.only else "its readers never get what is sent meanwhile"
        return f"topic {self.topic} has no subscription {self.subscription}: {lost}"
