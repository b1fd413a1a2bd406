"""Ports for servers that are started later, or again: until this process ends, no other test is given them.

What the system gives for port 0 is anybody's once it is closed: the other runs of `make test` open connections and servers all the time, and
whoever starts a server some seconds later may find its port in use, or another's server where nobody was to listen.
"""

from __future__ import annotations

import random
import socket
from contextlib import closing
from itertools import chain

_PORTS = range(20_000, 32_768)
"""Below those that Linux and macOS give to whoever asks for any."""

_chance = random.SystemRandom()
"""Not the generator that tests seed: they would all begin at the same port."""


def free_port() -> int:
    """Of TCP. Its namesake of UDP is kept by this process, as the sign for other tests that it is taken."""
    begin = _chance.randrange(len(_PORTS))
    for port in chain(_PORTS[begin:], _PORTS[:begin]):
        with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as sign:
            try:
                sign.bind(("0.0.0.0", port))
                socket.create_server(("0.0.0.0", port)).close()
            except OSError:
                continue
            sign.detach()
            return port
    raise AssertionError(f"none of {_PORTS} is free")


def free_ports(count: int) -> list[int]:
    return [free_port() for _ in range(count)]
