"""The names by which a person calls queues and subscriptions, and where they are. Pure: asks nobody, so it cannot say whether one exists.

Names are `queue`, `topic/NAME/SUBSCRIPTION` and `queue/NAME` (an output of queues); behind `output/LABEL/` those of a further output. Only what the
configuration sends to is known here, so that nobody reads other entities of the namespace with the console's rights. A topic's name may have
slashes, a subscription's none, so the last part is the subscription
(https://learn.microsoft.com/azure/service-bus-messaging/service-bus-quotas).
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from common.bus.browsing import Shelf
from common.bus.settings import BusSettings, OutputSettings
from desk.desk import NotFound
from router.outputs.registry import on_queues, on_topics
from router.settings import RouterSettings, subscription_name

QUEUE: Final = "queue"
"""The name of the ingest queue."""

_NEAREST = 5


@dataclass(frozen=True, slots=True)
class Place:
    """`entity`: its name here. `output`: the output that writes to it (`default`, or a label); None: it is the ingest queue. `bus`: where it is."""

    entity: str
    output: str | None
    shelf: Shelf
    bus: BusSettings

    def looked_at(self, *, dead: bool) -> Shelf:
        """`dead`: its dead letters instead of itself."""
        return replace(self.shelf, dead=dead)


@dataclass(frozen=True, slots=True)
class _Output:
    """`holders`: its topics or queues in lower case, as they are written."""

    settings: OutputSettings
    holders: Mapping[str, str]
    queues: bool
    prefix: str


class Places:
    """Of one configuration; another one needs another. Callable from any thread."""

    def __init__(self, settings: RouterSettings, extra: Iterable[str] = ()) -> None:
        """`settings` with the tables that patterns match (`with_tables`). `extra`: further topics of the default output, such as side topics."""
        self._queue = Place(QUEUE, None, Shelf(settings.queue_name), settings.source)
        self._subscriptions = settings.subscriptions
        self._outputs = list(_outputs(settings, tuple(extra)))

    @property
    def queue(self) -> Place:
        return self._queue

    def known(self) -> Sequence[Place]:
        """All that the configuration names: the ingest queue, and of each topic the subscriptions that are created on it, or the output's queues."""
        found = [self._queue]
        for output in self._outputs:
            for holder in output.holders.values():
                if output.queues:
                    found.append(_place(output, holder, None))
                else:
                    found += [_place(output, holder, each) for each in self._subscriptions]
        return found

    def of(self, entity: str) -> Place:
        """The place of that name, in any case; a subscription that the configuration does not name may exist all the same. Raises NotFound."""
        if entity.lower() == QUEUE:
            return self._queue
        for output in sorted(self._outputs, key=lambda each: len(each.prefix), reverse=True):
            if entity.lower().startswith(output.prefix.lower()):
                return self._within(output, entity, entity[len(output.prefix) :])
        raise self._unknown(entity)

    def within(self, output: str, place: str) -> Sequence[Place]:
        """The subscriptions that DStream creates on a topic of an output, or its queue; none if the output is not on Service Bus."""
        found = next((each for each in self._outputs if each.settings.name == output), None)
        if found is None:
            return ()
        return [_place(found, place, each) for each in ((None,) if found.queues else self._subscriptions)]

    def holds(self, output: str) -> bool | None:
        """Whether an output's places are queues (True) or topics (False); None if they are on no Service Bus."""
        found = next((each for each in self._outputs if each.settings.name == output), None)
        return None if found is None else found.queues

    def _within(self, output: _Output, entity: str, rest: str) -> Place:
        if output.queues:
            if (holder := output.holders.get(rest.lower())) is None:
                raise self._unknown(entity)
            return _place(output, holder, None)
        topic, _, subscription = rest.rpartition("/")
        holder = output.holders.get(topic.lower())
        if holder is None and (alone := output.holders.get(rest.lower())) is not None:
            names = ", ".join(_place(output, alone, each).entity for each in self._subscriptions)
            raise NotFound(
                f"looking for {entity}: a topic holds no messages, its subscriptions do",
                hint=f"the subscriptions that DStream creates are {names}"
                if names
                else "add /SUBSCRIPTION to the name",
            )
        if holder is None:
            raise self._unknown(entity)
        try:
            named = {each.lower(): each for each in self._subscriptions}
            return _place(output, holder, named.get(subscription.lower()) or subscription_name(subscription))
        except ValueError as error:
            raise NotFound(
                f"looking for {entity}: {subscription or 'an empty text'} is no name of a subscription: it {error}"
            ) from error

    def _unknown(self, entity: str) -> NotFound:
        names = {each.entity.lower(): each.entity for each in self.known()}
        near = [names[each] for each in difflib.get_close_matches(entity.lower()[:600], names, n=_NEAREST, cutoff=0.5)]
        more = f", and {len(names) - _NEAREST:,} more" if len(names) > _NEAREST else ""
        return NotFound(
            f"looking for {entity[:600]}: the configuration sends to no entity of this name",
            hint=f"names like it are {', '.join(near)}"
            if near
            else f"its entities are {', '.join(list(names.values())[:_NEAREST])}{more}",
        )


def _outputs(settings: RouterSettings, extra: Sequence[str]) -> Iterable[_Output]:
    """Those on Service Bus."""
    for name, output in settings.all_outputs.items():
        queues = on_queues(output)
        if not (queues or on_topics(output)):
            continue
        streams = settings.streams.get(name, {}).values()
        holders = [stream.destination for stream in streams]
        if output.is_default and not queues:
            holders += extra
        kind = "queue/" if queues else "topic/"
        prefix = kind if output.is_default else f"output/{name}/{kind}"
        yield _Output(output, {each.lower(): each for each in holders}, queues, prefix)


def _place(output: _Output, holder: str, subscription: str | None) -> Place:
    tail = holder if subscription is None else f"{holder}/{subscription}"
    return Place(f"{output.prefix}{tail}", output.settings.name, Shelf(holder, subscription), output.settings)
