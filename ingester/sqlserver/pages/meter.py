"""How much a page may hold. Pure: looks at rows, and keeps none."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from ingester.source import CapturedColumn
from ingester.sqlserver.pages.place import BEGINS_WITH, operation_of
from ingester.sqlserver.pairing import BEFORE_UPDATE
from ingester.sqlserver.values import LOB_TYPES

PAGE_BYTES: Final = 4 * 2**20
"""How much text and binary a page holds before it ends, whatever its number of rows: a few Service Bus batches, and
little of a worker's memory even if each of its threads holds one. A larger row is a page of its own."""


_TIMES: Final = {"char": 2, "varchar": 2}
"""A character of a code page arrives as UTF-16."""
_AS_DIGITS: Final = ("decimal", "numeric")
_DIGITS: Final = 41

Enough = Callable[[Sequence[Any]], bool]
"""Whether a page ends with a row, the next of its batch."""


def widest(columns: Iterable[CapturedColumn]) -> float:
    """The most bytes that one row's values arrive in; infinite where a column has no limit, or none that is known."""
    return sum((_most(column) for column in columns), 0.0)


def _most(column: CapturedColumn) -> float:
    # text, ntext and image are declared with the length of a pointer.
    limited = column.length is not None and column.length >= 0 and column.type not in LOB_TYPES
    if not limited:
        return math.inf
    return float(_DIGITS if column.type in _AS_DIGITS else (column.length or 0) * _TIMES.get(column.type, 1))


class Meter:
    """Ends a page once its rows hold `limit` characters and bytes, but never between an update's two images.

    `look_ahead`: one row later, so that its position can be compared with the last one's.
    """

    def __init__(self, limit: int, *, look_ahead: bool) -> None:
        self._left = limit
        self._look_ahead = look_ahead
        self._spent = False

    def enough(self, row: Sequence[Any]) -> bool:
        """Whether the page ends with `row`, the next of its batch."""
        place = row[0]
        if (
            not isinstance(place, bytes) or len(place) <= BEGINS_WITH
        ):  # of another result set of the batch, or without a position
            return False
        if self._spent:
            return True
        for value in row:
            if isinstance(value, (str, bytes)):
                self._left -= len(value)
        spent = self._left <= 0 and operation_of(place) != BEFORE_UPDATE
        self._spent = spent and self._look_ahead
        return spent and not self._look_ahead
