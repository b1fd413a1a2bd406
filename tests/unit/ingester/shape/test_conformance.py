"""CEL as filters evaluate it, held to its specification: expressions and results of cel-spec's conformance tests (tests/simple/testdata)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from common.cel.filters import FilterError, FilterFailed
from ingester.shape.filters import compile_filter

CASES: dict[str, list[tuple[str, str]]] = json.loads(
    (Path(__file__).parents[3] / "golden" / "cel.json").read_text(encoding="utf-8")
)


@pytest.mark.parametrize("area", CASES)
def test_an_expression_gives_what_the_specification_says(area: str) -> None:
    assert [wrong for text, result in CASES[area] if (wrong := _wrong(text, result)) is not None] == []


def test_there_are_cases_of_each_area() -> None:
    assert len(CASES) == 11
    assert sum(map(len, CASES.values())) > 250


def _wrong(text: str, result: str) -> str | None:
    """What differs. `result`: a literal of CEL, or `error`."""
    asked = text if result in ("true", "false", "error") else f"({text}) == ({result})"
    try:
        found = json.dumps(compile_filter(asked)({}, None, {}))
    except (FilterError, FilterFailed):
        found = "error"
    expected = result if result in ("false", "error") else "true"
    return None if found == expected else f"{text} gives {found}, not {expected}"
