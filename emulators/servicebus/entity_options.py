"""Entities asked for on the command line: `--queue NAME[:session]` and `--topic NAME=SUB[:session],...`.

Refuses names the service would refuse, and options of an entity other than `session`.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from .description import InvalidEntity, QueueDescription, SubscriptionDescription, TopicDescription
from .provision import Asked
from .targets import check_entity_name, check_subscription_name

QUEUE_FORM: Final = "NAME[:session]"
TOPIC_FORM: Final = "NAME=SUB[:session],..."


def queue(text: str) -> Sequence[Asked]:
    """In argparse's manner of saying no."""
    name, sessions = _named(text, check_entity_name)
    return [Asked(f"--queue {text}", name, QueueDescription(requires_session=sessions))]


def topic(text: str) -> Sequence[Asked]:
    """The topic and its subscriptions, in argparse's manner of saying no."""
    name, _, subscriptions = text.partition("=")
    _checked(name, check_entity_name)
    return [Asked(f"--topic {text}", name, TopicDescription()), *_subscriptions(text, name, subscriptions.split(","))]


def _subscriptions(text: str, topic: str, items: Iterable[str]) -> Iterable[Asked]:
    for item in filter(None, items):
        name, sessions = _named(item, check_subscription_name)
        settings = SubscriptionDescription(requires_session=sessions)
        yield Asked(f"--topic {text}", f"{topic}/Subscriptions/{name}", settings)


def _named(text: str, check: Callable[[str], None]) -> tuple[str, bool]:
    name, separator, option = text.partition(":")
    if separator and option != "session":
        raise argparse.ArgumentTypeError(f"{text!r}: the only option of an entity is 'session'")
    return _checked(name, check), bool(separator)


def _checked(name: str, check: Callable[[str], None]) -> str:
    try:
        check(name)
    except InvalidEntity as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return name
