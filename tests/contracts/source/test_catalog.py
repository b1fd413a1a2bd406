"""Which tables and capture instances there are: names as the database compares them, instances that come and go."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from common.errors import PermanentError, TransientError
from common.names import TableName, quote_name
from dstream.emulators import Login
from emulators.sqlserver.server import SqlServerEmulator
from ingester.change import Change
from ingester.position import Position
from ingester.source import CaptureInstance, PageQuery, ProbeRequest
from ingester.sqlserver.catalog.instances import catalog_rows, instances
from ingester.sqlserver.position import LogPosition, in_the_log
from ingester.sqlserver.sql import changes as queries
from ingester.window import probe_request, window
from tests.conftest import PASSWORD, USER
from tests.contracts.source.conftest import Places
from tests.contracts.source.test_source import PERSONS, Place
from tests.worlds.databases import drop

MODES = ["direct", "function"]


class Database:
    """A database of some collation under CDC, and the product's reader in it."""

    def __init__(self, server: SqlServerEmulator, name: str, collation: str) -> None:
        master = Login("127.0.0.1", server.port, USER, PASSWORD, "master")
        with master.connect() as client, client.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE {name} COLLATE {collation}")
        self.place = Place(Login("127.0.0.1", server.port, USER, PASSWORD, name))


@pytest.fixture
def binary(sqlserver: SqlServerEmulator) -> Iterator[Place]:
    made = Database(sqlserver, "bin2", "Latin1_General_BIN2").place
    yield made
    made.execute("EXEC sys.sp_cdc_disable_db")
    made.close()
    _drop(sqlserver, "bin2")


@pytest.fixture
def turkish(sqlserver: SqlServerEmulator) -> Iterator[Place]:
    made = Database(sqlserver, "turk", "Turkish_CI_AS").place
    yield made
    made.execute("EXEC sys.sp_cdc_disable_db")
    made.close()
    _drop(sqlserver, "turk")


def _drop(server: SqlServerEmulator, name: str) -> None:
    with Login("127.0.0.1", server.port, USER, PASSWORD, "master").connect() as client, client.cursor() as cursor:
        drop(cursor, name)


def test_tables_that_differ_in_case_alone_keep_their_own_instances_where_case_matters(binary: Place) -> None:
    upper, lower, other = (TableName("dbo", name) for name in ("Items", "items", "ITEMS"))
    for name, length in (("Items", 1), ("items", 2)):
        binary.execute(f"CREATE TABLE dbo.{name} (ID INT PRIMARY KEY, C{length} INT)")
        binary.enable(table=name)
    states = binary.source.states([upper, lower, other])
    assert [[i.table for i in states[t].instances] for t in (upper, lower, other)] == [[upper], [lower], []]
    assert [states[t].exists for t in (upper, lower, other)] == [True, True, False]
    binary.execute("INSERT INTO dbo.items VALUES (7, 7)")
    binary.scan()
    assert binary.read(table=upper) == []
    assert [dict(c.data) for c in binary.read(table=lower)] == [{"ID": 7, "C2": 7}]


def test_the_turkish_i_is_compared_as_the_database_does(turkish: Place) -> None:
    """There, i and I are different letters: `items` is not `Items`, whatever Python's lower() says."""
    turkish.execute("CREATE TABLE dbo.Items (ID INT PRIMARY KEY)")
    turkish.enable(table="Items")
    same, other = TableName("dbo", "ITEMS"), TableName("dbo", "İtems")
    turkish.execute("INSERT INTO dbo.Items VALUES (1)")
    states = turkish.source.states([same, other])
    assert [i.table.table for i in states[same].instances] == ["Items"]
    assert states[other].exists is False


ODD_NAMES = [
    *("it's", "with space", " a", "odd#$", "100%s %(x)s %d", "a.b.c", "a]b[c", 'say "hi"', "select", "[dbo]", "x;--"),
    *("žluťoučký 馬", "🐎", "a" * 92, "N'x'", "tab\tname", "back\\slash", "{0}"),
]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ODD_NAMES)
def test_odd_names_of_tables_columns_and_instances_are_read(places: Places, name: str, mode: str) -> None:
    place = places(query_mode=mode)
    table, column = TableName("odd " + name[:80], name), quote_name(name)
    literal = name.replace("'", "''")
    place.execute(f"CREATE SCHEMA {quote_name(table.schema)}")
    place.execute(f"CREATE TABLE {table.quoted} (ID INT PRIMARY KEY, {column} NVARCHAR(9))")
    place.enable(table.schema.replace("'", "''"), literal, capture_instance=literal)
    place.execute(f"INSERT INTO {table.quoted} VALUES (1, N'%s')")
    place.execute(f"UPDATE {table.quoted} SET {column} = N'''x'")
    place.scan()
    found = place.read(1, table)
    assert [c.data[name] for c in found] == ["%s", "'x"]
    assert found[1].changed_columns == (name,)
    assert {c.table for c in found} == {table}


