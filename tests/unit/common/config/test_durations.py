"""Go's durations, read exactly and never guessed."""

from __future__ import annotations

import contextlib
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.config.durations import format_duration, parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("500ms", 0.5),
        ("5s", 5),
        ("2m", 120),
        ("1h30m", 5400),
        ("1.5h", 5400),
        (".5s", 0.5),
        ("1.s", 1),
        ("+3s", 3),
        ("-3s", -3),
        ("250us", 0.00025),
        ("250µs", 0.00025),  # U+00B5
        ("250μs", 0.00025),  # U+03BC
        ("1500ns", 0.000002),
        ("1m0.5s", 60.5),
        ("0", 0),
        ("0s", 0),
    ],
)
def test_reads_what_go_reads(text: str, seconds: float) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "text", ["", "5", "s", "5 s", "5S", "5sec", "5d", "1e3s", "٥s", "5s ", "+", "5s-3s", ".s", "1ns"]
)
def test_refuses_what_go_refuses_and_what_rounds_to_nothing(text: str) -> None:
    with pytest.raises(ValueError):
        parse_duration(text)


def test_a_duration_beyond_timedelta_is_refused_not_an_overflow() -> None:
    with pytest.raises(ValueError, match="too long"):
        parse_duration("9" * 30 + "h")
    with pytest.raises(ValueError, match="is too long"):
        parse_duration("9" * 5000 + "h")


@given(st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=10_000)))
def test_what_is_written_reads_back_the_same(value: timedelta) -> None:
    assert parse_duration(format_duration(value)) == value


@given(st.text())
def test_any_text_is_a_duration_or_a_value_error(text: str) -> None:
    with contextlib.suppress(ValueError):
        assert isinstance(parse_duration(text), timedelta)
