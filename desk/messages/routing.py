"""Where the routes would send a message: the router's own decision, asked beside it. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from common.message import Message, Property
from desk.messages.places import Places
from desk.messages.trail import Destination
from router.outputs.places import stream_of
from router.routing.table import RouteTable, parts_of_key
from router.settings import RouterSettings


class Routing:
    """Of one configuration. Raises PermanentError where a filter needs a library that is not installed."""

    def __init__(self, settings: RouterSettings, places: Places) -> None:
        origin = settings.origin
        table_of = (lambda topic: None) if origin is None else origin.table_of
        self._settings, self._places = settings, places
        self._table = RouteTable(settings.route, table_of, origin, settings.all_outputs.values())

    def destinations(self, message: Message) -> Sequence[Destination]:
        """Nowhere is an answer. Raises FilterFailed where a route's filter has none: then the router dead-letters it."""
        topic = str(message.application_properties.get(Property.DESTINATION, "")).lower()
        table = self._settings.topics.get(topic)
        found = list[Destination]()
        for target in self._table.targets(message, topic):
            output = self._settings.all_outputs[target.output]
            _, instead = parts_of_key(target.key)
            place = stream_of(output, self._settings.origin, topic, table, instead=instead).destination
            found += self._at(target.output, place)
        return found

    def _at(self, output: str, place: str) -> Sequence[Destination]:
        """Each of the subscriptions that DStream creates there; the place alone where it has none."""
        if self._places.holds(output) is None:
            return [Destination(output, place)]
        named = self._places.within(output, place)
        return [Destination(output, place, each.entity) for each in named] or [Destination(output, place)]