@pytest.mark.parametrize("mode", MODES)
def test_names_of_128_characters_are_read(places: Places, mode: str) -> None:
    place = places(query_mode=mode)
    table, column = TableName("s" * 128, "t" * 128), "c" * 128
    place.execute(f"CREATE SCHEMA {table.schema}")
    place.execute(f"CREATE TABLE {table.quoted} (ID INT PRIMARY KEY, {column} INT)")
    place.enable(table.schema, table.table, capture_instance="i" * 100)
    place.execute(f"INSERT INTO {table.quoted} VALUES (1, 2)")
    place.scan()
    assert [dict(c.data) for c in place.read(table=table)] == [{"ID": 1, column: 2}]


@pytest.mark.parametrize("mode", MODES)
def test_a_table_without_a_key_is_read_and_its_changes_have_none(places: Places, mode: str) -> None:
    place = places(query_mode=mode)
    heap = TableName("dbo", "Heap")
    place.execute("CREATE TABLE dbo.Heap (A INT, B NVARCHAR(9))")
    place.enable(table="Heap")
    place.execute("INSERT INTO dbo.Heap VALUES (1, N'x'), (1, N'x'), (NULL, NULL)")
    place.execute("UPDATE dbo.Heap SET B = N'y' WHERE A = 1")
    place.execute("DELETE FROM dbo.Heap")
    place.scan()
    found = place.read(2, heap)
    assert [c.operation.name for c in found] == ["INSERT"] * 3 + ["UPDATE"] * 2 + ["DELETE"] * 3
    assert {c.key for c in found} == {()}


def test_a_thousand_names_are_one_question(places: Places) -> None:
    place = places()
    names = [TableName("dbo", f"Nobody{n}") for n in range(1000)]
    states = place.source.states([*names, PERSONS])
    assert states[PERSONS].exists
    assert not any(states[name].exists for name in names)


@pytest.mark.parametrize("mode", MODES)
def test_a_probe_of_many_tables_answers_for_each(places: Places, mode: str) -> None:
    place = places(query_mode=mode)
    names = [TableName("dbo", f"T{n}") for n in range(queries.TABLES_A_STATEMENT + 5)]
    for name in names:
        place.execute(f"CREATE TABLE {name.quoted} (ID INT PRIMARY KEY)")
        place.enable(table=name.table)
    busy = {names[0], names[99], names[100], names[-1]}
    for name in busy:
        place.execute(f"INSERT INTO {name.quoted} VALUES (1)")
    place.scan()
    states = place.source.states(names)
    probe = place.source.probe([ProbeRequest(states[name].instances[0], None) for name in names])
    assert {name for name in names if probe.answers[f"dbo_{name.table}"].pending} == busy


# capture instances that come and go


@pytest.mark.parametrize("mode", MODES)
def test_a_probe_says_when_an_instance_was_made_since_the_catalog_was_read(places: Places, mode: str) -> None:
    place = places(query_mode=mode)
    request = [ProbeRequest(place.instance(), None)]
    assert place.source.probe(request).stale is False
    place.enable(capture_instance="second")
    assert place.source.probe(request).stale is True
    place.source.states([PERSONS])
    assert place.source.probe(request).stale is False


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "gone",
    [
        "DROP TABLE dbo.Persons",
        "EXEC sys.sp_cdc_disable_table N'dbo', N'Persons', N'all'",
        "EXEC sys.sp_cdc_disable_db",
    ],
)
def test_an_instance_that_is_gone_has_no_answer_and_no_page_and_stops_nobody(
    places: Places, gone: str, mode: str
) -> None:
    place = places(query_mode=mode)
    place.execute("INSERT INTO dbo.Persons (ID) VALUES (1)")
    place.scan()
    instance = place.instance()
    upto = LogPosition.end_of(in_the_log(place.read()[0].position).lsn)
    place.execute(gone)
    probe = place.source.probe([ProbeRequest(instance, None)])
    assert (probe.answers, probe.stale) == ({}, True)
    with pytest.raises(TransientError, match="dbo_Persons no longer exists; DStream looks for its table again"):
        place.source.page(PageQuery(instance, after=instance.start, upto=upto, rows=5))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("scope", ["table", "database", "dropped"])
