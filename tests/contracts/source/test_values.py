"""Values at their edges, from the table to JSON through the real driver: whole, exact, and what capture does not hold told apart from NULL."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from common.names import TableName
from dstream.emulators import Login
from emulators.sqlserver.engine.server_engine import SqlEngine
from emulators.sqlserver.server import SqlServerEmulator
from ingester.change import Change
from tests.contracts.source import values_page
from tests.contracts.source.conftest import Places
from tests.contracts.source.test_source import Place

PAGE = Path(__file__).parents[3] / "docs" / "values.md"
WIDE = TableName("dbo", "Wide")


def test_the_page_of_values_says_what_is_read(engine: SqlEngine, server: SqlServerEmulator) -> None:
    made = []
    for name in ("strings", "numbers"):
        engine.create_database(name)
        made.append(Login("127.0.0.1", server.port, "sa", "test-Password-1", name))
    assert values_page.made(*made) == PAGE.read_text(encoding="utf-8")


def test_values_are_the_same_where_types_are_not_certain(engine: SqlEngine, server: SqlServerEmulator) -> None:
    made = []
    for name in ("strings_in_doubt", "numbers_in_doubt"):
        engine.create_database(name)
        made.append(Login("127.0.0.1", server.port, "sa", "test-Password-1", name))
    assert values_page.made(*made, query_mode="function") == PAGE.read_text(encoding="utf-8")


def wide(place: Place, columns: str) -> None:
    place.execute(f"CREATE TABLE dbo.Wide (ID INT PRIMARY KEY, {columns})")
    place.enable(table="Wide")


def changes(place: Place, rows: int = 100) -> list[Change]:
    place.scan()
    return place.read(rows, WIDE)


def test_every_type_has_a_null_and_it_is_not_an_empty_value(places: Places) -> None:
    place = places()
    types = list(dict.fromkeys(edge.type for edge in values_page.EDGES))
    wide(place, ", ".join(f"C{number} {name} NULL" for number, name in enumerate(types)))
    place.execute("INSERT INTO dbo.Wide (ID) VALUES (1)")
    (change,) = changes(place)
    assert set(change.data.values()) == {1, None}
    assert change.unavailable == ()


def _million(character: str, sql_type: str) -> str:
    return f"REPLICATE(CAST({character} AS {sql_type}), 1048576)"


def test_text_and_binary_of_full_length_are_whole(places: Places) -> None:
    place = places()
    place.execute("EXEC sp_configure 'max text repl size', -1")
    place.execute("RECONFIGURE")
    wide(
        place,
        "A CHAR(8000), B VARCHAR(8000), C NCHAR(4000), D NVARCHAR(4000), E VARBINARY(8000), F VARCHAR(4001), G CHAR(4000),"
        "H VARCHAR(MAX), I NVARCHAR(MAX), J VARBINARY(MAX), K XML, L TEXT, M NTEXT",
    )
    hundred_thousand = "ž" * 100_000
    values = [
        *("1", "'a'", "REPLICATE('é', 8000)", "N'ž'", "REPLICATE(N'ž', 4000)", "0x" + "ab" * 8000),
        *("REPLICATE('x', 4001)", "'y'", _million("'é'", "VARCHAR(MAX)"), _million("N'ž'", "NVARCHAR(MAX)")),
        "CAST(" + _million("'b'", "VARCHAR(MAX)") + " AS VARBINARY(MAX))",
        *(f"N'<a>{hundred_thousand}</a>'", "'é'", "N'ž'"),
    ]
    place.execute(f"INSERT INTO dbo.Wide VALUES ({', '.join(values)})")
    (change,) = changes(place)
    data: dict[str, Any] = dict(change.data)
    assert data["A"] == "a" + " " * 7999
    assert (data["B"], data["D"]) == ("é" * 8000, "ž" * 4000)
    assert data["C"] == "ž" + " " * 3999
    assert data["E"] == "q6ur" * 2666 + "q6s="
    assert (data["F"], data["G"]) == ("x" * 4001, "y" + " " * 3999)
    assert (data["H"], data["I"]) == ("é" * 2**20, "ž" * 2**20)
    assert len(data["J"]) == 4 * -(-(2**20) // 3)
    assert (data["K"], data["L"], data["M"]) == ("<a>" + "ž" * 100_000 + "</a>", "é", "ž")


def test_what_capture_does_not_hold_is_unavailable_and_a_null_is_null(places: Places) -> None:
    """Microsoft's page of the change table, Remarks: large values in before images, old large types in deletes, computed columns."""
    place = places(before_images=True)
    wide(
        place,
        "Short NVARCHAR(9), Held NVARCHAR(MAX), Bare NVARCHAR(MAX), Old NTEXT, Twice AS (ID * 2), Bytes VARBINARY(MAX)",
    )
    place.execute(
        "INSERT INTO dbo.Wide (ID, Short, Held, Bare, Old, Bytes) VALUES (1, NULL, N'long', NULL, N'old', 0x01)"
    )
    place.execute("UPDATE dbo.Wide SET Short = N'x'")
    place.execute("UPDATE dbo.Wide SET Held = N'longer', Bare = N'set'")
    place.execute("DELETE FROM dbo.Wide")
    insert, short, held, delete = changes(place)
    row = {"ID": 1, "Short": None, "Held": "long", "Bare": None, "Old": "old", "Bytes": "AQ=="}
    assert (dict(insert.data), insert.unavailable) == (row, ("Twice",))
    assert dict(short.data) == row | {"Short": "x"}
    assert short.before == {"ID": 1, "Short": None}
    assert short.unavailable == ("Held", "Bare", "Old", "Twice", "Bytes")
    assert held.before == {"ID": 1, "Short": "x", "Held": "long", "Bare": None}
    assert held.unavailable == ("Old", "Twice", "Bytes")
    assert dict(delete.data) == {"ID": 1, "Short": "x", "Held": "longer", "Bare": "set", "Bytes": "AQ=="}
    assert delete.unavailable == ("Old", "Twice")


