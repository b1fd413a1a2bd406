"""How a delivery can end, and the tokens under which messages are locked until it does.

Sources: learn.microsoft.com "Message transfers, locks, and settlement", "Dead-letter queues".
"""

from __future__ import annotations

import itertools
import os
from enum import Enum, auto
from typing import Final

from emulators.servicebus.amqp.values import AmqpError

_TOKEN_PREFIX: Final = os.urandom(8)
_token_numbers = itertools.count(1)


class Outcome(Enum):
    """What a receiver wants done with a message it holds."""

    COMPLETE = auto()
    ABANDON = auto()
    RELEASE = auto()
    DEFER = auto()
    DEAD_LETTER = auto()


def lock_lost() -> AmqpError:
    """The answer to a token that locks nothing (any more)."""
    return AmqpError(
        "com.microsoft:message-lock-lost",
        "The lock supplied is invalid. Either the lock expired, or the message has already been removed from the queue.",
    )


def already_dead() -> AmqpError:
    """The answer to dead-lettering what is a dead letter."""
    return AmqpError("amqp:not-allowed", "A message of a dead-letter queue cannot be dead-lettered.")


def new_token() -> bytes:
    """A lock token, used once: 16 octets, a delivery tag on the wire."""
    return _TOKEN_PREFIX + next(_token_numbers).to_bytes(8, "big")
