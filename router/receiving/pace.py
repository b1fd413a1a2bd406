"""How long a slot waits and stays: one value, which tests shorten."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pace:
    """How long a slot stays with its session, in seconds."""

    batch: int = 200
    """The most messages planned, sent and settled together."""
    accept_wait: float = 3.0
    """Waiting for a session with messages. Each wait without one costs a connection, so an idle slot waits longer and longer."""
    longest_wait: float = 30.0
    """The longest of these waits."""
    poll: float = 0.25
    """Waiting for messages of an open session before checking for a stop again. While others may be waiting, a session that stays empty for
    this long is given up, and sooner if opening one is quick: a much longer wait would cost more than opening it again."""
    idle: float = 10.0
    """A session that is empty for this long is given up even when no other waits; until then its next message comes at once."""
    turn: float = 30.0
    """While others may be waiting, a session is given up after this long. A topic's outage holds a slot no longer than this."""
    linger: float = 1.0
    """If a topic's pause is longer than this, its sessions are parked; for a shorter one, a slot waits with them."""
