"""The promises of ingester/history/rows.py beside order: what is read, when it is refused, and what is left at the server."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import count, pairwise
from typing import Any

import pymssql
import pytest

from common.errors import ConnectionLost, PermanentError, TransientError
from common.names import TableName
from emulators.sqlserver.engine.views.register import VIEWS
from emulators.sqlserver.engine.views.viewing import Viewpoint
from ingester.history.rows import Row, RowPage, RowsQuery
from ingester.sqlserver.change_table import change_table
from ingester.sqlserver.connection import Connection
from ingester.sqlserver.hints import ROWS_FILTERED
from ingester.sqlserver.history.rows import SqlServerRows
from ingester.sqlserver.sql.changes import Statement
from ingester.sqlserver.sql.history import rows as queries
from ingester.sqlserver.sql.history.base_table import SqlServerTable, masked_columns
from tests.contracts.rows.conftest import RowsPlace

_numbers = count(1)


@pytest.fixture
def name() -> str:
    """Of a table that no other test has."""
    return f"T{next(_numbers)}"


def ids(page: RowPage) -> list[object]:
    return [row.data["ID"] for row in page.rows]


def everything(place: RowsPlace, table: SqlServerTable, where: str | None = None) -> list[Row]:
    return list(place.rows.page(RowsQuery(table, 1000, where=where)).rows)


# what a row is


def test_a_row_s_values_and_key_are_those_of_its_changes(place: RowsPlace, name: str) -> None:
    place.make(
        name,
        "ID INT NOT NULL, A NVARCHAR(9) NOT NULL, B DECIMAL(9, 2) NOT NULL, C DATETIME2(7), D UNIQUEIDENTIFIER NOT NULL,"
        "E VARBINARY(9), F FLOAT, G MONEY, H BIT, I VARCHAR(MAX), J NTEXT, K ROWVERSION, L DATETIMEOFFSET(3), M XML,"
        "PRIMARY KEY (A, D, B DESC)",
    )
    place.execute(
        f"INSERT INTO dbo.{name} (ID, A, B, C, D, E, F, G, H, I, J, L, M) VALUES (1, N'x ', 1.5, '2024-02-29 12:34:56.1234567',"
        "'6F9619FF-8B86-D011-B42D-00C04FC964FF', 0x01, 0.1, 1.5, 1, 'é', N'ž', '2024-01-01 00:00 +02:00', N'<a/>'),"
        "(2, N'ž', -1, NULL, '6F9619FF-8B86-D011-B42D-00C04FC964FE', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)"
    )
    place.scan()
    changes = {change.data["ID"]: change for change in place.read(table=TableName("dbo", name))}
    rows = everything(place, place.table(name))
    assert len(rows) == 2
    for row in rows:
        change = changes[row.data["ID"]]
        assert list(row.data.items()) == list(change.data.items())
        assert row.key == change.key != ()


def test_only_captured_columns_are_sent_and_the_key_need_not_be_one(place: RowsPlace, name: str) -> None:
    place.execute(f"CREATE TABLE dbo.{name} (ID INT PRIMARY KEY, A INT, B INT, Twice AS (A * 2))")
    place.enable(table=name, captured_column_list="B, Twice", supports_net_changes="0")
    place.execute(f"INSERT INTO dbo.{name} (ID, A, B) VALUES (7, 1, 2)")
    table = place.table(name)
    page = place.rows.page(RowsQuery(table, 10))
    assert (table.order, page.unavailable) == (("ID",), ("Twice",))
    assert page.rows == [Row(at=("ID=7",), data={"B": 2}, key=())]


def test_a_table_without_rows_has_an_empty_page_no_bounds_and_an_empty_pass(place: RowsPlace, name: str) -> None:
    place.make(name, "ID INT PRIMARY KEY")
    query = RowsQuery(place.table(name), 10)
    page = place.rows.page(query)
    assert (list(page.rows), page.full, len(page.moment)) == ([], False, len("2024-01-01T00:00:00.000"))
    assert list(place.rows.bounds(query, 5)) == []
    with place.rows.in_one_pass(query) as pages:
        only = pages.next()
    assert (list(only.rows), only.full) == ([], False)


def test_about_how_many_rows_and_bytes_a_table_has(place: RowsPlace, name: str) -> None:
    place.make(name, "ID INT PRIMARY KEY")
    assert (place.table(name).rows, place.table(name).row_bytes) == (0, None)
    place.execute(f"INSERT INTO dbo.{name} VALUES (1), (2)")
    table = place.table(name)
    assert table.rows == 2
    assert table.row_bytes is None or table.row_bytes > 0


# the index that orders a table


def test_a_unique_index_stands_in_for_a_key(place: RowsPlace, name: str) -> None:
    """Not one that allows NULLs, has a filter or is not unique; of the others the narrowest."""
    place.make(name, "ID INT NULL, A NVARCHAR(20) NOT NULL, B INT NOT NULL, C BIGINT NOT NULL")
    place.execute(f"CREATE UNIQUE INDEX Nullable ON dbo.{name} (ID)")
    place.execute(f"CREATE UNIQUE INDEX Filtered ON dbo.{name} (B) WHERE B > 5")
    place.execute(f"CREATE INDEX Plain ON dbo.{name} (B)")
    assert place.table(name).order == ()
    place.execute(f"CREATE UNIQUE INDEX Wide ON dbo.{name} (A)")
    assert place.table(name).order == ("A",)
    place.execute(f"CREATE UNIQUE INDEX Narrow ON dbo.{name} (C, B DESC) INCLUDE (A)")
    assert place.table(name).order == ("C", "B")


def test_the_index_that_capture_identifies_rows_by_comes_before_the_primary_key(place: RowsPlace, name: str) -> None:
    place.execute(f"CREATE TABLE dbo.{name} (ID INT PRIMARY KEY, Code NVARCHAR(20) NOT NULL)")
    place.execute(f"CREATE UNIQUE INDEX Codes ON dbo.{name} (Code)")
    place.enable(table=name, index_name="Codes")
    place.execute(f"INSERT INTO dbo.{name} VALUES (1, N'b'), (2, N'a')")
    table = place.table(name)
    assert table.order == ("Code",)
    assert [(row.data["ID"], row.key) for row in everything(place, table)] == [(2, ("a",)), (1, ("b",))]


def test_a_table_without_an_order_is_read_in_one_pass(place: RowsPlace, name: str) -> None:
    place.make(name, "ID INT NULL")
    place.execute(f"INSERT INTO dbo.{name} VALUES (1), (2), (2), (NULL), (5)")
    table = place.table(name)
    found: list[Row] = []
    with place.rows.in_one_pass(RowsQuery(table, 2, where="ID IS NULL OR ID < 5")) as pages:
        while True:
            page = pages.next()
            assert len(page.rows) <= 2
            found += page.rows
            if not page.full:
                break
    assert sorted((str(row.data["ID"]), row.at, row.key) for row in found) == [
        (text, (), ()) for text in ("1", "2", "2", "None")
    ]
    assert page.moment
    with pytest.raises(PermanentError, match="its rows have no order"):
        place.rows.page(RowsQuery(table, 2))


def test_a_pass_that_is_left_holds_nothing_at_the_server(place: RowsPlace, name: str) -> None:
    place.make(name, "ID INT NULL, Filler NVARCHAR(MAX)")
    for number in range(20):
        place.execute(f"INSERT INTO dbo.{name} VALUES ({number}, REPLICATE(CAST(N'x' AS NVARCHAR(MAX)), 20000))")
    with place.rows.in_one_pass(RowsQuery(place.table(name), 2)) as pages:
        assert len(pages.next().rows) == 2
    place.execute(f"SET LOCK_TIMEOUT 2000; ALTER TABLE dbo.{name} ADD More INT NULL")
    assert place.connection.rows("SELECT 1") == [(1,)]


def test_a_pass_whose_statement_was_ended_never_looks_whole(place: RowsPlace, name: str) -> None:
    """The driver cancels a statement when another one is sent on its connection."""
    place.make(name, "ID INT NULL")
    place.execute(f"INSERT INTO dbo.{name} VALUES (1), (2), (3)")
    with place.rows.in_one_pass(RowsQuery(place.table(name), 2)) as pages:
        assert len(pages.next().rows) == 2
        assert place.connection.rows("SELECT 1") == [(1,)]
        with pytest.raises(TransientError):
            pages.next()


# pages


def test_a_page_ends_when_its_rows_are_wide_and_its_statement_with_it(place: RowsPlace, name: str) -> None:
    place.make(name, "ID INT PRIMARY KEY, Filler NVARCHAR(MAX)")
    for number in range(10):
        place.execute(f"INSERT INTO dbo.{name} VALUES ({number}, REPLICATE(CAST(N'x' AS NVARCHAR(MAX)), 30000))")
    narrow = SqlServerRows(place.connection, decimals_as_numbers=False, page_bytes=170_000)
    table = place.table(name)
    first = narrow.page(RowsQuery(table, 100))
    assert (ids(first), first.full, bool(first.moment)) == ([0, 1, 2], True, True)
    second = narrow.page(RowsQuery(table, 100, after=first.rows[-1].at))
    assert ids(second) == [3, 4, 5]
    place.execute(f"SET LOCK_TIMEOUT 2000; ALTER TABLE dbo.{name} ADD More INT NULL")


def test_rows_that_come_and_go_between_pages_move_no_others(place: RowsPlace, name: str) -> None:
    place.make(name, "ID INT PRIMARY KEY")
    place.execute(f"INSERT INTO dbo.{name} VALUES (10), (20), (30), (40), (50)")
    table = place.table(name)
    first = place.rows.page(RowsQuery(table, 2))
    place.execute(f"INSERT INTO dbo.{name} VALUES (5), (25)")
    place.execute(f"DELETE FROM dbo.{name} WHERE ID IN (20, 40)")
    second = place.rows.page(RowsQuery(table, 10, after=first.rows[-1].at))
    assert (ids(first), ids(second)) == ([10, 20], [25, 30, 50])


# a table that is altered meanwhile


def test_columns_that_change_are_read_as_they_are_now(place: RowsPlace, name: str) -> None:
    place.make(name, "ID INT PRIMARY KEY, A NVARCHAR(5), B INT, C INT")
    place.execute(f"INSERT INTO dbo.{name} VALUES (1, N'a', 2, 3)")
    table = place.table(name)
    place.execute(f"ALTER TABLE dbo.{name} DROP COLUMN B")
    place.execute(f"ALTER TABLE dbo.{name} ADD B NVARCHAR(9) NULL, D INT NULL")
    place.execute(f"ALTER TABLE dbo.{name} ALTER COLUMN A NVARCHAR(MAX)")
    place.execute(f"UPDATE dbo.{name} SET A = REPLICATE(CAST(N'a' AS NVARCHAR(MAX)), 9000), B = N'new'")
    page = place.rows.page(RowsQuery(table, 10))
    assert page.rows[0].data == {"ID": 1, "A": "a" * 9000, "C": 3}
    assert page.unavailable == ("B",)
    assert list(place.rows.bounds(RowsQuery(table, 10), 5)) == []
    with place.rows.in_one_pass(RowsQuery(table, 2)) as pages:
        assert pages.next().rows[0].data == page.rows[0].data


def test_a_column_whose_new_type_is_not_converted_as_the_old_one_was_is_read(place: RowsPlace, name: str) -> None:
    """A datetimeoffset has more bytes than the datetime2 for which the statement was written."""
    place.make(name, "ID INT PRIMARY KEY, A DATETIME2(3) NULL")
    place.execute(f"INSERT INTO dbo.{name} VALUES (1, '2020-01-02 03:04:05.678')")
    table = place.table(name)
    place.execute(f"ALTER TABLE dbo.{name} ALTER COLUMN A DATETIMEOFFSET(7) NULL")
    page = place.rows.page(RowsQuery(table, 10))
    assert page.rows[0].data == {"ID": 1, "A": "2020-01-02T03:04:05.6780000+00:00"}


@pytest.mark.parametrize("type_", ["DATETIMEOFFSET(7)", "DATETIME"])
def test_a_pass_whose_statement_is_compiled_after_an_alter_is_begun_again(
    place: RowsPlace, name: str, monkeypatch: pytest.MonkeyPatch, type_: str
) -> None:
    """Its first stamp may have been read before: neither an error of the conversion nor bytes of another type are for good then."""
    place.make(name, "A DATETIME2(3) NULL")
    place.execute(f"INSERT INTO dbo.{name} VALUES ('2020-01-02 03:04:05.678')")
    table = place.table(name)
    place.execute(f"ALTER TABLE dbo.{name} ALTER COLUMN A {type_} NULL")
    monkeypatch.setattr(SqlServerRows, "_of", lambda self, query, read: query.table)
    altered = pytest.raises(TransientError, match="altered while it was read in one pass")
    with altered, place.rows.in_one_pass(RowsQuery(table, 2)) as pages:
        more = pages._more  # type: ignore[attr-defined]

        def before(enough: Callable[[tuple[Any, ...]], bool]) -> tuple[list[tuple[Any, ...]], bool]:
            rows, whole = more(enough)
            return [(row[0], table.stamp, *row[2:]) if row[0] == queries.END else row for row in rows], whole

        pages._more = before  # type: ignore[attr-defined]
        pages.next()


def test_a_table_that_keeps_changing_is_transient(place: RowsPlace, name: str) -> None:
    place.make(name, "ID INT PRIMARY KEY, A INT")
    table = replace(place.table(name), stamp="another")
    found = place.rows._table

    def altered(instance: object) -> SqlServerTable:
        return replace(found(table.instance), stamp="again another")  # type: ignore[arg-type]

    place.rows._table = altered  # type: ignore[method-assign]
    try:
        with pytest.raises(TransientError, match="keep changing"):
            place.rows.page(RowsQuery(table, 10))
    finally:
        del place.rows._table


def test_another_order_is_noticed_and_never_gone_on_in(place: RowsPlace, name: str) -> None:
    """Both keys are one number: only the name says that they are not the same."""
    place.make(name, "A INT NOT NULL, B INT NOT NULL")
    place.execute(f"CREATE UNIQUE INDEX One ON dbo.{name} (A)")
    place.execute(f"INSERT INTO dbo.{name} VALUES (1, 3), (2, 2), (3, 1)")
    table = place.table(name)
    first = place.rows.page(RowsQuery(table, 2))
    place.execute(f"DROP INDEX One ON dbo.{name}")
    place.execute(f"CREATE UNIQUE INDEX Two ON dbo.{name} (B)")
    with pytest.raises(PermanentError, match="are now in the order of B, and the snapshot was begun in another"):
        place.rows.page(RowsQuery(table, 2, after=first.rows[-1].at))
    place.execute(f"DROP INDEX Two ON dbo.{name}")
    with pytest.raises(PermanentError, match="its rows have no order"):
        place.rows.bounds(RowsQuery(table, 2), 5)


def test_a_table_that_is_gone_is_transient_and_one_that_was_renamed_is_read(place: RowsPlace, name: str) -> None:
    place.make(name, "ID INT PRIMARY KEY")
    place.execute(f"INSERT INTO dbo.{name} VALUES (1)")
    table = place.table(name)
    place.execute(f"EXEC sp_rename N'dbo.{name}', N'{name}_old'")
    assert ids(place.rows.page(RowsQuery(table, 9))) == [1]
    place.execute(f"DROP TABLE dbo.{name}_old")
    with pytest.raises(TransientError, match="no longer exists"):
        place.rows.page(RowsQuery(table, 9))


# locks


def test_rows_that_another_session_holds_are_waited_for_and_then_transient(
    place: RowsPlace, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queries, "_WAIT", "SET LOCK_TIMEOUT 50")
    place.make(name, "ID INT PRIMARY KEY")
    place.execute(f"INSERT INTO dbo.{name} VALUES (1), (2)")
    table = place.table(name)
    other = place.login.connect()
    cursor = other.cursor()
    cursor.execute("BEGIN TRAN")
    cursor.execute(f"SELECT * FROM dbo.{name} WITH (TABLOCKX)")
    cursor.fetchall()
    query = RowsQuery(table, 1)
    with pytest.raises(TransientError, match=f"reading dbo.{name}: another session holds rows of it") as caught:
        place.rows.page(query)
    assert "sys.dm_tran_locks" in str(caught.value.hint)
    with pytest.raises(TransientError, match="another session holds rows"):
        place.rows.bounds(query, 1)
    with pytest.raises(TransientError, match="another session holds rows"), place.rows.in_one_pass(query) as pages:
        pages.next()
    cursor.execute("ROLLBACK")
    other.close()
    assert ids(place.rows.page(query)) == [1]
    lock_timeout = place.connection.rows("SELECT @@LOCK_TIMEOUT")[0][0]
    assert lock_timeout == 10_000  # the session's own, as it was


# conditions


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("Country = N'DE' AND Age > 18", [1]),
        ("[Country] IN (N'DE', N'it''s') OR \"Age\" IS NULL", [1, 2, 3]),
        ("Country LIKE N'%;--SELECT%' OR (Age BETWEEN 1 AND 5)", [4]),
        ("CASE WHEN Age > 18 THEN 1 ELSE 0 END = 1", [1]),
        ("\n ct.Age = 18 \n", [2]),
        ("LEN(Country) > 3 AND NOT (Age > 18)", [4]),
    ],
)
def test_a_condition_chooses_rows(people: RowsPlace, where: str, expected: list[int]) -> None:
    table = people.table("People")
    people.rows.check(table, where)
    assert [row.data["ID"] for row in everything(people, table, where)] == expected
    keys = [row.at for row in everything(people, table, where)]
    assert list(people.rows.bounds(RowsQuery(table, 1, where=where), 10)) == keys[:-1]
    with people.rows.in_one_pass(RowsQuery(table, 9, where=where)) as pages:
        assert ids(pages.next()) == expected


@pytest.fixture(scope="module")
def people(place: RowsPlace) -> RowsPlace:
    place.make("People", "ID INT PRIMARY KEY, Country NVARCHAR(50), Age INT")
    place.execute(
        "INSERT INTO dbo.People VALUES (1, N'DE', 19), (2, N'DE', 18), (3, N'it''s', NULL), (4, N'a;--SELECT', 3)"
    )
    return place


@pytest.mark.parametrize(
    "where",
    [
        *("", "Age", "Nobody = 1", "Age > 'x' +", "Age >", "Age = 1 Country = N'x'", "Age > 1, 2", "1 = 1) OR (1 = 1"),
        *("Age = 1; DELETE FROM dbo.People", "Age IN (SELECT Age FROM dbo.People)", "Age = 1 -- x", "Age = /* */ 1"),
        *("Age = @p1", "Age = 1) OR (1 = 1", "EXISTS (SELECT 1)"),
    ],
)
def test_what_is_not_one_condition_is_refused(people: RowsPlace, where: str) -> None:
    table = people.table("People")
    with pytest.raises(PermanentError, match=r"the condition for dbo\.People is refused") as caught:
        people.rows.check(table, where)
    assert caught.value.hint is not None
    assert len(everything(people, table)) == 4


@pytest.mark.parametrize("number", [601, 701, 802, 824, 1105, 1204, 1205, 1222, 3960, 8628, 8645, 8651, 9002])
def test_a_server_in_trouble_refuses_no_condition(
    people: RowsPlace, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    table = people.table("People")
    failing(people, monkeypatch, number, times=1)
    with pytest.raises(TransientError) as caught:
        people.rows.check(table, "Age > 18")
    assert "is refused" not in caught.value.message
    people.rows.check(table, "Age > 18")


@pytest.mark.parametrize("number", [102, 4145, 50000])
def test_an_error_that_no_list_has_is_about_the_condition(
    people: RowsPlace, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    table = people.table("People")
    failing(people, monkeypatch, number, times=1)
    with pytest.raises(PermanentError, match=r"is refused: .*as the server says it"):
        people.rows.check(table, "Age > 18")


def test_an_index_that_was_dropped_refuses_no_condition(people: RowsPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    table = replace(people.table("People"), index="gone")
    failing(people, monkeypatch, 308, times=1)
    people.rows.check(table, "Age > 18")


def failing(place: RowsPlace, monkeypatch: pytest.MonkeyPatch, number: int, times: int) -> None:
    """The next `times` conditions that the server compiles fail with error `number`."""
    rows, left = place.connection.rows, [number] * times

    def answered(sql: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        if "AS found FROM" in sql and left:
            cause = pymssql.OperationalError((left.pop(), b"as the server says it"))
            raise place.connection.translate(cause) from cause
        return rows(sql, parameters)

    monkeypatch.setattr(place.connection, "rows", answered)


def test_a_condition_is_checked_again_at_every_use(people: RowsPlace) -> None:
    query = RowsQuery(people.table("People"), 9, where="1 = 1) DELETE FROM dbo.People WHERE (1 = 1")
    with pytest.raises(PermanentError, match="is refused"):
        people.rows.page(query)
    with pytest.raises(PermanentError, match="is refused"):
        people.rows.bounds(query, 1)
    with pytest.raises(PermanentError, match="is refused"), people.rows.in_one_pass(query):
        pass
    assert len(everything(people, people.table("People"))) == 4


def test_a_condition_that_takes_long_to_find_rows_leaves_the_bounds_to_all_rows(
    people: RowsPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No statement then reads more than a chunk's share of the table, so each ends in time."""
    table, asked = people.table("People"), []
    batch = people.connection.batch

    def late(statements: Sequence[Statement], *, within: float | None = None) -> list[list[tuple[Any, ...]]]:
        if within is None:
            return batch(statements)
        asked.append(within)
        raise ConnectionLost("no answer in time")

    monkeypatch.setattr(people.connection, "batch", late)
    query = RowsQuery(table, 1, where="Age = 3")
    cuts = people.rows.bounds(query, 10)
    assert list(cuts) == [("ID=1",), ("ID=2",), ("ID=3",)]
    assert people.rows.bounds(query, 10) == cuts
    assert len(asked) == 1
    pages = [people.rows.page(replace(query, after=low, upto=high)) for low, high in pairwise([None, *cuts, None])]
    assert [ids(page) for page in pages] == [[], [], [], [4]]


