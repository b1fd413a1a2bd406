"""The table of figures as text: this run beside the one kept before, and each figure beside its floor or ceiling. Pure: no clock, no file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

HEADERS: Final = ("figure", "this run", "last", "ratio", "floor or ceiling", "to it", "remark")
LEGEND: Final = """\
last, ratio: the figure of the last run that was kept, and this run's divided by it. Runs at different loads cannot be compared;
`python -m bench.compare` measures two states of the code in turns.
floor or ceiling, to it: what somebody else's code, or nothing but waiting, comes to, and the figure divided by it.
A worker's stages: fetch rows, make changes of them, encode messages, send them, commit the offset; the rest is the loop around them."""
_WORSE: Final = 1.15
"""A figure that is worse than the kept one by more than this is marked: below it is what one run differs from the next."""


@dataclass(frozen=True, slots=True)
class Figure:
    """`bound`: what somebody else's code, or nothing but waiting, comes to; a floor of a cost, a ceiling of a rate. None: there is none.
    `date`, `commit`: of a figure that was kept."""

    name: str
    value: float
    unit: str
    bound: float | None = None
    more_is_better: bool = False
    remark: str = ""
    date: str = ""
    commit: str = ""


@dataclass(frozen=True, slots=True)
class Failed:
    """A part without figures, and why."""

    part: str
    reason: str


def row(figure: Figure, kept: Mapping[str, float]) -> tuple[str, ...]:
    """One line of the table. `kept`: the last run's values by name."""
    before = kept.get(figure.name)
    return (
        f"{figure.name}, {figure.unit}",
        number(figure.value),
        "" if before is None else number(before),
        "" if not before else f"{figure.value / before:.2f}",
        "" if figure.bound is None else number(figure.bound),
        "" if not figure.bound else f"{figure.value / figure.bound:.2f}",
        "; ".join(filter(None, (worse(figure, before), figure.remark))),
    )


def worse(figure: Figure, before: float | None) -> str:
    """A word where the figure is worse than the kept one by more than runs differ anyway."""
    if not before or not figure.value:
        return ""
    ratio = before / figure.value if figure.more_is_better else figure.value / before
    return "worse" if ratio > _WORSE else ""


def number(value: float) -> str:
    """Three digits that count; thousands with commas."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    if abs(value) >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if abs(value) >= 1 or value == 0 else f"{value:.3f}"


def text(found: Sequence[Figure | Failed], kept: Mapping[str, float]) -> str:
    """For a terminal: columns of equal width, numbers to the right."""
    rows = [HEADERS, *(_line(each, kept) for each in found)]
    widths = [max(len(line[column]) for line in rows) for column in range(len(HEADERS) - 1)]
    lines = []
    for line in rows:
        first, *numbers = (cell for cell in line[:-1])
        cells = [first.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(numbers, widths[1:], strict=True))]
        lines.append("  ".join([*cells, line[-1]]).rstrip())
    return "\n".join(lines)


def markdown(found: Sequence[Figure]) -> str:
    """For a page: the figures of one run without another beside it."""
    lines = ["| figure | seen | floor or ceiling | to it | remark |", "|---|---|---|---|---|"]
    for figure in found:
        name, value, _, _, bound, to_it, _ = row(figure, {})
        lines.append(f"| {name} | {value} | {bound} | {to_it} | {figure.remark} |")
    return "\n".join(lines)


def _line(each: Figure | Failed, kept: Mapping[str, float]) -> tuple[str, ...]:
    if isinstance(each, Failed):
        return (each.part, "failed", "", "", "", "", each.reason)
    return row(each, kept)