def test_a_table_that_was_away_begins_above_its_offset_so_that_the_gap_is_told(
    places: Places, scope: str, mode: str
) -> None:
    place = places(query_mode=mode)
    place.execute("INSERT INTO dbo.Persons (ID) VALUES (1)")
    place.scan()
    offset = place.read()[-1].position
    if scope == "table":
        place.execute("EXEC sys.sp_cdc_disable_table N'dbo', N'Persons', N'all'")
    elif scope == "database":
        place.execute("EXEC sys.sp_cdc_disable_db")
        place.execute("EXEC sys.sp_cdc_enable_db")
    else:
        place.execute("DROP TABLE dbo.Persons")
        place.execute("CREATE TABLE dbo.Persons (ID INT PRIMARY KEY)")
    place.enable()
    place.execute("INSERT INTO dbo.Persons (ID) VALUES (2)")
    place.scan()
    probe = place.source.probe([ProbeRequest(place.instance(), offset)])
    low = probe.answers["dbo_Persons"].low_watermark
    assert low is not None
    assert offset < low


def follow(
    place: Place, after: Position | None, rows: int
) -> tuple[list[tuple[str, dict[str, object]]], Position | None]:
    """What the driver and a worker read until nothing is left: (capture instance, row), and the offset then."""
    told: list[tuple[str, dict[str, object]]] = []
    while True:
        instances = place.source.states([PERSONS])[PERSONS].instances
        request = probe_request(instances, after)
        probe = place.source.probe([request])
        chosen = window(instances, after, probe.upto)
        assert chosen.upto is not None
        at, before = after or chosen.instance.start, len(told)
        while at < chosen.upto:
            page = place.source.page(PageQuery(chosen.instance, after=at, upto=chosen.upto, rows=rows))
            told += [(c.capture_instance, dict(c.data)) for c in page.changes]
            if page.end is None or not page.full:
                break
            at = page.end
        assert probe.answers[request.instance.name].pending is (len(told) > before)
        after = chosen.upto
        if not chosen.hands_over:
            return told, after


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("rows", [1, 2, 3, 100])
def test_each_instance_takes_over_at_its_start_without_gap_or_duplicate(places: Places, rows: int, mode: str) -> None:
    """Three in a row over time, with a column that came and one that went; read late, or in between."""
    for early in (False, True):
        place = places(query_mode=mode)
        told: list[tuple[str, dict[str, object]]] = []
        after: Position | None = None
        place.execute("INSERT INTO dbo.Persons (ID) VALUES (1), (2)")
        place.execute("ALTER TABLE dbo.Persons ADD Age INT NULL")
        place.execute("INSERT INTO dbo.Persons (ID, Age) VALUES (3, 30)")
        place.enable(capture_instance="second")
        place.execute("INSERT INTO dbo.Persons (ID, Age) VALUES (4, 40), (5, 50)")
        place.scan()
        if early:
            told, after = follow(place, after, rows)
            assert after is not None
            place.execute("EXEC sys.sp_cdc_disable_table N'dbo', N'Persons', N'dbo_Persons'")
            place.execute("ALTER TABLE dbo.Persons DROP COLUMN Bio")
            place.enable(capture_instance="third")
        place.execute("INSERT INTO dbo.Persons (ID, Age) VALUES (6, 60), (7, 70)")
        place.scan()
        more, _ = follow(place, after, rows)
        told += more
        last = "third" if early else "second"
        names = ["dbo_Persons"] * 3 + ["second"] * 2 + [last] * 2
        assert [(name, row["ID"], row.get("Age")) for name, row in told] == [
            (name, n, n * 10 if name != "dbo_Persons" else None) for n, name in enumerate(names, 1)
        ]
        assert [set(row) for _, row in told[5:]] == [
            {"ID", "Name", "Age"} if early else {"ID", "Name", "Bio", "Age"}
        ] * 2


