"""How each type is read, through the real driver, against the text that the server itself makes of the same value."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from datetime import date
from typing import Any
from uuid import UUID

import pytest

from ingester.sqlserver.values import projection
from tests.contracts.source.conftest import Places

_RANDOM = random.Random(19)


def _iso(text: str) -> str:
    return text.replace(" ", "T", 1).replace(" ", "")


def _day(margin: int = 1) -> str:
    return date.fromordinal(_RANDOM.randint(margin, date.max.toordinal() - margin)).isoformat()


def _time(digits: int) -> str:
    seconds = _RANDOM.randrange(86_400)
    fraction = f".{_RANDOM.randrange(10**digits):0{digits}d}" if digits else ""
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}{fraction}"


def _many(make: Callable[[], str], *edges: str) -> Iterable[str]:
    return [*edges, *(make() for _ in range(100))]


def _offset() -> str:
    minutes = _RANDOM.randint(-840, 840)
    return f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02d}:{abs(minutes) % 60:02d}"


def _moments(digits: int) -> Iterable[str]:
    last = f"9999-12-31 23:59:59.{'9' * digits}".rstrip(".")
    edges = ("0001-01-01", last, "2000-02-29 12:00:00", "1582-10-10 00:00:01")
    return _many(lambda: f"{_day()} {_time(digits)}", *edges)


def _with_offsets(digits: int) -> Iterable[str]:
    edges = ("0001-01-01 14:00:00 +14:00", "9999-12-31 09:59:59 -14:00", "2000-01-01 00:00:00 +00:01")
    return _many(lambda: f"{_day(3)} {_time(digits)} {_offset()}", *edges)


_CASES: dict[str, tuple[Iterable[str], str, Callable[[str], str]]] = {
    "date": (_many(_day, "0001-01-01", "9999-12-31", "1900-02-28", "2000-02-29"), "CONVERT(varchar(10), {}, 121)", str),
    "datetime": (
        [f"2018-07-13 23:59:{tick // 300 % 60:02d}.{(tick % 300 * 10 + 1) // 3:03d}" for tick in range(300)]
        + [f"{_RANDOM.randint(1753, 9999)}-0{_RANDOM.randint(1, 9)}-28 {_time(3)}" for _ in range(100)],
        "CONVERT(varchar(23), {}, 121)",
        _iso,
    ),
    "smalldatetime": (
        ["1900-01-01", "2079-06-06 23:59", *(f"{_RANDOM.randint(1900, 2078)}-12-31 {_time(0)}" for _ in range(50))],
        "CONVERT(varchar(19), {}, 120)",
        _iso,
    ),
    "money": (
        _many(
            lambda: f"{_RANDOM.randint(-(10**14), 10**14)}.{_RANDOM.randrange(10**4):04d}",
            *("-922337203685477.5808", "922337203685477.5807", "0", "-0.0001", "0.0001", "-1", "-0.9999", "-1.0000"),
        ),
        "CONVERT(varchar(41), {}, 2)",
        str,
    ),
    "smallmoney": (
        ("-214748.3648", "214748.3647", "0", "-0.0001", "1", "-0.5"),
        "CONVERT(varchar(41), {}, 2)",
        str,
    ),
    "uniqueidentifier": (
        _many(lambda: str(UUID(int=_RANDOM.getrandbits(128)))),
        "CONVERT(varchar(36), {})",
        str,
    ),
    **{f"time({n})": (_many(lambda n=n: _time(n)), "CONVERT(varchar(16), {}, 121)", str) for n in range(8)},  # type: ignore[misc]
    **{f"datetime2({n})": (_moments(n), "CONVERT(varchar(34), {}, 121)", _iso) for n in range(8)},
    **{f"datetimeoffset({n})": (_with_offsets(n), "CONVERT(varchar(34), {}, 121)", _iso) for n in range(8)},
}


@pytest.mark.parametrize("declared", _CASES)
def test_what_is_read_is_what_the_server_shows(places: Places, declared: str) -> None:
    literals, shown, form = _CASES[declared]
    found = projection(declared.partition("(")[0], decimals_as_numbers=False)
    assert found is not None
    place = places()
    values = ", ".join(f"('{literal}')" for literal in literals)
    place.execute(f"CREATE TABLE dbo.Every (V {declared})")
    place.execute(f"INSERT INTO dbo.Every VALUES {values}")
    rows: list[tuple[Any, str]] = place.connection.rows(
        f"SELECT {found.select.format('V')}, {shown.format('V')} FROM dbo.Every"
    )
    assert len(rows) == len(list(literals))
    assert [found.convert(value) for value, _ in rows] == [form(text) for _, text in rows]
