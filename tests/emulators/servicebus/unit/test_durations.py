"""Durations of the management API, written as .NET writes a TimeSpan."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulators.servicebus.description import FOREVER
from emulators.servicebus.durations import FOREVER_TEXT, duration_text, read_duration


@pytest.mark.parametrize(("value", "text"), [
    (timedelta(seconds=30), "PT30S"), (timedelta(seconds=90), "PT1M30S"), (timedelta(days=14), "P14D"),
    (timedelta(days=1, hours=2, milliseconds=500), "P1DT2H0.5S"), (timedelta(0), "PT0S"), (FOREVER, FOREVER_TEXT),
])  # fmt: skip
def test_only_the_parts_that_are_there_are_written(value: timedelta, text: str) -> None:
    assert duration_text(value) == text


@given(st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=10_000)))
def test_what_is_written_is_read_back(value: timedelta) -> None:
    assert abs(read_duration(duration_text(value)) - value) <= timedelta(microseconds=1)
