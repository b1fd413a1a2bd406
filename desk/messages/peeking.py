"""Page after page of a shelf, up to its end. The one place that knows where the next page begins; what an error or a stop means is its callers'."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from common.bus.browsing import LAST, Lying

Page = Callable[[int, int], Sequence[Lying]]
"""Messages from a sequence number on, so many at most."""


def peeked(page: Page, first: int, most: int) -> Iterator[Sequence[Lying]]:
    """Each is asked for when it is needed. The last one is empty: then there is nothing behind it."""
    while first <= LAST:
        found = page(first, most)
        yield found
        if not found:
            return
        first = found[-1].sequence + 1
    yield ()