def test_an_instance_that_starts_inside_a_running_transaction_takes_the_whole_of_it_over(places: Places) -> None:
    """It starts at an LSN of the log, and a transaction is where it commits: no transaction is ever split between two."""
    place = places()
    place.execute("INSERT INTO dbo.Persons (ID) VALUES (1)")
    place.scan()
    place.enable(capture_instance="second")
    place.execute(
        "BEGIN TRANSACTION; INSERT INTO dbo.Persons (ID) VALUES (2); INSERT INTO dbo.Persons (ID) VALUES (3); COMMIT"
    )
    place.scan()
    told, _ = follow(place, None, 1)
    assert [(name, row["ID"]) for name, row in told] == [("dbo_Persons", 1), ("second", 2), ("second", 3)]


def test_of_two_instances_that_cleanup_brought_to_one_start_the_later_is_read(places: Places) -> None:
    """Cleanup raises both low watermarks to the same LSN: without an offset as with one, reading goes on with the newer columns."""
    place = places()
    place.execute("INSERT INTO dbo.Persons (ID) VALUES (1)")
    place.execute("ALTER TABLE dbo.Persons ADD Age INT NULL")
    place.enable(capture_instance="a second one that sorts first")
    place.execute("WAITFOR DELAY '00:00:00.010'")
    place.execute("INSERT INTO dbo.Persons (ID, Age) VALUES (2, 20)")
    place.scan()
    low = in_the_log(place.read(table=PERSONS)[-1].position).lsn
    for name in ("dbo_Persons", "a second one that sorts first"):
        place.execute(f"EXEC sys.sp_cdc_cleanup_change_table N'{name}', @low_water_mark = {low}")
    assert len({i.start for i in place.source.states([PERSONS])[PERSONS].instances}) == 1
    for after in (None, LogPosition.before(low)):
        told, _ = follow(place, after, 10)
        assert [(name, row["Age"]) for name, row in told] == [("a second one that sorts first", 20)]


@pytest.mark.parametrize("mode", MODES)
def test_a_captured_subset_of_columns_is_what_is_read(places: Places, mode: str) -> None:
    place = places(query_mode=mode)
    place.execute("EXEC sys.sp_cdc_disable_table N'dbo', N'Persons', N'all'")
    place.enable(captured_column_list="ID, Bio")
    place.execute("INSERT INTO dbo.Persons (ID, Name, Bio) VALUES (1, N'a', N'b')")
    place.execute("UPDATE dbo.Persons SET Bio = N'c'")
    place.scan()
    assert [(dict(c.data), c.changed_columns) for c in place.read()] == [
        ({"ID": 1, "Bio": "b"}, ()),
        ({"ID": 1, "Bio": "c"}, ("Bio",)),
    ]


@pytest.mark.parametrize("mode", MODES)
def test_a_column_that_was_retyped_is_read_as_it_is_now(places: Places, mode: str) -> None:
    """Capture alters the change table too, so that old rows are of the new type as well."""
    place = places(query_mode=mode)
    place.execute("CREATE TABLE dbo.Amounts (ID INT PRIMARY KEY, Amount INT NULL)")
    place.enable(table="Amounts")
    place.execute("INSERT INTO dbo.Amounts VALUES (1, 2147483647)")
    place.scan()
    place.execute("ALTER TABLE dbo.Amounts ALTER COLUMN Amount DECIMAL(20, 2) NULL")
    place.execute("INSERT INTO dbo.Amounts VALUES (2, 123456789012345678.90)")
    place.scan()
    found = place.read(table=TableName("dbo", "Amounts"))
    assert [c.data["Amount"] for c in found] == ["2147483647.00", "123456789012345678.90"]