def test_a_condition_on_a_column_that_was_dropped_is_permanent(place: RowsPlace, name: str) -> None:
    place.make(name, "ID INT PRIMARY KEY, A INT")
    table = place.table(name)
    place.rows.check(table, "A = 1")
    place.execute(f"ALTER TABLE dbo.{name} DROP COLUMN A")
    with pytest.raises(PermanentError, match=rf"the condition for dbo\.{name} is refused: .*Invalid column name 'A'"):
        place.rows.page(RowsQuery(table, 9, where="A = 1"))


def test_a_condition_that_cannot_be_computed_for_a_row_is_permanent(people: RowsPlace) -> None:
    table = people.table("People")
    people.rows.check(table, "CONVERT(int, Country) = 1")
    with pytest.raises(PermanentError, match="the server cannot compute it for a row"):
        people.rows.page(RowsQuery(table, 9, where="CONVERT(int, Country) = 1"))


# what changed since


def test_the_keys_that_changed_since_a_position(place: RowsPlace, name: str) -> None:
    place.make(name, "Code NVARCHAR(9) NOT NULL PRIMARY KEY, A INT")
    place.execute(f"INSERT INTO dbo.{name} VALUES (N'one', 1), (N'two', 1), (N'three', 1)")
    place.scan()
    table = place.table(name)
    position = place.read(table=TableName("dbo", name))[-1].position
    place.execute(f"UPDATE dbo.{name} SET Code = N'zwei' WHERE Code = N'two'")
    place.execute(f"UPDATE dbo.{name} SET Code = N'ONE' WHERE Code = N'one'")
    moment = place.rows.page(RowsQuery(table, 1)).moment
    assert place.rows.changed_since(table, position, moment) is None
    time.sleep(0.02)
    place.execute(f"DELETE FROM dbo.{name} WHERE Code = N'three'")
    place.scan()
    keys = ("two", "zwei", "one", "ONE", "three")
    assert place.rows.changed_since(table, position, moment) == frozenset((key,) for key in keys)


