"""How many rows a table's next page has: enough for a few full batches, by the recent encoded size of its rows. Pure.

A batch has at most 256 KB on Standard and 1 MB on Premium, where a single message may be larger; the link states the limit.
Source: https://learn.microsoft.com/azure/service-bus-messaging/service-bus-quotas
"""

from __future__ import annotations

from collections.abc import Iterable

from common.message import Message

SAMPLE_ROWS = 100
"""Rows of a table's first page, which shows how large its rows are: enough for a mean, and a small page even if rows are wide."""
BATCHES = 8
"""Full batches in a page. With fewer, the cost of a read and a commit, paid once a page, would be noticeable on Standard."""
PROPERTIES_BYTES = 512
"""Approximate size of a message without its body: ids, session, six application properties and their AMQP encoding."""


def page_rows(most: int, row_bytes: float | None, batch_bytes: int) -> int:
    """Rows of the next page, 1 to `most`. `row_bytes`: what `learnt` returned, None before the first page. `batch_bytes`: the link's limit."""
    if row_bytes is None:
        return min(most, SAMPLE_ROWS)
    return max(1, min(most, int(BATCHES * batch_bytes / row_bytes)))


def learnt(row_bytes: float | None, messages: Iterable[Message]) -> float | None:
    """Bytes a row, after a page of `messages`. It grows at once and shrinks slowly."""
    sizes = [len(message.body) + PROPERTIES_BYTES for message in messages]
    if not sizes:
        return row_bytes
    mean = sum(sizes) / len(sizes)
    return mean if row_bytes is None or mean > row_bytes else (row_bytes + mean) / 2