WIDENED = {
    "varchar to its longest": ("VARCHAR(30)", "'short'", "VARCHAR(8000)", f"'{'x' * 8000}'", "x" * 8000),
    "varchar to max": ("VARCHAR(30)", "'short'", "VARCHAR(MAX)", f"'{'y' * 9000}'", "y" * 9000),
    "nvarchar to max": ("NVARCHAR(30)", "N'short'", "NVARCHAR(MAX)", f"N'{'ž' * 5000}'", "ž" * 5000),
    "varchar to nvarchar": ("VARCHAR(30)", "'short'", "NVARCHAR(30)", "N'žluť 馬'", "žluť 馬"),
    "date to datetime2": ("DATE", "'2020-01-02'", "DATETIME2(7)", "'2024-05-06 07:08:09.5'", "2024-05-06T07:08:09.5000000"),
    "smalldatetime to datetime2": ("SMALLDATETIME", "'2020-01-02 03:04'", "DATETIME2(3)", "'2024-05-06 07:08:09.123'", "2024-05-06T07:08:09.123"),
    "datetime to datetime2": ("DATETIME", "'2020-01-02'", "DATETIME2(7)", "'2024-05-06 07:08:09.5'", "2024-05-06T07:08:09.5000000"),
    "bit to int": ("BIT", "1", "INT", "7", 7),
    "int to bigint": ("INT", "1", "BIGINT", "9007199254740993", 9007199254740993),
    "real to float": ("REAL", "1.5", "FLOAT", "0.1234567890123456", 0.1234567890123456),
    "int to decimal": ("INT", "1", "DECIMAL(20, 2)", "123456789012345678.90", "123456789012345678.90"),
    "a larger scale": ("DECIMAL(9, 2)", "1.25", "DECIMAL(18, 6)", "123.456789", "123.456789"),
    "smallmoney to money": ("SMALLMONEY", "1", "MONEY", "922337203685477.5807", "922337203685477.5807"),
    "varbinary to max": ("VARBINARY(10)", "0x01", "VARBINARY(MAX)", "0x" + "ff" * 9000, "/" * 12000),
    "time to a larger scale": ("TIME(0)", "'10:11:12'", "TIME(7)", "'10:11:12.1234567'", "10:11:12.1234567"),
    "time to datetime2": ("TIME(3)", "'10:11:12'", "DATETIME2(7)", "'2024-05-06 07:08:09.5'", "2024-05-06T07:08:09.5000000"),
    "datetime2 with an offset": ("DATETIME2(3)", "'2020-01-02'", "DATETIMEOFFSET(0)", "'2024-05-06 07:08:09 +02:00'", "2024-05-06T07:08:09+02:00"),
    "text to XML": ("NVARCHAR(200)", "N'<a/>'", "XML", "N'<b>c</b>'", "<b>c</b>"),
    "int to datetime": ("INT", "1", "DATETIME", "'2024-05-06 07:08:09.123'", "2024-05-06T07:08:09.123"),
    "money to float": ("MONEY", "1", "FLOAT", "0.5", 0.5),
    "uniqueidentifier to text": ("UNIQUEIDENTIFIER", "NEWID()", "NVARCHAR(400)", "REPLICATE(N'ž', 400)", "ž" * 400),
    "int to binary": ("INT", "1", "VARBINARY(100)", "0x0102", "AQI="),
    "int to text": ("INT", "1", "NVARCHAR(40)", "N'žluť'", "žluť"),
}  # fmt: skip


@pytest.mark.parametrize(("mode", "before_images"), [("direct", False), ("function", True)])
@pytest.mark.parametrize("change", WIDENED)
def test_a_value_is_whole_though_its_column_was_widened_after_the_catalog_was_read(
    places: Places, mode: str, change: str, before_images: bool
) -> None:
    old, first, new, second, wanted = WIDENED[change]
    place = places(query_mode=mode, before_images=before_images)
    table = TableName("dbo", "Widened")
    place.execute(f"CREATE TABLE dbo.Widened (ID INT PRIMARY KEY, V {old} NULL)")
    place.enable(table="Widened")
    place.execute(f"INSERT INTO dbo.Widened VALUES (1, {first})")
    place.scan()
    instance = place.instance(table)
    start = instance.start
    assert len(place.source.page(PageQuery(instance, after=start, upto=_end(place, instance), rows=9)).changes) == 1
    place.execute(f"ALTER TABLE dbo.Widened ALTER COLUMN V {new} NULL")
    place.execute(f"INSERT INTO dbo.Widened VALUES (2, {second})")
    place.execute(f"UPDATE dbo.Widened SET V = {second} WHERE ID = 1")
    place.scan()
    for rows in (9, 1):
        found: list[Change] = []
        after = start
        while (
            page := place.source.page(PageQuery(instance, after=after, upto=_end(place, instance), rows=rows))
        ).end is not None:
            found += page.changes
            after = page.end
        assert [c.data["V"] for c in found[1:]] == [wanted, wanted]