def test_more_keys_than_fit_in_memory_wait_for_the_stream(place: RowsPlace, name: str) -> None:
    place.make(name, "ID INT PRIMARY KEY, A INT")
    place.scan()
    table = place.table(name)
    place.execute(f"INSERT INTO dbo.{name} VALUES (1, 1), (2, 1), (3, 1)")
    place.execute(f"UPDATE dbo.{name} SET A = 2")
    moment = place.rows.page(RowsQuery(table, 1)).moment
    time.sleep(0.02)
    place.execute(f"INSERT INTO dbo.{name} VALUES (4, 1)")
    place.scan()
    rows = {most: SqlServerRows(place.connection, decimals_as_numbers=False, changed_keys=most) for most in (3, 4)}
    assert rows[4].changed_since(table, table.instance.start, moment) == frozenset((number,) for number in range(1, 5))
    with pytest.raises(TransientError, match=r"more than 3 of its rows changed after .*, the stream has not caught up"):
        rows[3].changed_since(table, table.instance.start, moment)
    position = place.read(table=TableName("dbo", name))[2].position
    assert rows[4].changed_since(table, position, moment) is not None


def test_a_database_without_changes_does_not_wait_for_ever(place: RowsPlace, name: str) -> None:
    """The view has one row for all scans that found nothing since the last transaction."""
    place.make(name, "ID INT PRIMARY KEY")
    place.execute(f"INSERT INTO dbo.{name} VALUES (1)")
    place.scan()
    table = place.table(name)
    position = place.read(table=TableName("dbo", name))[-1].position
    place.scan()
    moment = place.rows.page(RowsQuery(table, 1)).moment
    time.sleep(0.02)
    answers = []
    for _ in range(4):
        answers.append(place.rows.changed_since(table, position, moment))
        place.scan()
    assert answers[0] is None
    assert answers[-1] == frozenset()


