"""Side topics: where a snapshot or a replay goes instead of its table's topic. Created or checked here, never for a message.

A router sends to a topic that no table has only if the topic bears the mark of its ingest queue. The mark is written when the topic is created,
which needs the right to manage the namespace: a sender to the queue can name any topic and can mark none. A topic that exists is never marked.
"""

from __future__ import annotations

import threading
from contextlib import closing

from common.bus.ports import TopicNeed
from common.errors import ConfigurationError, PermanentError
from common.side_topic import SideTopics
from router.outputs.places import stream_of
from router.outputs.port import Output
from router.outputs.registry import bus_behind, output_of
from router.settings import RouterSettings, subscription_name


def mark_of(settings: RouterSettings) -> str:
    """The mark of the topics that this configuration's routers send to although no table has them."""
    return f"DStream side topic of queue {settings.queue_name.lower()}"


def named(settings: RouterSettings, topic: str, subscription: str | None = None) -> str:
    """`topic` as messages name it, in lower case. Raises ConfigurationError if it cannot be a side topic. Opens nothing."""
    name, problems = topic.lower(), list[str]()
    if (table := {known.lower(): each for known, each in settings.topics.items()}.get(name)) is not None:
        problems.append(f"topic {topic}: this is the topic of {table.key}: its subscribers get the live changes there")
    elif (why := SideTopics(settings.queue_name, settings.topics_begin).refused(name)) is not None:
        problems.append(f"topic {topic}: {why}")
    if subscription is not None:
        try:
            subscription_name(subscription)
        except ValueError as error:
            problems.append(f"subscription {subscription}: {error}")
        if settings.provision == "none":
            problems.append(
                f"subscription {subscription}: it can be neither created nor looked for: router.provision is none"
            )
    if problems:
        raise ConfigurationError(problems)
    return name


def provide(
    settings: RouterSettings,
    topic: str,
    subscription: str | None = None,
    *,
    routed: bool = True,
    stop: threading.Event | None = None,
) -> str:
    """Create or check a side topic and its subscription, as `router.provision` says, and return the topic's name as messages have it.

    `subscription`: None: those of `router.subscriptions`. `routed`: messages reach it by the ingest queue, so that the router must be allowed
    to send there. Raises ConfigurationError (see `named`), PermanentError (a right is missing, the topic does not exist with "verify", the
    router would not send to it), TransientError or, once `stop` is set, Stopped.
    """
    name = named(settings, topic, subscription)
    subscriptions = settings.subscriptions if subscription is None else (subscription,)
    need = TopicNeed(name, subscriptions, settings.duplicate_window, mark_of(settings))
    with closing(output_of(settings.output, settings.around)) as output:
        if (bus := bus_behind(output)) is None:
            _provide_elsewhere(settings, output, name, subscription, routed=routed, stop=stop)
            return name
        bus.entities.provision([need], how=settings.provision, stop=stop)
        if routed and not _is_allowed(settings, name):
            if settings.provision == "none":
                raise ConfigurationError(
                    [
                        f"topic {name}: no router sends to it: router.provision is none, so that it cannot see the mark of a side topic"
                    ],
                    hint=_allow(name),
                )
            if name not in bus.entities.marked(mark_of(settings), stop=stop):
                raise PermanentError(
                    f"checking topic {name}: no router sends to it: it was not created by DStream as a side topic of queue {settings.queue_name}",
                    hint=f"choose a name that does not exist yet, or {_allow(name)}",
                )
    return name


def _provide_elsewhere(
    settings: RouterSettings,
    output: Output,
    name: str,
    subscription: str | None,
    *,
    routed: bool,
    stop: threading.Event | None,
) -> None:
    """At an output that is no Service Bus namespace: it has neither subscriptions nor marks."""
    where = f"the default output is of type {settings.output.type}"
    if subscription is not None:
        raise ConfigurationError([f"subscription {subscription}: {where}, which has no subscriptions"])
    if routed and not _is_allowed(settings, name):
        raise ConfigurationError(
            [f"topic {name}: no router sends to it: {where}, which has no side topics"], hint=_allow(name)
        )
    output.provision([stream_of(settings.output, settings.origin, name, None)], how=settings.provision, stop=stop)


def _is_allowed(settings: RouterSettings, name: str) -> bool:
    """By the configuration, whatever the topic bears."""
    return settings.unknown_destination == "create" and name.startswith(settings.create_under)


def _allow(name: str) -> str:
    return f'set router.unknown_destination = "create" with router.create_under = ["{name}"] and restart the router'
