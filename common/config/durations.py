"""Durations as Go writes them (`500ms`, `1h30m`), read into a timedelta. Refuses what Go refuses, and never guesses a unit.

Why not durationpy: docs/decisions/0001-libraries.md.
"""

from __future__ import annotations

import re
from datetime import timedelta
from fractions import Fraction
from typing import Annotated, Any

from pydantic import AfterValidator, PlainValidator

# Microseconds in each unit of Go's time.ParseDuration; both micro signs (U+00B5 and U+03BC) are in its table.
_UNITS = {
    "ns": Fraction(1, 1000),
    "us": Fraction(1),
    "µs": Fraction(1),
    "μs": Fraction(1),
    "ms": Fraction(1_000),
    "s": Fraction(1_000_000),
    "m": Fraction(60_000_000),
    "h": Fraction(3_600_000_000),
}
_PART = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")
_LONGEST = 100
"""Characters: Python reads no number with thousands of digits."""
_FORM = "must be a duration such as 500ms, 5s, 2m or 1h30m"


def parse_duration(text: str) -> timedelta:
    """Read a Go duration, to the microsecond. Raises ValueError, without the text, which may be a secret from the environment."""
    if len(text) > _LONGEST:
        raise ValueError("is too long")
    sign = -1 if text.startswith("-") else 1
    rest = text[1:] if text[:1] in ("+", "-") else text
    if rest == "0":
        return timedelta(0)
    total, end = Fraction(0), 0
    while end < len(rest):
        part = _PART.match(rest, end)
        if part is None:
            break
        total += Fraction(part[1].rstrip(".")) * _UNITS[part[2]]
        end = part.end()
    if not rest or end != len(rest):
        raise ValueError(_FORM)
    if 0 < total < 1:
        raise ValueError("must be at least 1us")
    try:
        return sign * timedelta(microseconds=round(total))
    except OverflowError:
        raise ValueError("is too long") from None


def format_duration(value: timedelta) -> str:
    """Write a duration in the largest whole units: `1h30m`, `500ms`. Go can read it."""
    left = round(value / timedelta(microseconds=1))
    if left == 0:
        return "0s"
    written = "-" if left < 0 else ""
    left = abs(left)
    for unit in ("h", "m", "s", "ms", "us"):
        count, left = divmod(left, int(_UNITS[unit]))
        written += f"{count}{unit}" if count else ""
    return written


def _read(value: Any) -> timedelta:
    if isinstance(value, timedelta):
        return value
    if not isinstance(value, str):
        raise ValueError(f"{_FORM}, in quotes")
    return parse_duration(value)


def _read_positive(value: Any) -> timedelta:
    duration = _read(value)
    if duration <= timedelta(0):
        raise ValueError("must be more than zero")
    return duration


def _read_zero_or_more(value: Any) -> timedelta:
    duration = _read(value)
    if duration < timedelta(0):
        raise ValueError("must not be negative")
    return duration


def between(shortest: timedelta, longest: timedelta) -> AfterValidator:
    """Refuses a duration that is shorter or longer."""

    def check(value: timedelta) -> timedelta:
        if not shortest <= value <= longest:
            raise ValueError(f"must be from {format_duration(shortest)} to {format_duration(longest)}")
        return value

    return AfterValidator(check)


PositiveDuration = Annotated[timedelta, PlainValidator(_read_positive)]
Duration = Annotated[timedelta, PlainValidator(_read_zero_or_more)]
