"""Shelves in memory, for what looks at messages: counts requests, can fail, and has a clock that each request moves."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from common.bus.browsing import Lying, Shelf
from common.errors import DStreamError


class Clock:
    """Stands until it is moved."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class FakeShelves:
    """`lying`: by shelf, rising by sequence. `fails`: raised by the n-th request from now on, counted from 0."""

    lying: dict[Shelf, list[Lying]] = field(default_factory=dict)
    clock: Clock = field(default_factory=Clock)
    page_seconds: float = 0.0
    requests: int = 0
    opened: int = 0
    closed: int = 0
    fails: dict[int, DStreamError] = field(default_factory=dict)

    def browser(self, shelf: Shelf) -> FakeBrowser:
        self.opened += 1
        return FakeBrowser(self, shelf)

    def taker(self, shelf: Shelf) -> Any:
        raise NotImplementedError

    def sender(self, entity: str) -> Any:
        raise NotImplementedError

    def duplicate_window(self, entity: str) -> Any:
        raise NotImplementedError

    def subscriptions(self, topic: str) -> Sequence[str]:
        return [each.subscription for each in self.lying if each.entity == topic and each.subscription is not None]

    @property
    def host(self) -> str:
        return "fake"

    def close(self) -> None:
        self.closed += 1


@dataclass
class FakeBrowser:
    shelves: FakeShelves
    shelf: Shelf

    def page(self, *, first: int, most: int) -> Sequence[Lying]:
        held = self.shelves
        held.clock.now += held.page_seconds
        number, held.requests = held.requests, held.requests + 1
        if (error := held.fails.pop(number, None)) is not None:
            raise error
        assert 1 <= most <= 250
        lying = held.lying.get(self.shelf, [])
        begin = bisect_left(lying, first, key=lambda each: each.sequence)
        return lying[begin : begin + most]

    def close(self) -> None:
        self.shelves.closed += 1
