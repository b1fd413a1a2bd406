"""`dstream status` of stage 2: what waits in the topics' subscriptions. No message is received. Other types of outputs have no subscriptions."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field

from common.bus.depths import Depth, NoSubscription, TopicDepths
from common.bus.ports import EntityManager
from common.errors import DStreamError
from common.unread import Unread, read_or
from router.outputs.registry import bus_behind, on_topics, output_of
from router.settings import RouterSettings


@dataclass(frozen=True, slots=True)
class SeenTopics:
    """`by_output`: of each output that has topics, in the order of outputs and tables. `missing`: configured subscriptions that are not there;
    where nothing provisions, only of topics that have no other."""

    by_output: Mapping[str, TopicDepths] = field(default_factory=dict)
    missing: Sequence[NoSubscription] = ()

    @property
    def depths(self) -> Sequence[Depth]:
        """Of each topic's subscriptions. A topic that does not exist yet holds nothing."""
        topics = (of_topic for found in self.by_output.values() for of_topic in found.values())
        return [depth for of_topic in topics if isinstance(of_topic, Sequence) for depth in of_topic]


def topics_seen(settings: RouterSettings, unread: list[Unread], stop: threading.Event) -> SeenTopics:
    """What could not be read is in `unread`."""
    missing = list[NoSubscription]()
    found = {
        name: _of_output(settings, name, unread, missing, stop)
        for name, output in settings.all_outputs.items()
        if on_topics(output) and name in settings.streams
    }
    return SeenTopics(found, missing)


def _of_output(
    settings: RouterSettings, name: str, unread: list[Unread], missing: list[NoSubscription], stop: threading.Event
) -> TopicDepths:
    output = settings.all_outputs[name]
    places = list(dict.fromkeys(stream.destination for stream in settings.streams[name].values()))
    where = "" if output.is_default else f"output {name}: "
    with closing(output_of(output)) as made:
        bus = bus_behind(made)
        assert bus is not None
        nothing: TopicDepths = {}
        entities = bus.entities
        found = read_or(
            unread,
            f"{where}topics",
            lambda: entities.topic_depths(places, fewest=len(settings.subscriptions), stop=stop),
            nothing,
        )
        for place, of_topic in found.items():
            if isinstance(of_topic, Sequence) and (settings.provision != "none" or not of_topic):
                missing += _missing(name, place, of_topic, settings.subscriptions, entities)
    for place, of_topic in found.items():
        if isinstance(of_topic, DStreamError):
            unread.append(Unread(f"{where}topic {place}", of_topic.message, of_topic.hint))
    return found


def _missing(
    output: str, topic: str, there: Sequence[Depth], configured: Sequence[str], entities: EntityManager
) -> Iterator[NoSubscription]:
    names = {(each.subscription or "").lower() for each in there}
    for name in configured:
        if name.lower() not in names:
            fix = entities.fix_of_subscription(topic, name)
            again = "; ".join(fix.commands) or f"create the subscription {name} of the topic {topic}"
            remedy = f"{again}; then send again what it missed: move the offset back (dstream offsets set), or dstream snapshot"
            yield NoSubscription(output, topic, name, not there, remedy)
