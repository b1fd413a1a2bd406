"""Two installations' rounds as medians, quartiles and their ratio. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import quantiles

from bench.table.figures import number

Rounds = Sequence[Mapping[str, float]]
"""The figures of each round."""


@dataclass(frozen=True, slots=True)
class Spread:
    """The quartiles of one figure."""

    low: float
    middle: float
    high: float

    def __str__(self) -> str:
        return f"{number(self.middle)} ({number(self.low)} to {number(self.high)})"


def spread(values: Sequence[float]) -> Spread:
    """At least one value."""
    if len(values) == 1:
        return Spread(values[0], values[0], values[0])
    return Spread(*quantiles(values, n=4, method="inclusive"))


@dataclass(frozen=True, slots=True)
class Compared:
    """One figure of both. `ratio`: now by before, of the medians; None where before was nothing."""

    name: str
    before: Spread
    now: Spread

    @property
    def ratio(self) -> float | None:
        return self.now.middle / self.before.middle if self.before.middle else None


def compared(before: Rounds, now: Rounds) -> list[Compared]:
    """The figures that every round of both has."""
    rounds = [*before, *now]
    names = [name for name in rounds[0] if all(name in each for each in rounds)] if before and now else []
    return [
        Compared(name, spread([each[name] for each in before]), spread([each[name] for each in now])) for name in names
    ]


def text(found: Sequence[Compared]) -> str:
    """As a table of a page: it is read in a terminal, and can be kept."""
    lines = ["| figure | before | now | ratio |", "|---|---|---|---|"]
    for each in found:
        ratio = "" if each.ratio is None else f"{each.ratio:.2f}"
        lines.append(f"| {each.name} | {each.before} | {each.now} | {ratio} |")
    return "\n".join(lines)
