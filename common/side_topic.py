"""Which names a side topic may have: a topic that a snapshot or a replay goes to instead of its table's. Pure.

Both stages judge by it: the command before it stores or creates anything, and the ingester before it reads a row, because a stored request
may be the work of somebody who can write one row in the database and nothing else.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from common.names import Origin

TOPIC_NAME: Final = re.compile(r"[a-z0-9](?:[a-z0-9._-]{0,258}[a-z0-9])?", re.ASCII)
"""Letters, digits, periods, hyphens and underscores, at most 260. Service Bus also allows slashes, which Azure's resource manager cannot
address (https://learn.microsoft.com/azure/azure-resource-manager/management/resource-name-rules#microsoftservicebus)."""


@dataclass(frozen=True, slots=True)
class SideTopics:
    """`queue`: the ingest queue. `begin`: see Origin.topics_begin; without any, no name may end as tables' topics do."""

    queue: str
    begin: tuple[str, ...]

    @classmethod
    def of(cls, origin: Origin, queue: str) -> SideTopics:
        return cls(queue, origin.topics_begin)

    def refused(self, topic: str) -> str | None:
        """Why `topic`, in lower case as messages name it, cannot be a side topic; None if it can."""
        if TOPIC_NAME.fullmatch(topic) is None:
            return "must be 1 to 260 of the characters a-z 0-9 . _ -, and begin and end with a letter or digit"
        if topic == self.queue.lower():
            return "this is the ingest queue"
        if topic.startswith(self.begin or "") and topic.endswith(".events"):
            return "names like this are those of tables' topics, whose subscribers get live changes"
        return None