def test_without_a_key_nothing_says_what_changed(place: RowsPlace, name: str) -> None:
    place.make(name, "ID INT NULL")
    table = place.table(name)
    with pytest.raises(PermanentError, match="has no key, so a snapshot of it cannot be exact"):
        place.rows.changed_since(table, table.instance.start, "2024-01-01T00:00:00.000")


def test_keys_of_columns_that_the_login_does_not_see_are_not_guessed(place: RowsPlace, name: str) -> None:
    place.make(name, "ID INT PRIMARY KEY")
    seen = place.table(name)
    assert isinstance(seen, SqlServerTable)
    table = replace(seen, instance=replace(change_table(seen.instance), types_known=False))
    with pytest.raises(PermanentError, match="may not see the columns of its change table"):
        place.rows.changed_since(table, seen.instance.start, "2024-01-01T00:00:00.000")


# rights


def test_a_login_that_would_be_shown_masked_values_is_told_what_to_grant(place: RowsPlace, name: str) -> None:
    """The emulator has no masks: the catalog's answer is what is played here."""
    place.make(name, "ID INT PRIMARY KEY, Email NVARCHAR(50)")
    known = place.table(name).columns
    assert masked_columns(known, ()) == ()
    masked = [replace(column, masked=True) for column in known]
    assert masked_columns([*masked, replace(masked[0], captured=None, name="Left")], ()) == ("ID", "Email")
    user = f"masked_{place.login.database}"
    place.execute(f"CREATE LOGIN {user} WITH PASSWORD = N'Reader-Password-1'")
    place.execute(f"CREATE USER masked FOR LOGIN {user}")
    place.execute(f"GRANT SELECT ON OBJECT::dbo.{name} TO masked")
    address = RowsPlace.address_of(replace(place.login, user=user, password="Reader-Password-1"))
    reader = SqlServerRows(Connection(address), decimals_as_numbers=False)
    with pytest.raises(PermanentError, match="the server masks Email for this login") as caught:
        reader._refuse_masked(TableName("dbo", name), ["Email"])
    assert caught.value.hint == "GRANT UNMASK to the login's user"
    place.rows._refuse_masked(TableName("dbo", name), ["Email"])
    reader.close()


