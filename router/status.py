"""`dstream status` of stage 2: what waits in the topics' subscriptions. No message is received. Other types of outputs have no subscriptions."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from contextlib import closing

from common.bus.depths import Depth, TopicDepths
from common.errors import DStreamError
from common.unread import Unread, read_or
from router.outputs.registry import bus_behind, on_topics, output_of
from router.settings import RouterSettings


def topic_depths(settings: RouterSettings, unread: list[Unread], stop: threading.Event) -> Sequence[Depth]:
    """Of each topic's subscriptions, in the order of outputs and tables. A topic that does not exist yet holds nothing."""
    by_output = depths_by_output(settings, unread, stop)
    return [
        depth
        for found in by_output.values()
        for of_topic in found.values()
        if not isinstance(of_topic, DStreamError)
        for depth in of_topic or ()
    ]


def depths_by_output(
    settings: RouterSettings, unread: list[Unread], stop: threading.Event
) -> Mapping[str, TopicDepths]:
    """By the name of each output that has topics, in the order of outputs and tables. What could not be read is in `unread`, too."""
    return {
        name: _of_output(settings, name, unread, stop)
        for name, output in settings.all_outputs.items()
        if on_topics(output) and name in settings.streams
    }


def _of_output(settings: RouterSettings, name: str, unread: list[Unread], stop: threading.Event) -> TopicDepths:
    output = settings.all_outputs[name]
    places = list(dict.fromkeys(stream.destination for stream in settings.streams[name].values()))
    where = "" if output.is_default else f"output {name}: "
    with closing(output_of(output)) as made:
        bus = bus_behind(made)
        assert bus is not None
        nothing: TopicDepths = {}
        entities = bus.entities
        found = read_or(unread, f"{where}topics", lambda: entities.topic_depths(places, stop=stop), nothing)
    for place, of_topic in found.items():
        if isinstance(of_topic, DStreamError):
            unread.append(Unread(f"{where}topic {place}", of_topic.message, of_topic.hint))
    return found
