"""Text tables and words for times."""

from __future__ import annotations

import pytest

from dstream.rendering.columns import duration, table


def test_columns_are_as_wide_as_their_widest_cell_and_numbers_stand_to_the_right() -> None:
    assert table(("NAME", "N"), [("a", "10"), ("longer", "7")], right=("N",)) == [
        "NAME     N",
        "a       10",
        "longer   7",
    ]


def test_what_others_wrote_cannot_direct_the_terminal() -> None:
    assert table(("WHY",), [("a\nb\r\x1b[31mc\u202e d\xa0ü",)])[1] == "a b  [31mc  d ü"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (None, "-"),
        (0, "0s"),
        (59.9, "59s"),
        (60, "1m 0s"),
        (3_599, "59m 59s"),
        (7_500, "2h 5m"),
        (190_000, "2d 4h"),
        (-90, "passed 1m 30s ago"),
    ],
)
def test_a_duration_has_its_two_largest_units(seconds: float | None, words: str) -> None:
    assert duration(seconds) == words
