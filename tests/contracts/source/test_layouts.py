"""A server that lays values out otherwise is found out before a value of it is sent: by bytes of constants, which it converts with a page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from common.errors import PermanentError
from common.names import TableName
from ingester.history.rows import RowsQuery
from ingester.sqlserver.history.rows import SqlServerRows
from ingester.sqlserver.pages.layouts import SAMPLES
from tests.contracts.source.test_source import Place

PRICES = TableName("dbo", "Prices")
TURNED = TableName("dbo", "Turned")
NAMES = TableName("dbo", "Names")
UNKNOWN = "the server's bytes of a {} value have a layout that DStream does not know"


@pytest.fixture
def place(places: Callable[..., Place], request: pytest.FixtureRequest) -> Place:
    made = places(**getattr(request, "param", {}))
    made.execute("CREATE TABLE dbo.Prices (ID INT PRIMARY KEY, Price MONEY NULL)")
    made.execute("CREATE TABLE dbo.Names (ID INT PRIMARY KEY, Name NVARCHAR(9) NULL)")
    made.enable(table="Prices")
    made.enable(table="Names")
    made.execute("INSERT dbo.Prices VALUES (1, 2.5), (2, 3.5), (3, 4.5); INSERT dbo.Names VALUES (1, N'a')")
    made.scan()
    return made


@pytest.fixture
def turned(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server has money with its lowest byte first."""
    octets = SAMPLES["money"].octets

    def answered(sets: list[list[tuple[Any, ...]]]) -> list[list[tuple[Any, ...]]]:
        return [
            [tuple([v.replace(octets, octets[::-1]) if isinstance(v, bytes) else v for v in row]) for row in rows]
            for rows in sets
        ]

    whole, until = place.connection._result_sets, place.connection.rows_until
    monkeypatch.setattr(place.connection, "_result_sets", lambda *asked: answered(whole(*asked)))

    def cut(*asked: Any) -> tuple[list[list[tuple[Any, ...]]], bool]:
        sets, all_of_it = until(*asked)
        return answered(sets), all_of_it

    monkeypatch.setattr(place.connection, "rows_until", cut)


OPTIONS = pytest.mark.parametrize("place", [{}, {"page_bytes": 1}], ids=["whole", "a page that is cut"], indirect=True)
MODES = pytest.mark.parametrize(
    "place",
    [{"query_mode": mode, "page_bytes": page_bytes} for mode in ("direct", "function") for page_bytes in (10**6, 1)],
    ids=["direct", "direct, cut", "function", "function, cut"],
    indirect=True,
)


@MODES
@pytest.mark.usefixtures("turned")
def test_money_with_its_lowest_byte_first_stops_its_tables_and_no_others(place: Place) -> None:
    assert [change.data for change in place.read(table=NAMES)] == [{"ID": 1, "Name": "a"}]
    for _ in range(2):
        with pytest.raises(PermanentError, match=UNKNOWN.format("money")):
            place.read(table=PRICES)


@pytest.mark.usefixtures("turned")
def test_a_snapshot_of_such_a_table_reads_no_such_column(place: Place) -> None:
    rows = SqlServerRows(place.connection, decimals_as_numbers=False)
    assert [row.data["Name"] for row in rows.page(RowsQuery(rows.table(place.instance(NAMES)), 9)).rows] == ["a"]
    prices = rows.table(place.instance(PRICES))
    assert len(rows.page(RowsQuery(prices, 9, columns=("ID",))).rows) == 3
    with pytest.raises(PermanentError, match=UNKNOWN.format("money")):
        rows.page(RowsQuery(prices, 9))


@OPTIONS
def test_it_is_asked_once_and_with_what_a_page_asks_anyway(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    instance, asked = place.instance(PRICES), list[str]()

    def noted(real: Callable[..., Any]) -> Callable[..., Any]:
        def ask(text: str, *rest: Any) -> Any:
            asked.append(text)
            return real(text, *rest)

        return ask

    for name in ("rows", "rows_until"):
        monkeypatch.setattr(place.connection, name, noted(getattr(place.connection, name)))
    monkeypatch.setattr(place, "instance", lambda table: instance)
    for _ in range(2):
        assert place.read(table=PRICES)[0].data == {"ID": 1, "Price": "2.5000"}
    expected = 2 if asked[1].startswith("SELECT CONVERT") else 1  # a page that is cut asks for its end by itself
    assert sum("AS layouts" in text for text in asked) == expected
