"""Commit times in UTC are what AT TIME ZONE makes of each, and it is asked once a minute of them."""

from __future__ import annotations

from typing import Any

import pytest

from ingester import queries
from ingester.queries import P
from ingester.sqlserver_connection import Connection
from ingester.sqlserver_times import CommitTimes
from tests.contracts.source.conftest import Places

AS_OF_EACH_ROW = f"SELECT CONVERT(varchar(23), CAST(CONVERT(datetime, {P}, 121) AT TIME ZONE {P} AT TIME ZONE N'UTC' AS datetime2(3)), 121)"
TIMES = [
    "2026-01-02 03:04:05.677",
    "2026-03-29 01:59:59.997",
    "2026-03-29 03:00:00.000",
    "2026-07-13 12:23:45.457",
    "2026-10-25 01:59:59.997",
    "2026-10-25 02:00:00.000",
    "2026-10-25 02:30:00.003",
    "2026-10-25 02:59:59.997",
    "2026-10-25 03:00:00.000",
    "2026-12-31 23:59:59.997",
]
"""Both changes of the year in Berlin; the hour from two to three is there twice in October."""


@pytest.fixture
def connection(places: Places) -> Connection:
    return places().connection


def in_zone(monkeypatch: pytest.MonkeyPatch, connection: Connection, zone: str | None) -> list[str]:
    """Makes the server one of that zone; the minutes that it is asked about."""
    asked: list[str] = []
    rows, batch = connection.rows, connection.batch

    def told(sql: str, parameters: Any = ()) -> Any:
        return [(zone,)] if sql == queries.SERVER_TIME_ZONE else rows(sql, parameters)

    def noted(statements: Any) -> Any:
        asked.extend(values[0] for _, values in statements)
        return batch(statements)

    monkeypatch.setattr(connection, "rows", told)
    monkeypatch.setattr(connection, "batch", noted)
    return asked


@pytest.mark.parametrize("zone", ["W. Europe Standard Time", "India Standard Time", "Eastern Standard Time", "UTC"])
def test_a_time_is_what_at_time_zone_makes_of_it(
    connection: Connection, monkeypatch: pytest.MonkeyPatch, zone: str
) -> None:
    expected = {time: connection.rows(AS_OF_EACH_ROW, (time, zone))[0][0].replace(" ", "T") + "Z" for time in TIMES}
    in_zone(monkeypatch, connection, zone)
    assert CommitTimes(connection).utc([*TIMES, None, TIMES[0]]) == expected


def test_the_server_is_asked_once_a_minute_of_local_time(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = in_zone(monkeypatch, connection, "W. Europe Standard Time")
    times = CommitTimes(connection)
    rows = [f"2026-01-02 03:{minute:02}:{second:02}.000" for minute in (4, 5) for second in range(60)]
    for _ in range(3):
        assert len(times.utc(rows * 10)) == 120
    assert asked == ["2026-01-02 03:04", "2026-01-02 03:05"]


def test_what_is_remembered_is_bounded_and_what_is_asked_for_is_known(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = in_zone(monkeypatch, connection, "UTC")
    monkeypatch.setattr("ingester.sqlserver_times._KEPT", 3)
    times = CommitTimes(connection)
    for minute in range(10):
        both = ["2026-01-02 03:00:00.000", f"2026-01-02 03:{minute:02}:01.000"]
        assert times.utc(both) == {time: time.replace(" ", "T") + "Z" for time in both}
    assert asked == [f"2026-01-02 03:{minute:02}" for minute in range(10)]


def test_a_server_that_does_not_tell_its_zone_has_todays_offset(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_zone(monkeypatch, connection, None)
    assert CommitTimes(connection).utc(["2026-01-02 03:04:05.677"]) == {
        "2026-01-02 03:04:05.677": "2026-01-02T03:04:05.677Z"
    }
