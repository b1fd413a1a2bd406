"""Commit times in UTC are what AT TIME ZONE makes of each, and it is asked once a minute of them."""

from __future__ import annotations

from typing import Any

import pytest

from common.errors import TransientError
from ingester.sqlserver.connection import Connection
from ingester.sqlserver.position import LogPosition, Lsn, in_the_log
from ingester.sqlserver.source import SqlServerSource
from ingester.sqlserver.sql import changes as queries
from ingester.sqlserver.sql.changes import P
from ingester.sqlserver.times import CommitTimes
from tests.contracts.source.conftest import Places
from tests.contracts.source.test_source import Place

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
    monkeypatch.setattr("ingester.sqlserver.times._KEPT", 3)
    times = CommitTimes(connection)
    for minute in range(10):
        both = ["2026-01-02 03:00:00.000", f"2026-01-02 03:{minute:02}:01.000"]
        assert times.utc(both) == {time: time.replace(" ", "T") + "Z" for time in both}
    assert asked == [f"2026-01-02 03:{minute:02}" for minute in range(10)]


def test_a_server_that_does_not_tell_its_zone_has_todays_offset(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_zone(monkeypatch, connection, None)
    rows = connection.rows
    monkeypatch.setattr(
        connection, "rows", lambda sql, values=(): [(120,)] if sql == queries.OFFSET_NOW else rows(sql, values)
    )
    assert CommitTimes(connection).utc(["2026-01-02 03:04:05.677"]) == {
        "2026-01-02 03:04:05.677": "2026-01-02T01:04:05.677Z"
    }


@pytest.mark.parametrize(
    ("zone", "local", "doubt"),
    [
        ("W. Europe Standard Time", "2026-10-25T00:30:00.000", 0),
        ("W. Europe Standard Time", "2026-10-25T02:00:00.000", 60),
        ("W. Europe Standard Time", "2026-10-25T02:59:59.997", 60),
        ("W. Europe Standard Time", "2026-10-25T04:00:00.000", 0),
        ("W. Europe Standard Time", "2026-07-13T12:00:00.000", 0),
        ("UTC", "2026-10-25T02:30:00.000", 0),
        (None, "2026-07-13T12:00:00.000", 60),
    ],
)
def test_a_local_time_is_in_doubt_in_the_hour_that_comes_twice_and_where_the_zone_is_not_told(
    connection: Connection, monkeypatch: pytest.MonkeyPatch, zone: str | None, local: str, doubt: int
) -> None:
    in_zone(monkeypatch, connection, zone)
    assert CommitTimes(connection).doubt(local) == doubt


@pytest.mark.parametrize(("zone", "passed"), [("W. Europe Standard Time", [False, True]), ("UTC", [True, True])])
def test_a_transaction_of_the_hour_that_comes_twice_is_not_taken_for_a_later_one(
    places: Places, monkeypatch: pytest.MonkeyPatch, zone: str, passed: list[bool]
) -> None:
    """It looks ten minutes later than the moment, and may have ended fifty minutes before."""
    place = places()
    place.execute("INSERT INTO dbo.Persons (ID) VALUES (1)")
    place.scan()
    lsn = in_the_log(place.read()[-1].position).lsn
    in_zone(monkeypatch, place.connection, zone)
    times = {"2026-10-25T02:30:00.000": "2026-10-25 02:40:00.000", "2026-10-25T02:20:00.000": "2026-10-25 03:21:00.000"}
    seen = []
    for moment, ended in times.items():
        mapping = f"(SELECT 0x{lsn.hex} AS start_lsn, CONVERT(datetime, '{ended}', 121) AS tran_end_time) AS tm"
        text = queries.COMMITTED_AFTER.replace("cdc.lsn_time_mapping AS tm", mapping)
        with monkeypatch.context() as patch:
            patch.setattr(queries, "COMMITTED_AFTER", text)
            seen.append(SqlServerSource(place.connection).passed(LogPosition.end_of(lsn), moment))
    assert seen == passed


MODES = pytest.mark.parametrize("query_mode", ["direct", "function"])


def written(place: Place, transactions: int = 4) -> None:
    for number in range(transactions):
        place.execute(f"INSERT INTO dbo.Persons (ID, Name) VALUES ({number * 2}, N'a'), ({number * 2 + 1}, N'b')")
    place.scan()


def shown(place: Place) -> list[str]:
    """Of each change, from the table of times itself."""
    rows = place.connection.rows(
        "SELECT CONVERT(varchar(23), tm.tran_end_time, 126) FROM cdc.dbo_Persons_CT AS ct JOIN cdc.lsn_time_mapping AS tm "
        "ON tm.start_lsn = ct.__$start_lsn ORDER BY ct.__$start_lsn, ct.__$seqval"
    )
    return [CommitTimes(place.connection).utc([time.replace("T", " ")])[time.replace("T", " ")] for (time,) in rows]


@MODES
@pytest.mark.parametrize("rows", [100, 3, 1])
@pytest.mark.parametrize("page_bytes", [2**20, 1])
def test_every_change_has_the_time_of_its_transaction(
    places: Places, query_mode: str, rows: int, page_bytes: int
) -> None:
    """Whether the page's batch was read to its end or not."""
    place = places(query_mode=query_mode, page_bytes=page_bytes)
    written(place)
    found = [change.commit_time for change in place.read(rows)]
    assert found == shown(place)
    assert len(found) == 8


def test_the_rows_of_a_transaction_do_not_carry_its_time(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    place = places()
    written(place)
    asked: list[list[int]] = []
    until = place.connection.rows_until

    def noted(*arguments: Any) -> Any:
        sets, whole = until(*arguments)
        asked.append([len(rows) for rows in sets])
        return sets, whole

    monkeypatch.setattr(place.connection, "rows_until", noted)
    place.read()
    assert asked == [[8, 4, 1, 1]]  # rows, times, the low watermark and the stamp of the columns


@MODES
@pytest.mark.parametrize("page_bytes", [2**20, 1])
def test_a_page_whose_transactions_cleanup_removes_meanwhile_is_read_again(
    places: Places, monkeypatch: pytest.MonkeyPatch, query_mode: str, page_bytes: int
) -> None:
    """Between its rows and their times: the low watermark has passed them."""
    place = places(query_mode=query_mode, page_bytes=page_bytes)
    written(place)
    times_of = queries.times_of
    monkeypatch.setattr(queries, "times_of", lambda rows: times_of(rows) + " WHERE 1 = 0")
    assert {change.commit_time for change in place.read()} == {None}  # no transaction is passed
    monkeypatch.setattr(SqlServerSource, "_watermark", lambda self, instance, low: Lsn(b"\xff" * 10))
    with pytest.raises(TransientError, match="cleanup removed transactions while they were read"):
        place.read()
