"""A conversion is a function over storage forms; an assignment that would cut a value short raises instead."""

from __future__ import annotations

from collections.abc import Callable
from weakref import WeakKeyDictionary

from emulators.sqlserver.results import Value

Converter = Callable[[Value], Value]


_STEPS: WeakKeyDictionary[Callable[..., Value], Converter] = WeakKeyDictionary()


def null_kept(step: Converter) -> Converter:
    """`step`, and NULL as it is."""

    def run(value: Value) -> Value:
        return None if value is None else step(value)

    _STEPS[run] = step
    return run


def step_of(call: Callable[..., Value]) -> Converter | None:
    """What `call` is for values that are not NULL, if `null_kept` made it."""
    return _STEPS.get(call)


class Truncation(Exception):
    """An assignment would cut `value` short; the caller knows the column to name (2628)."""

    def __init__(self, value: str) -> None:
        super().__init__(value)
        self.value = value