def _end(place: Place, instance: CaptureInstance) -> Position:
    found = place.source.probe([ProbeRequest(instance, None)]).upto
    assert found is not None
    return found


def test_a_table_that_is_altered_while_its_page_is_read_is_read_again(places: Places) -> None:
    """Capture comes to the ALTER between the rows of a page and the look at what their columns are."""
    place = places()
    place.execute("CREATE TABLE dbo.Widened (ID INT PRIMARY KEY, V DATE NULL)")
    place.enable(table="Widened")
    place.execute("INSERT INTO dbo.Widened VALUES (1, '2020-01-02')")
    place.scan()
    instance = place.instance(TableName("dbo", "Widened"))
    upto = _end(place, instance)
    place.execute("ALTER TABLE dbo.Widened ALTER COLUMN V DATETIME2(3) NULL")
    texts: list[str] = []
    read = place.connection.rows_until

    def meanwhile(sql: str, *rest: Any) -> Any:
        """The rows, then the ALTER, then the stamp: as one batch would come to them."""
        texts.append(sql)
        if len(texts) > 1:
            return read(sql, *rest)
        parameters, enough = rest
        page, _, stamp = sql.rpartition(";\n")
        behind = stamp.count(queries.P)
        sets, whole = read(page, parameters[:-behind], enough)
        place.scan()
        return [*sets, place.connection.rows(stamp, parameters[-behind:])], whole

    place.connection.rows_until = meanwhile  # type: ignore[method-assign, assignment]
    page = place.source.page(PageQuery(instance, after=instance.start, upto=upto, rows=9))
    assert len(texts) == 2
    assert [c.data["V"] for c in page.changes] == ["2020-01-02T00:00:00.000"]


