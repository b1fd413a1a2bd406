"""How many messages wait in the entities of a bus. Values; reading them takes no message and locks none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from common.errors import DStreamError


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


TopicDepths = Mapping[str, Sequence[Depth] | DStreamError | None]
"""By topic, as it was named: its subscriptions, why they could not be read, or None if it does not exist.

Where many topics are asked about, one that holds nothing has no subscriptions here: they would be one request each.
"""