def test_what_capture_did_not_hold_of_a_column_is_unavailable_also_once_its_type_is_another(places: Places) -> None:
    """Its present type would have been captured. The update's mask and its after image say that it was not NULL."""
    place = places(before_images=True)
    wide(place, "N INT, A NVARCHAR(MAX), B VARBINARY(MAX), C NVARCHAR(MAX), D INT")
    place.execute("INSERT INTO dbo.Wide VALUES (1, 1, N'hello', 0x01, NULL, NULL)")
    place.execute("UPDATE dbo.Wide SET N = 2")
    place.execute("UPDATE dbo.Wide SET D = 3")
    place.scan()
    place.execute("ALTER TABLE dbo.Wide ALTER COLUMN A NVARCHAR(60)")
    place.execute("ALTER TABLE dbo.Wide ALTER COLUMN B VARBINARY(20)")
    place.execute("ALTER TABLE dbo.Wide ALTER COLUMN C NVARCHAR(60)")
    _, first, second = changes(place)
    assert (first.before, first.unavailable) == ({"ID": 1, "N": 1, "C": None, "D": None}, ("A", "B"))
    assert (second.before, second.unavailable) == ({"ID": 1, "N": 2, "C": None, "D": None}, ("A", "B"))
    assert first.data == {"ID": 1, "N": 2, "A": "hello", "B": "AQ==", "C": None, "D": None}


def test_a_row_version_is_eight_bytes_that_change_with_the_row(places: Places) -> None:
    place = places()
    wide(place, "A INT, V ROWVERSION")
    place.execute("INSERT INTO dbo.Wide (ID, A) VALUES (1, 1)")
    place.execute("UPDATE dbo.Wide SET A = 2")
    first, second = (str(change.data["V"]) for change in changes(place))
    assert (len(first), first < second) == (12, True)


@pytest.fixture(scope="module")
def floats(engine: SqlEngine, server: SqlServerEmulator) -> Place:
    engine.create_database("floats")
    place = Place(Login("127.0.0.1", server.port, "sa", "test-Password-1", "floats"))
    wide(place, "F FLOAT, R REAL")
    return place


_numbers = iter(range(1, 10**9))


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.floats(allow_nan=False, allow_infinity=False, allow_subnormal=False),
    st.floats(width=32, allow_nan=False, allow_infinity=False, allow_subnormal=False),
)
def test_floats_and_reals_read_back_to_the_same_bits(floats: Place, wanted: float, real: float) -> None:
    number = next(_numbers)
    floats.execute(f"INSERT INTO dbo.Wide VALUES ({number}, {wanted:.17e}, {real:.9e})")
    data = changes(floats)[-1].data
    found, short = data["F"], data["R"]
    assert isinstance(found, float)
    assert isinstance(short, float)
    assert (found, struct.pack("<f", short)) == (wanted, struct.pack("<f", real + 0.0))


def test_keys_of_any_text_are_the_same_whoever_reads_them(places: Places) -> None:
    """The key decides the session of a change; text with blanks and capitals is not folded."""
    place = places()
    place.execute(
        "CREATE TABLE dbo.Wide (ID NVARCHAR(20), Part VARCHAR(9) COLLATE Turkish_CI_AS, CONSTRAINT K PRIMARY KEY (Part, ID))"
    )
    place.enable(table="Wide")
    place.execute("INSERT INTO dbo.Wide VALUES (N' ž ', N'ıİ')")
    (change,) = changes(place)
    assert change.key == ("ıİ", " ž ")
