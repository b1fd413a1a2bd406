"""Which partition an event goes to: by its partition key, or in turn.

Promised is only that events with the same key share a partition. The hash is the one that Microsoft's clients have in common with the
service (Bob Jenkins' lookup3, both halves of it folded into 16 bits), so that a client that buffers by partition agrees.
Sources: learn.microsoft.com "Features and terminology in Azure Event Hubs", partition keys; Azure.Messaging.EventHubs, PartitionResolver.
"""

from __future__ import annotations

from typing import Final

_MASK: Final = 0xFFFFFFFF
_START: Final = 0xDEADBEEF
_ROUNDS: Final = ((4, 6, 8), (16, 19, 4))
"""Rotations of the two rounds of a mix."""


def partition_of(key: str, count: int) -> int:
    """The number of the partition, below `count`."""
    folded = _hash(key.encode())
    signed = folded - 0x10000 if folded >= 0x8000 else folded
    return abs(signed) % count


def _hash(data: bytes) -> int:
    a = b = c = (_START + len(data)) & _MASK
    at, left = 0, len(data)
    while left > 12:
        a, b, c = _mixed(a + _word(data, at), b + _word(data, at + 4), c + _word(data, at + 8))
        at, left = at + 12, left - 12
    if left:
        a, b, c = _final(a + _word(data, at), b + _word(data, at + 4), c + _word(data, at + 8))
    return (c ^ b) & 0xFFFF


def _word(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 4], "little")


def _rotated(value: int, by: int) -> int:
    value &= _MASK
    return ((value << by) | (value >> (32 - by))) & _MASK


def _mixed(a: int, b: int, c: int) -> tuple[int, int, int]:
    for first, second, third in _ROUNDS:
        a = ((a - c) & _MASK) ^ _rotated(c, first)
        c = (c + b) & _MASK
        b = ((b - a) & _MASK) ^ _rotated(a, second)
        a = (a + c) & _MASK
        c = ((c - b) & _MASK) ^ _rotated(b, third)
        b = (b + a) & _MASK
    return a, b, c


def _final(a: int, b: int, c: int) -> tuple[int, int, int]:
    a, b, c = a & _MASK, b & _MASK, c & _MASK
    c = ((c ^ b) - _rotated(b, 14)) & _MASK
    a = ((a ^ c) - _rotated(c, 11)) & _MASK
    b = ((b ^ a) - _rotated(a, 25)) & _MASK
    c = ((c ^ b) - _rotated(b, 16)) & _MASK
    a = ((a ^ c) - _rotated(c, 4)) & _MASK
    b = ((b ^ a) - _rotated(a, 14)) & _MASK
    c = ((c ^ b) - _rotated(b, 24)) & _MASK
    return a, b, c
