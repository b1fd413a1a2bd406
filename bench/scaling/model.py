"""How fast a number of executors drains, from terms that were measured. Pure.

Slots work side by side until one of these has no more time: the driver's Python, which has one processor for its work on slices; SQL Server, for
commits (the emulator's, one processor; a real server is another matter); and, where everything shares a machine, its processors.
"""

from __future__ import annotations

from dataclasses import dataclass

FOR_OTHERS = 1
"""Slots that backlogs leave to the other tables."""


@dataclass(frozen=True, slots=True)
class Terms:
    """`slot`: changes/s of a slot while nothing else is the limit. `slice`, `page`: changes of each.

    Seconds of processor time: `driver` and `jvm` a slice, `commit` at SQL Server, `change` of all processes together for a change.
    """

    slot: float
    slice: float
    page: float
    driver: float
    jvm: float
    commit: float
    change: float


@dataclass(frozen=True, slots=True)
class Prediction:
    """`limit`: what keeps it from being more."""

    rate: float
    limit: str


def predicted(terms: Terms, slots: int, *, processors: int | None) -> Prediction:
    """With at least as many tables as slots. `processors`: of the one machine that has everything; None: each process has its own."""
    limits = {
        "slots": terms.slot * (slots - FOR_OTHERS),
        "the driver's Python": terms.slice / terms.driver,
        "commits at the emulator": terms.page / terms.commit,
    }
    if processors is not None:
        limits[f"{processors} processors"] = processors / terms.change
    limit = min(limits, key=lambda name: limits[name])
    return Prediction(limits[limit], limit)


def driver_share(terms: Terms, rate: float) -> tuple[float, float]:
    """Processors that the driver's Python and its JVM need at that rate."""
    slices = rate / terms.slice
    return slices * terms.driver, slices * terms.jvm