@pytest.mark.parametrize(
    ("kind", "enabled", "of_this_table", "refused"),
    [(0, 1, True, True), (1, 1, True, False), (0, 0, True, False), (0, 1, False, False)],
    ids=["filter", "block", "disabled", "of another table"],
)
def test_a_table_whose_rows_a_security_policy_hides_is_refused(
    place: RowsPlace,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
    *,
    kind: int,
    enabled: int,
    of_this_table: bool,
    refused: bool,
) -> None:
    """The emulator has no policies: the catalog's rows are played here, a policy with filters of two operations."""
    place.make(name, "ID INT PRIMARY KEY")
    target = place.table(name).object_id if of_this_table else 1
    policy = ("ByTenant", 77, None, 1, 0, "SP", "SECURITY_POLICY", None, None, 0, enabled, 0, 0, 1)
    predicates = [(77, number, target, "([dbo].[seen]([ID]))", kind, "", None, None) for number in (1, 2)]
    for view, rows in (("sys.security_policies", [policy]), ("sys.security_predicates", predicates)):
        monkeypatch.setitem(VIEWS, view, (VIEWS[view][0], playing(rows)))
    if not refused:
        place.table(name)
        return
    with pytest.raises(PermanentError, match=r"the security policy dbo\.ByTenant hides rows of the table") as caught:
        place.table(name)
    assert caught.value.hint == ROWS_FILTERED


