"""How many rows a table's next page has: a few full batches of what its rows have been encoded to lately. Pure.

Microsoft caps a batch at 256 KB (Standard) and 1 MB (Premium, whatever a single message may have); the link says which.
Source: https://learn.microsoft.com/azure/service-bus-messaging/service-bus-quotas
"""

from __future__ import annotations

from collections.abc import Iterable

from common.message import Message

SAMPLE_ROWS = 100
"""Rows of a table's first page, from which its size is learnt: enough for a mean, and small whatever the rows are."""
BATCHES = 8
"""Full batches that a page is to hold: fewer would make reading and commit, which a page pays once, count on Standard."""
PROPERTIES_BYTES = 512
"""What a message has beside its body, about: ids, session, six application properties and their AMQP encoding."""


def page_rows(most: int, row_bytes: float | None, batch_bytes: int) -> int:
    """Rows of the next page, 1 to `most`. `row_bytes`: as `learnt` has it, None before the first page; `batch_bytes`: the link's."""
    if row_bytes is None:
        return min(most, SAMPLE_ROWS)
    return max(1, min(most, int(BATCHES * batch_bytes / row_bytes)))


def learnt(row_bytes: float | None, messages: Iterable[Message]) -> float | None:
    """Bytes a row after a page of `messages`: wider rows count at once, narrower ones by and by."""
    sizes = [len(message.body) + PROPERTIES_BYTES for message in messages]
    if not sizes:
        return row_bytes
    mean = sum(sizes) / len(sizes)
    return mean if row_bytes is None or mean > row_bytes else (row_bytes + mean) / 2
