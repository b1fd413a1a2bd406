"""The Python functions that lowered SQL calls as fn(id, ...), and the aggregates beside them.

One SQLite function for all of them: what a call does depends on its T-SQL types, so each pair of function and types gets an id.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Sequence
from decimal import Decimal

from emulators.sqlserver.results import SqlError, Value
from emulators.sqlserver.tsql.errors import arithmetic_overflow, negative_rows, no_number_of_rows, scalar_subquery
from emulators.sqlserver.tsql.values.conversions.numbers import EXACT

Call = Callable[..., Value]
_lock = threading.Lock()
_ids: dict[Hashable, int] = {}
CALLS: list[Call] = []
"""By id. Only grows; bounded by the combinations of functions and types that batches use."""


def register(key: Hashable, make: Callable[[], Call]) -> int:
    """The id of the call that `key` names, made on first use."""
    with _lock:
        number = _ids.get(key)
        if number is None:
            CALLS.append(make())
            number = _ids[key] = len(CALLS) - 1
        return number


class ExactSum:
    """SUM over decimal and money: every digit kept, scale that of the values."""

    def __init__(self) -> None:
        self.total = Decimal(0)
        self.count = 0

    def step(self, value: str | None) -> None:
        if value is not None:
            self.total = Decimal(value) if self.count == 0 else EXACT.add(self.total, Decimal(value))
            self.count += 1

    def inverse(self, value: str | None) -> None:
        """A row leaves a window's frame."""
        if value is not None:
            self.total = EXACT.subtract(self.total, Decimal(value))
            self.count -= 1

    def value(self) -> str | None:
        return None if self.count == 0 else f"{self.total:f}"

    finalize = value


class WholeSum:
    """SUM over integers; the caller checks the range of the result's type."""

    def __init__(self) -> None:
        self.total = 0
        self.count = 0

    def step(self, value: int | None) -> None:
        if value is not None:
            self.total += value
            self.count += 1

    def inverse(self, value: int | None) -> None:
        if value is not None:
            self.total -= value
            self.count -= 1

    def value(self) -> int | str | None:
        if self.count == 0:
            return None
        return self.total if -(2**63) <= self.total < 2**63 else str(self.total)

    finalize = value


class OnlyOne:
    """The value of a scalar subquery; more than one row is error 512, kept in `errors` for the caller."""

    errors = threading.local()

    def __init__(self) -> None:
        self.rows = 0
        self.value: Value = None

    def step(self, value: Value) -> None:
        self.rows += 1
        self.value = value
        if self.rows > 1:
            OnlyOne.errors.last = scalar_subquery()
            raise OnlyOne.errors.last

    def finalize(self) -> Value:
        return self.value


def strict(run: Call) -> Call:
    """NULL when any of its values is."""

    def call(*values: Value) -> Value:
        return None if None in values else run(*values)

    return call


def chained(calls: Sequence[tuple[int, int]]) -> Call:
    """Calls in one another's first argument as one: `calls` are their ids, the inner one first, and how many arguments are each one's own.

    SQLite's parser takes about twenty calls in one another, and sums of more terms are common."""
    (first, count), rest = calls[0], calls[1:]

    def run(*values: Value) -> Value:
        value, at = CALLS[first](*values[:count]), count
        for number, more in rest:
            value = CALLS[number](value, *values[at : at + more])
            at += more
        return value

    return run


def checked_whole(name: str, low: int, high: int) -> Call:
    """The range check behind SUM over integers."""

    def run(value: Value) -> Value:
        if value is None:
            return None
        if not isinstance(value, int) or not low <= value <= high:
            raise arithmetic_overflow(name)
        return value

    return run


def number_of_rows(skipped: bool) -> Call:
    """The check of what TOP and FETCH give, or OFFSET (`skipped`)."""

    def run(value: Value) -> Value:
        if value is None:
            raise no_number_of_rows(skipped=skipped)
        if isinstance(value, int) and value < 0:
            raise negative_rows(skipped=skipped)
        return value

    return run


def last_error() -> SqlError | None:
    """Takes the error that an aggregate of this thread left behind."""
    error: SqlError | None = getattr(OnlyOne.errors, "last", None)
    OnlyOne.errors.last = None
    return error
