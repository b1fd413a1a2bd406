"""Peers that fall mute at random: one way of one service at a time, for a while, and then well for whoever connects anew."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from random import Random
from typing import Self

from tests.worlds.tcp_relay import Silence, TcpRelay, Way

_AFTER = (0, 0, 100, 700, 3000, 20_000)
"""Octets that still pass: none, or as many as end somewhere in an opening, or in a page."""
_LONGEST = 6.0
"""Seconds for which whoever connects finds a mute peer."""


class Mutes:
    """Entered, it can strike; on leaving every way is well. `counts`: strikes by way and manner."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._timers: list[threading.Timer] = []
        self._relays: list[TcpRelay] = []
        self.counts: Counter[str] = Counter()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *details: object) -> None:
        self.end()

    def end(self) -> None:
        """Whoever connects from now on is served."""
        for timer in self._timers:
            timer.cancel()
        for relay in self._relays:
            relay.speak()

    def strike(self, ways: Mapping[str, TcpRelay]) -> str:
        """One of these ways falls mute: those who are connected, and for some seconds those who come. What was done, in words."""
        name = self._random.choice(sorted(ways))
        way = self._random.choice((Way.FORTH, Way.BACK, Way.BOTH))
        silence = Silence(way, self._random.choice(_AFTER))
        relay, dropped = ways[name], self._random.random() < 0.4
        relay.mute(silence)
        if dropped:
            relay.drop()
        timer = threading.Timer(self._random.uniform(0, _LONGEST), relay.speak)
        timer.daemon = True
        timer.start()
        self._timers.append(timer)
        self._relays.append(relay)
        self.counts[f"{name} {'cut, then mute' if dropped else 'mute'}"] += 1
        return f"{time.strftime('%H:%M:%S', time.gmtime())} {name}: {way}, after {silence.after}, dropped {dropped}"


def told(mutes: Mutes, relays: Sequence[TcpRelay]) -> str:
    """What was done, for the measurements."""
    lines = [
        f"{mutes.counts.total()} times mute; on {sum(relay.fell_mute for relay in relays)} connections something was withheld"
    ]
    return "\n".join(lines + [f"{count:5} {what}" for what, count in sorted(mutes.counts.items())])
