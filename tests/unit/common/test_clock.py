"""Two clocks that are never compared: one goes on whatever a person sets, the other is the wall clock."""

from __future__ import annotations

import time

import pytest

from common.clock import SteadyTime, UnixTime, seconds_left, steady, unix


def test_the_steady_clock_goes_forward_whatever_the_wall_clock_is_set_to(monkeypatch: pytest.MonkeyPatch) -> None:
    before = steady()
    monkeypatch.setattr(time, "time", lambda: 0.0)
    assert unix() == 0.0
    assert steady() >= before


def test_the_steady_clock_works_where_the_system_has_no_boot_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(time, "CLOCK_BOOTTIME", raising=False)
    before = time.monotonic()
    assert before <= steady() <= time.monotonic()


def test_the_seconds_to_a_moment_that_has_passed_are_below_0() -> None:
    assert seconds_left(SteadyTime(10.0), now=SteadyTime(7.5)) == 2.5
    assert seconds_left(UnixTime(10.0), now=UnixTime(12.0)) == -2.0


def test_mypy_refuses_to_mix_the_clocks() -> None:
    """mypy reports an ignore that nothing needs: `make check` fails here if it let one of these calls pass."""
    seconds_left(SteadyTime(1.0), now=UnixTime(1.0))  # type: ignore[type-var]
    seconds_left(UnixTime(1.0), now=SteadyTime(1.0))  # type: ignore[type-var]
