"""Where a client's result is knowingly another than the scenario's: what the client cannot do, and what the emulator gets wrong.

Each entry says exactly what comes instead and why. One that is no longer true fails the test that reads it: remove it then.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.emulators.sqlserver.clients.scenario import COLUMNS, PARAMETERS

_HEADINGS = {
    "read types": ("id", *(column.name for column in COLUMNS), "a_rowversion"),
    "read what parameters wrote": ("id", *PARAMETERS),
}


@dataclass(frozen=True)
class Difference:
    """Either `cells` (column to what the scenario says and what comes instead) or the whole `result` of a step."""

    client: str
    step: str
    reason: str
    cells: Mapping[str, tuple[object, object]] = field(default_factory=dict)
    result: Any = None


def _microseconds(client: str) -> Difference:
    return Difference(
        client,
        "read types",
        "Python's times hold microseconds",
        cells={
            "a_time": ("23:59:59.9999999", "23:59:59.9999990"),
            "a_datetime2": ("9999-12-31T23:59:59.9999999", "9999-12-31T23:59:59.9999990"),
            "an_offset": ("9999-12-31T23:59:59.9999999+05:30", "9999-12-31T23:59:59.9999990+05:30"),
        },
    )


_DIGITS = f"{'9' * 28}.{'9' * 10}"
_NO_OFFSET = "JavaScript's Date has no offset: the moment is right"

LIMITS = (
    _microseconds("python-tds"),
    Difference(
        "python-tds", "read types", "drops a decimal's zeros at the end", cells={"a_numeric": ("-0.0500", "-0.05")}
    ),
    Difference(
        "python-tds",
        "several result sets",
        "shows an UPDATE between two queries as an empty result set",
        result=[[["1"]], [], [["x", "y"], ["z", None]], []],
    ),
    _microseconds("mssql-python"),
    Difference("mssql-python", "read types", "reads an empty image as NULL", cells={"an_image": ("0x", None)}),
    Difference(
        "tedious",
        "read types",
        "JavaScript's numbers are doubles",
        cells={
            "a_decimal": (f"-{_DIGITS}", "-1e+28"),
            "a_numeric": ("-0.0500", "-0.05"),
            "a_money": ("-922337203685477.5808", "-922337203685477.6"),
        },
    ),
    Difference(
        "tedious",
        "read types",
        "JavaScript's numbers are doubles",
        cells={"a_decimal": (_DIGITS, "1e+28"), "a_money": ("922337203685477.5807", "922337203685477.6")},
    ),
    Difference(
        "tedious",
        "read types",
        _NO_OFFSET,
        cells={"an_offset": ("0001-01-02T00:00:00.0000000-08:00", "0001-01-02T08:00:00.0000000+00:00")},
    ),
    Difference(
        "tedious",
        "read types",
        _NO_OFFSET,
        cells={"an_offset": ("9999-12-31T23:59:59.9999999+05:30", "9999-12-31T18:29:59.9999999+00:00")},
    ),
    Difference(
        "tedious",
        "read what parameters wrote",
        _NO_OFFSET,
        cells={"an_offset": ("2018-07-13T13:23:45.7890000+05:30", "2018-07-13T07:53:45.7890000+00:00")},
    ),
)
"""What the client cannot do with any server."""

GAPS: tuple[Difference, ...] = ()
"""Defects of the emulator that are known and not yet repaired."""


def expected(client: str, step: str, result: Any) -> Any:
    """What `client` must report for a step whose `result` the scenario gives. AssertionError for an entry that cannot be."""
    made = copy.deepcopy(result)
    for entry in (*LIMITS, *GAPS):
        if (entry.client, entry.step) == (client, step):
            made = made if entry.cells else entry.result
            for column, (said, instead) in entry.cells.items():
                _replace(made, _HEADINGS[step].index(column), said, instead)
    return made


def _replace(sets: list[list[list[object]]], place: int, said: object, instead: object) -> None:
    rows = [row for row in sets[0] if row[place] == said]
    assert len(rows) == 1, f"no single row with {said} in column {place}"
    rows[0][place] = instead
