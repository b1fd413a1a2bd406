"""What a hostile client does to a recorded conversation, whatever its protocol: bends of a body, and of the order of its pieces.

The same random source gives the same case. Which octets are head and which body, and what keeps a head true, each protocol says.
"""

from __future__ import annotations

import random
from collections.abc import Callable

Mutation = Callable[[random.Random, list[bytes]], None]
"""Changes the pieces of a conversation."""
Bend = Callable[[random.Random, bytearray], None]
"""Changes the body of one piece."""


def place(source: random.Random, pieces: list[bytes]) -> int:
    """Rather a later one: the first ones, when broken, end everything."""
    return max(source.randrange(len(pieces)), source.randrange(len(pieces)))


def flip(source: random.Random, body: bytearray) -> None:
    """Some octets become others."""
    for _ in range(source.randrange(1, 9)):
        if body:
            body[source.randrange(len(body))] = source.randrange(256)


def cut(source: random.Random, body: bytearray) -> None:
    """The end is missing."""
    del body[source.randrange(len(body) + 1) :]


def take_out(source: random.Random, body: bytearray) -> None:
    """Some octets are missing."""
    at = source.randrange(len(body) + 1)
    del body[at : at + source.randrange(1, 20)]


def put_in(source: random.Random, body: bytearray) -> None:
    """There are some octets too many."""
    at = source.randrange(len(body) + 1)
    body[at:at] = source.randbytes(source.randrange(1, 40))


def repeat(source: random.Random, pieces: list[bytes]) -> None:
    """A piece comes again."""
    pieces.insert(place(source, pieces), source.choice(pieces))


def swap(source: random.Random, pieces: list[bytes]) -> None:
    """Two pieces change places."""
    one, other = place(source, pieces), place(source, pieces)
    pieces[one], pieces[other] = pieces[other], pieces[one]


def leave_out(source: random.Random, pieces: list[bytes]) -> None:
    """A piece is missing."""
    if len(pieces) > 1:
        del pieces[source.randrange(len(pieces))]