def playing(rows: Sequence[tuple[Any, ...]]) -> Callable[[Viewpoint], Iterator[tuple[Any, ...]]]:
    return lambda _: iter(rows)


def test_a_login_that_may_read_changes_but_not_the_table_is_told_what_to_grant(place: RowsPlace, name: str) -> None:
    place.make(name, "ID INT PRIMARY KEY, A INT")
    place.execute(f"INSERT INTO dbo.{name} VALUES (1, 2)")
    user = f"reader_{place.login.database}"
    place.execute(f"CREATE LOGIN {user} WITH PASSWORD = N'Reader-Password-1'")
    place.execute(f"CREATE USER reader FOR LOGIN {user}")
    place.execute("GRANT SELECT ON SCHEMA::cdc TO reader")
    address = RowsPlace.address_of(replace(place.login, user=user, password="Reader-Password-1"))
    reader = SqlServerRows(Connection(address), decimals_as_numbers=False)
    hint = rf"GRANT SELECT ON OBJECT::\[dbo\]\.\[{name}\]"
    with pytest.raises(PermanentError, match=hint):
        reader.page(RowsQuery(place.table(name), 9))
    with pytest.raises(PermanentError, match=hint):
        reader.table(replace(place.instance(TableName("dbo", name)), source=""))
    place.execute(f"GRANT SELECT ON OBJECT::dbo.{name} TO reader")
    table = reader.table(place.instance(TableName("dbo", name)))
    assert (table.rows, table.row_bytes) == (1, None)
    assert ids(reader.page(RowsQuery(table, 9))) == [1]
    reader.close()