@pytest.mark.parametrize("mode", MODES)
def test_cdc_that_is_switched_off_between_two_questions_of_a_page_stops_nobody(
    places: Places, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = places(query_mode=mode, page_bytes=1)  # such a page asks for its low watermark by itself
    place.execute("INSERT INTO dbo.Persons (ID, Name) VALUES (1, N'a'), (2, N'b'), (3, N'c')")
    place.scan()
    instance, upto = place.instance(), LogPosition.end_of(in_the_log(place.read()[0].position).lsn)
    read = place.connection.rows_until

    def read_and_switched_off(*asked: Any) -> Any:
        found = read(*asked)
        place.execute("EXEC sys.sp_cdc_disable_db")
        return found

    monkeypatch.setattr(place.connection, "rows_until", read_and_switched_off)
    with pytest.raises(TransientError, match="dbo_Persons no longer exists; DStream looks for its table again"):
        place.source.page(PageQuery(instance, after=instance.start, upto=upto, rows=5))


def test_an_instance_that_was_made_again_under_its_name_is_another(places: Places) -> None:
    place = places()
    place.execute("INSERT INTO dbo.Persons (ID) VALUES (1)")
    place.scan()
    instance = place.instance()
    place.execute("DROP TABLE dbo.Persons")
    place.execute("CREATE TABLE dbo.Persons (ID INT PRIMARY KEY, Name DATE NULL, Bio NVARCHAR(MAX) NULL)")
    place.enable()
    place.execute("INSERT INTO dbo.Persons (ID) VALUES (2)")
    place.scan()
    with pytest.raises(TransientError, match="dbo_Persons no longer exists; DStream looks for its table again"):
        place.source.page(PageQuery(instance, after=instance.start, upto=_end(place, instance), rows=9))


@pytest.mark.parametrize("mode", MODES)
def test_a_column_that_was_dropped_is_left_out_from_there_on_and_one_that_came_is_not_captured(
    places: Places, mode: str
) -> None:
    """A capture instance keeps the columns that it was made with; what was captured before stays readable."""
    place = places(query_mode=mode)
    place.execute("INSERT INTO dbo.Persons (ID, Name, Bio) VALUES (1, N'a', N'b')")
    place.scan()
    place.execute("ALTER TABLE dbo.Persons DROP COLUMN Bio")
    place.execute("ALTER TABLE dbo.Persons ADD Age INT NULL")
    place.execute("INSERT INTO dbo.Persons (ID, Name, Age) VALUES (2, N'c', 3)")
    place.execute("UPDATE dbo.Persons SET Name = N'd' WHERE ID = 2")
    place.scan()
    assert [(dict(c.data), c.unavailable) for c in place.read()] == [
        ({"ID": 1, "Name": "a", "Bio": "b"}, ()),
        ({"ID": 2, "Name": "c"}, ("Bio",)),
        ({"ID": 2, "Name": "d"}, ("Bio",)),
    ]
    instance = place.instance()
    assert [(column.name, column.gone) for column in instance.columns] == [
        ("ID", False),
        ("Name", False),
        ("Bio", True),
    ]
    assert instance.added == ("Age",)


@pytest.mark.parametrize("mode", MODES)
def test_a_table_that_was_altered_is_looked_up_without_the_others(
    places: Places, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After one release had altered 59 tables, the catalog of all of them was read 59 times, and every table waited."""
    place = places(query_mode=mode)
    place.execute("INSERT INTO dbo.Persons (ID, Name) VALUES (1, N'a')")
    place.scan()
    instance = place.instance()
    place.execute("ALTER TABLE dbo.Persons ALTER COLUMN Name NVARCHAR(60) NULL")
    place.execute(f"INSERT INTO dbo.Persons (ID, Name) VALUES (2, N'{'b' * 60}')")
    place.scan()
    asked = list[str | None]()

    def counted(*arguments: Any, of: str | None = None, **more: Any) -> Any:
        asked.append(of)
        return instances(*arguments, of=of, **more)

    monkeypatch.setattr("ingester.sqlserver.source.instances", counted)
    page = place.source.page(PageQuery(instance, after=instance.start, upto=_end(place, instance), rows=9))
    assert [change.data["Name"] for change in page.changes] == ["a", "b" * 60]
    assert asked == [instance.name]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("again", [False, True])
def test_a_column_that_was_dropped_between_two_pages_is_left_out_as_well(
    places: Places, mode: str, again: bool
) -> None:
    """A source that had read the table before went on with the columns of then, and told what is not captured as null."""
    place = places(query_mode=mode)
    place.execute("INSERT INTO dbo.Persons (ID, Name, Bio) VALUES (1, N'a', N'b')")
    place.scan()
    assert [dict(change.data) for change in place.read()] == [{"ID": 1, "Name": "a", "Bio": "b"}]
    place.execute("ALTER TABLE dbo.Persons DROP COLUMN Bio")
    if again:
        place.execute("ALTER TABLE dbo.Persons ADD Bio NVARCHAR(MAX) NULL")
    place.execute("INSERT INTO dbo.Persons (ID, Name) VALUES (2, N'c')")
    place.scan()
    *_, last = place.read()
    assert (dict(last.data), last.unavailable) == ({"ID": 2, "Name": "c"}, ("Bio",))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("rows", [9, 1])
def test_a_column_that_was_dropped_after_the_catalog_was_read_is_never_told_as_null(
    places: Places, mode: str, again: bool, rows: int
) -> None:
    """DROP COLUMN leaves the change table as it is, and whoever asks for a page may have read the catalog minutes ago."""
    place = places(query_mode=mode, page_bytes=1 if rows == 1 else 1 << 20)
    instance = place.instance()
    place.execute("ALTER TABLE dbo.Persons DROP COLUMN Bio")
    if again:
        place.execute("ALTER TABLE dbo.Persons ADD Bio NVARCHAR(MAX) NULL")
    place.execute("INSERT INTO dbo.Persons (ID, Name) VALUES (1, N'a'), (2, N'b')")
    place.scan()
    assert not any(column.gone for column in instance.columns)
    page = place.source.page(PageQuery(instance, after=instance.start, upto=_end(place, instance), rows=rows))
    assert {(tuple(change.data), change.unavailable) for change in page.changes} == {(("ID", "Name"), ("Bio",))}


def test_a_session_that_alters_a_table_for_long_does_not_hold_up_what_was_captured_before(places: Places) -> None:
    place = places()
    place.execute("INSERT INTO dbo.Persons (ID, Name) VALUES (1, N'a')")
    place.scan()
    instance = place.instance()
    with place.login.connect() as client, client.cursor() as cursor:
        client.autocommit(False)
        cursor.execute("ALTER TABLE dbo.Persons ADD Age INT NULL")
        page = place.source.page(PageQuery(instance, after=instance.start, upto=_end(place, instance), rows=9))
        client.rollback()
    assert [change.data["ID"] for change in page.changes] == [1]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("again", [False, True])
def test_an_instance_that_is_made_while_the_catalog_is_read_has_its_columns(
    places: Places, mode: str, again: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its columns were asked for before it was there, and rows without any column would have been sent."""
    place = places(query_mode=mode)
    asked = list[str]()

    def made_meanwhile(connection: Any, question: Any) -> Any:
        asked.append(question[0])
        if len(asked) == 4:  # the capture instances are asked for last
            if again:
                place.execute("EXEC sys.sp_cdc_disable_table N'dbo', N'Persons', N'dbo_Persons'")
                place.enable()
            else:
                place.enable(capture_instance="second")
        return catalog_rows(connection, question)

    monkeypatch.setattr("ingester.sqlserver.catalog.instances.catalog_rows", made_meanwhile)
    found = [instance for _, instance in instances(place.connection, by_function=mode == "function")]
    assert [instance.name for instance in found] == (["dbo_Persons"] if again else ["dbo_Persons", "second"])
    assert [[column.name for column in instance.columns] for instance in found] == [["ID", "Name", "Bio"]] * len(found)


def test_an_instance_whose_columns_are_never_seen_is_none(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    place = places()

    def without_columns(connection: Any, question: Any) -> Any:
        return [] if "captured_columns AS cc\nJOIN" in question[0] else catalog_rows(connection, question)

    monkeypatch.setattr("ingester.sqlserver.catalog.instances.catalog_rows", without_columns)
    assert instances(place.connection, by_function=False) == []


@pytest.mark.parametrize("mode", MODES)
def test_a_column_that_was_dropped_and_added_again_is_another_and_never_told_as_null(places: Places, mode: str) -> None:
    """Capture goes by the column's id: what the new one holds is not captured, and its name in the change table is the old one's."""
    place = places(query_mode=mode)
    place.execute("ALTER TABLE dbo.Persons DROP COLUMN Bio")
    place.execute("ALTER TABLE dbo.Persons ADD Bio NVARCHAR(MAX) NULL")
    place.execute("INSERT INTO dbo.Persons (ID, Name, Bio) VALUES (1, N'a', N'b')")
    place.scan()
    assert [(dict(c.data), c.unavailable) for c in place.read()] == [({"ID": 1, "Name": "a"}, ("Bio",))]
    assert place.instance().added == ("Bio",)
    place.enable(capture_instance="second")
    second = place.source.states([PERSONS])[PERSONS].instances[-1]
    assert ([column.gone for column in second.columns], second.added) == ([False] * 3, ())


def test_columns_that_were_left_out_on_purpose_are_not_told_as_added(places: Places) -> None:
    place = places()
    place.execute("CREATE TABLE dbo.Partly (ID INT PRIMARY KEY, Secret INT NULL, Name NVARCHAR(9) NULL)")
    place.enable(table="Partly", captured_column_list="ID, Name")
    assert place.instance(TableName("dbo", "Partly")).added == ()
    place.execute("ALTER TABLE dbo.Partly ADD Phone NVARCHAR(9) NULL")
    place.enable(table="Partly", capture_instance="second")
    older, newer = place.source.states([TableName("dbo", "Partly")])[TableName("dbo", "Partly")].instances
    assert (older.added, newer.added) == (("Phone", "Secret"), ()), "a newer one has them: a shape may name them"


@pytest.mark.parametrize("mode", MODES)
def test_a_table_that_was_renamed_is_read_under_its_new_name_and_missing_under_the_old(
    places: Places, mode: str
) -> None:
    place = places(query_mode=mode)
    place.execute("INSERT INTO dbo.Persons (ID) VALUES (1)")
    place.execute("EXEC sp_rename N'dbo.Persons', N'People'")
    place.execute("INSERT INTO dbo.People (ID) VALUES (2)")
    place.scan()
    people = TableName("dbo", "People")
    assert place.source.states([PERSONS])[PERSONS].exists is False
    assert [(c.table, c.data["ID"]) for c in place.read(table=people)] == [(people, 1), (people, 2)]


def test_an_unknown_object_is_permanent_while_the_catalog_has_not_changed(places: Places) -> None:
    place = places()
    place.execute("INSERT INTO dbo.Persons (ID) VALUES (1)")
    place.scan()
    instance = replace(place.instance(), change_table="somebody dropped it")
    with pytest.raises(PermanentError, match="somebody dropped it"):
        place.source.probe([ProbeRequest(instance, None)])
