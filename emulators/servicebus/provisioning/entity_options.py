"""Entities asked for on the command line: `--queue NAME[:session]` and `--topic NAME=SUB[:session],...`.

Refuses names the service would refuse, and options of an entity other than `session`.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Final

from emulators.servicebus.description import (
    Description,
    InvalidEntity,
    QueueDescription,
    SubscriptionDescription,
    TopicDescription,
)
from emulators.servicebus.entities.validation import require_valid

from .provision import Asked

QUEUE_FORM: Final = "NAME[:session]"
TOPIC_FORM: Final = "NAME=SUB[:session],..."


def queue(text: str) -> Sequence[Asked]:
    """In argparse's manner of saying no."""
    name, sessions = _named(text)
    return [_asked(f"--queue {text}", name, QueueDescription(requires_session=sessions))]


def topic(text: str) -> Sequence[Asked]:
    """The topic and its subscriptions, in argparse's manner of saying no."""
    where = f"--topic {text}"
    name, _, subscriptions = text.partition("=")
    asked = [_asked(where, name, TopicDescription())]
    for item in filter(None, subscriptions.split(",")):
        subscription, sessions = _named(item)
        settings = SubscriptionDescription(requires_session=sessions)
        asked.append(_asked(where, f"{name}/Subscriptions/{subscription}", settings))
    return asked


def _named(text: str) -> tuple[str, bool]:
    name, separator, option = text.partition(":")
    if separator and option != "session":
        raise argparse.ArgumentTypeError(f"{text!r}: the only option of an entity is 'session'")
    return name, bool(separator)


def _asked(where: str, path: str, description: Description) -> Asked:
    try:
        require_valid(path, description)
    except InvalidEntity as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return Asked(where, path, description)
