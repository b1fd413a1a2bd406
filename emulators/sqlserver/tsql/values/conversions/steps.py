"""A conversion is a function over storage forms; an assignment that would cut a value short raises instead."""

from __future__ import annotations

from collections.abc import Callable

from emulators.sqlserver.results import Value

Converter = Callable[[Value], Value]


class Truncation(Exception):
    """An assignment would cut `value` short; the caller knows the column to name (2628)."""

    def __init__(self, value: str) -> None:
        super().__init__(value)
        self.value = value
