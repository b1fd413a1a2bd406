"""`dstream status` of stage 2: what waits in the topics' subscriptions. No message is received."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import closing

from common.bus.depths import Depth, TopicDepths
from common.buses import bus_of
from common.errors import DStreamError
from common.unread import Unread, read_or
from router.settings import RouterSettings


def topic_depths(settings: RouterSettings, unread: list[Unread], stop: threading.Event) -> Sequence[Depth]:
    """Of each topic's subscriptions, in the order of the tables. A topic that does not exist yet holds nothing."""
    with closing(bus_of(settings.output)) as bus:
        nothing: TopicDepths = {}
        found = read_or(unread, "topics", lambda: bus.entities.topic_depths(list(settings.topics), stop=stop), nothing)
    depths = list[Depth]()
    for name, of_topic in found.items():
        if isinstance(of_topic, DStreamError):
            unread.append(Unread(f"topic {name}", of_topic.message, of_topic.hint))
        else:
            depths += of_topic or ()
    return depths
