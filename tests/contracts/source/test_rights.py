"""What a login may see: a missing right is said, with what to grant; and a session that leaves nothing behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import orjson
import pytest
from pydantic import SecretStr

from common.errors import PermanentError, TransientError
from common.names import TableName
from common.sqladdress import SqlAddress
from emulators.sqlserver.build import build_engine
from emulators.sqlserver.server import SqlServerEmulator
from ingester.position import Position
from ingester.source import CaptureInstance, PageQuery, ProbeRequest
from ingester.sqlserver.connection import Connection
from ingester.sqlserver.hints import HINTS
from ingester.sqlserver.position import LogPosition, in_the_log
from ingester.sqlserver.source import SqlServerSource
from tests.contracts.source.conftest import Places
from tests.contracts.source.test_source import PERSONS, Place

READER, PASSWORD = "reader", "Reader-Password-1"
TABLES = ("change_tables", "captured_columns", "index_columns", "lsn_time_mapping")
DIRECT = ("SELECT ON SCHEMA::cdc", "SELECT ON OBJECT::dbo.Persons")
FUNCTION = (*(f"SELECT ON OBJECT::cdc.{name}" for name in TABLES), "SELECT ON OBJECT::dbo.Persons")
"""What docs/install.md says is needed."""

Readers = Callable[..., SqlServerSource]


@pytest.fixture
def reader(places: Places) -> Iterator[Callable[..., tuple[Place, SqlServerSource]]]:
    """A place with one captured row, and a source of a login with the given grants and nothing else."""
    made: list[tuple[Place, SqlServerSource]] = []

    def make(
        grants: tuple[str, ...], *, mode: str = "direct", role: str | None = None, **options: Any
    ) -> tuple[Place, SqlServerSource]:
        place = places()
        if role is not None:
            place.execute("EXEC sys.sp_cdc_disable_table N'dbo', N'Persons', N'all'")
            place.execute(f"EXEC sys.sp_cdc_enable_table N'dbo', N'Persons', @role_name = N'{role}'")
        user = f"{READER}_{place.login.database}"
        place.execute(f"CREATE LOGIN {user} WITH PASSWORD = N'{PASSWORD}'")
        place.execute(f"CREATE USER {READER} FOR LOGIN {user}")
        for grant in grants:
            place.execute(f"GRANT {grant} TO {READER}")
        login = replace(place.login, user=user, password=PASSWORD)
        address = SqlAddress(login.host, login.port, None, login.database, login.user, SecretStr(login.password))
        chosen: Any = mode
        made.append((place, SqlServerSource(Connection(address), query_mode=chosen, **options)))
        place.execute("INSERT INTO dbo.Persons (ID) VALUES (1)")
        place.scan()
        return made[-1]

    yield make
    for _, source in made:
        source.close()


@pytest.mark.parametrize(("mode", "grants"), [("direct", DIRECT), ("function", FUNCTION)])
def test_the_documented_grants_are_enough(reader: Any, mode: str, grants: tuple[str, ...]) -> None:
    _, source = reader(grants, mode=mode)
    instance = source.states([PERSONS])[PERSONS].instances[0]
    probe = source.probe([ProbeRequest(instance, None)])
    assert probe.answers["dbo_Persons"].pending
    page = source.page(PageQuery(instance, after=instance.start, upto=probe.upto, rows=9))
    assert [c.data["ID"] for c in page.changes] == [1]


def test_the_function_mode_asks_nothing_of_the_change_tables(reader: Any) -> None:
    """What it is for: the same login may not look at the table itself."""
    _, source = reader(FUNCTION)
    instance = source.states([PERSONS])[PERSONS].instances[0]
    with pytest.raises(PermanentError, match="SELECT permission was denied on the object 'dbo_Persons_CT'"):
        source.probe([ProbeRequest(instance, None)])


def test_a_login_that_may_not_see_the_change_table_is_told_of_large_columns_all_the_same(reader: Any) -> None:
    """Their length is what tells a value that capture does not hold from NULL."""
    place, source = reader(FUNCTION, mode="function", before_images=True)
    place.execute("UPDATE dbo.Persons SET Bio = N'long'")
    place.execute("UPDATE dbo.Persons SET Name = N'a'")
    place.scan()
    instance = source.states([PERSONS])[PERSONS].instances[0]
    assert [(c.name, c.length, c.large) for c in instance.columns] == [
        ("ID", 4, False),
        ("Name", 100, False),
        ("Bio", -1, True),
    ]
    probe = source.probe([ProbeRequest(instance, None)])
    page = source.page(PageQuery(instance, after=instance.start, upto=probe.upto, rows=9))
    assert [c.unavailable for c in page.changes] == [(), (), ("Bio",)]


def test_an_instance_that_was_made_again_is_another_to_a_login_that_sees_its_source_alone(reader: Any) -> None:
    """To such a login the source looks as before, and the columns and the key of the former instance were taken for the new one's."""
    place, source = reader(FUNCTION, mode="function")
    place.execute("CREATE TABLE dbo.Codes (ID INT PRIMARY KEY, Code INT NOT NULL, Bio NVARCHAR(9) NULL)")
    place.execute("CREATE UNIQUE INDEX ix_code ON dbo.Codes (Code)")
    place.execute(f"GRANT SELECT ON OBJECT::dbo.Codes TO {READER}")
    codes = TableName("dbo", "Codes")

    def keys(instance: CaptureInstance) -> list[tuple[tuple[object, ...], tuple[str, ...]]]:
        probe = source.probe([ProbeRequest(instance, None)])
        page = source.page(PageQuery(instance, after=instance.start, upto=probe.upto, rows=9))
        return [(change.key, change.unavailable) for change in page.changes]

    place.enable(table="Codes", index_name="ix_code")
    place.execute("ALTER TABLE dbo.Codes DROP COLUMN Bio")
    place.execute("ALTER TABLE dbo.Codes ADD Bio NVARCHAR(9) NULL")
    place.execute("INSERT INTO dbo.Codes (ID, Code) VALUES (1, 100)")
    place.scan()
    former = source.states([codes])[codes].instances[0]
    assert keys(former) == [((100,), ("Bio",))]
    place.execute("EXEC sys.sp_cdc_disable_table N'dbo', N'Codes', N'dbo_Codes'")
    place.enable(table="Codes")
    place.execute("INSERT INTO dbo.Codes (ID, Code) VALUES (2, 200)")
    place.scan()
    now = source.states([codes])[codes].instances[0]
    assert keys(now) == [((2,), ())]
    with pytest.raises(TransientError, match="dbo_Codes no longer exists"):
        keys(replace(former, start=now.start))


@pytest.mark.parametrize("member", [False, True])
def test_a_gating_role_is_missed_loudly(reader: Any, member: bool) -> None:
    """sys.fn_cdc_get_min_lsn answers 0x00 to those who may not: never taken for a very old LSN, nor for no gap."""
    place, source = reader(FUNCTION, mode="function", role="gate")
    if member:
        place.execute(f"ALTER ROLE gate ADD MEMBER {READER}")
    instance = source.states([PERSONS])[PERSONS].instances[0]
    if member:
        assert source.probe([ProbeRequest(instance, None)]).answers["dbo_Persons"].pending
        return
    with pytest.raises(PermanentError, match="low watermark of dbo_Persons") as refused:
        source.probe([ProbeRequest(instance, None)])
    assert "gating role" in (refused.value.hint or "")
    upto = LogPosition.end_of(in_the_log(place.read()[0].position).lsn)
    with pytest.raises(PermanentError):
        source.page(PageQuery(instance, after=instance.start, upto=upto, rows=5))


def test_a_gating_role_guards_the_functions_alone_and_not_who_may_read_the_change_table(reader: Any) -> None:
    place, source = reader(DIRECT, role="gate")
    instance = source.states([PERSONS])[PERSONS].instances[0]
    probe = source.probe([ProbeRequest(instance, None)])
    assert probe.answers["dbo_Persons"].pending
    upto = probe.upto
    page = source.page(PageQuery(instance, after=instance.start, upto=upto, rows=5))
    assert [c.data["ID"] for c in page.changes] == [c.data["ID"] for c in place.read()]


@pytest.mark.parametrize("begun", [False, True], ids=["without an offset", "all read before"])
def test_a_row_of_nulls_is_a_missing_right_and_never_nothing_to_read(
    reader: Any, monkeypatch: pytest.MonkeyPatch, begun: bool
) -> None:
    """What a published function tells who lost SELECT on its source, even where the low watermark is told all the same."""
    place, source = reader(FUNCTION, mode="function")
    instance = source.states([PERSONS])[PERSONS].instances[0]
    offset = place.read()[-1].position if begun else None
    place.execute(f"REVOKE SELECT ON OBJECT::dbo.Persons FROM {READER}")
    monkeypatch.setattr("emulators.sqlserver.cdc.queries.access.may_read", lambda *_: True)
    place.execute("INSERT INTO dbo.Persons (ID) VALUES (2)")
    place.scan()
    probe = source.probe([ProbeRequest(instance, offset)])
    assert probe.answers["dbo_Persons"].pending
    after, upto = offset or instance.start, probe.upto
    with pytest.raises(PermanentError, match="without their position in the log") as refused:
        source.page(PageQuery(instance, after=after, upto=upto, rows=5))
    assert "gating role" in (refused.value.hint or "")


@pytest.mark.parametrize("missing", [0, 2, 3], ids=["start_lsn", "seqval", "operation"])
def test_a_place_in_the_log_that_is_told_in_part_is_refused(
    places: Places, monkeypatch: pytest.MonkeyPatch, missing: int
) -> None:
    place = places()
    place.execute("INSERT INTO dbo.Persons (ID) VALUES (1)")
    place.scan()
    instance, upto = place.instance(), LogPosition.end_of(in_the_log(place.read()[0].position).lsn)
    rows_until, rows = place.connection.rows_until, place.connection.rows

    def without(row: Any) -> Any:
        return tuple(None if at == missing else value for at, value in enumerate(row))

    def paged(sql: str, parameters: Any, enough: Any) -> Any:
        (found, *rest), whole = rows_until(sql, parameters, enough)
        return [[(None, *values) for _, *values in found], *rest], whole  # all of a place is NULL if a part of it is

    monkeypatch.setattr(place.connection, "rows_until", paged)
    monkeypatch.setattr(place.connection, "rows", lambda *asked: [without(row) for row in rows(*asked)])
    start = instance.start
    with pytest.raises(PermanentError, match="without their position in the log"):
        place.source.page(PageQuery(instance, after=start, upto=upto, rows=5))
    with pytest.raises(PermanentError, match="without their position in the log"):
        place.source.stride(instance, after=start, upto=upto, rows=5)


@pytest.mark.parametrize("answer", [None, bytes(10)])
def test_a_low_watermark_that_is_not_told_is_never_read_past(
    places: Places, monkeypatch: pytest.MonkeyPatch, answer: bytes | None
) -> None:
    """NULL as well as 0x00, with the probe and with a page."""
    place = places()
    place.execute("INSERT INTO dbo.Persons (ID) VALUES (1)")
    place.scan()
    instance, upto = place.instance(), LogPosition.end_of(in_the_log(place.read()[0].position).lsn)
    batch, rows_until = place.connection.batch, place.connection.rows_until

    def probed(statements: Any, **within: Any) -> Any:
        found = batch(statements, **within)
        return [[(row[0], answer) if row[0] == instance.name else row for row in rows] for rows in found]

    def paged(sql: str, parameters: Any, enough: Any) -> Any:
        (rows, times, _, stamp), whole = rows_until(sql, parameters, enough)
        return [rows, times, [(answer,)], stamp], whole

    monkeypatch.setattr(place.connection, "rows_until", paged)
    with pytest.raises(PermanentError, match="low watermark of dbo_Persons"):
        place.source.page(PageQuery(instance, after=instance.start, upto=upto, rows=5))
    monkeypatch.setattr(place.connection, "batch", probed)
    with pytest.raises(PermanentError, match="low watermark of dbo_Persons"):
        place.source.probe([ProbeRequest(instance, None)])


def test_no_max_lsn_means_nothing_captured_yet_only_to_those_who_may_look(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = places()
    request = [ProbeRequest(place.instance(), None)]
    assert place.source.probe(request).upto is None
    rows = place.connection.rows
    monkeypatch.setattr(
        place.connection, "rows", lambda sql, *more: [(0,)] if "HAS_PERMS_BY_NAME" in sql else rows(sql, *more)
    )
    with pytest.raises(PermanentError, match="how far capture has come") as refused:
        place.source.probe(request)
    assert "GRANT SELECT ON OBJECT::cdc.lsn_time_mapping" in (refused.value.hint or "")


@pytest.mark.parametrize("mode", ["direct", "function"])
def test_nothing_stays_open_between_statements(places: Places, mode: str) -> None:
    """READ COMMITTED, no transaction, and whoever wants the table for himself gets it; after a page that was cut short, too."""
    place = places(query_mode=mode, page_bytes=1)
    place.execute("INSERT INTO dbo.Persons (ID, Name) VALUES (1, N'a'), (2, N'b'), (3, N'c')")
    place.scan()
    instance = place.instance()
    probe = place.source.probe([ProbeRequest(instance, None)])
    assert probe.upto is not None
    upto = probe.upto
    page = place.source.page(PageQuery(instance, after=instance.start, upto=upto, rows=100))
    assert len(page.changes) == 1
    state = "SELECT @@TRANCOUNT, transaction_isolation_level, open_transaction_count FROM sys.dm_exec_sessions WHERE session_id = @@SPID"
    assert place.connection.rows(state) == [(0, 2, 0)]
    place.execute("SET LOCK_TIMEOUT 0")
    place.execute("BEGIN TRANSACTION; SELECT ID FROM dbo.Persons WITH (TABLOCKX); COMMIT")
    place.execute("EXEC sys.sp_cdc_disable_table N'dbo', N'Persons', N'all'")


def test_a_session_says_what_it_wants_whatever_the_servers_user_options_are() -> None:
    sent: list[str] = []
    engine = build_engine(users={"sa": "pw-Long-1"})
    with SqlServerEmulator(engine, statement_log=sent.append) as server:
        connection = Connection(SqlAddress("127.0.0.1", server.port, None, "master", "sa", SecretStr("pw-Long-1")))
        assert connection.rows("SELECT 1") == [(1,)]
        connection.close()
    engine.close()
    assert "SET IMPLICIT_TRANSACTIONS OFF;SET TRANSACTION ISOLATION LEVEL READ COMMITTED" in sent[0]
    assert not any("BEGIN TRAN" in text for text in sent)


def test_a_table_that_the_login_may_not_see_is_missing_and_the_word_says_both(reader: Any) -> None:
    _, source = reader(("SELECT ON SCHEMA::cdc",))
    state = source.states([PERSONS])[PERSONS]
    assert (state.exists, state.instances) == (False, ())
    assert "GRANT SELECT ON [dbo].[Persons]" in (HINTS.absence(PERSONS, state) or "")


def _on_the_table(name: str) -> tuple[str, ...]:
    return (*FUNCTION, f"SELECT ON OBJECT::dbo.{name}")


def _read_before_capture(place: Place, source: SqlServerSource, before: str, after: str, value: str) -> object:
    """A value of a column that has been altered, as it is read before capture has come to the ALTER. The types that the login sees are the
    source table's, and the change table still has others."""
    place.execute(f"CREATE TABLE dbo.Altered (ID INT PRIMARY KEY, A {before} NULL)")
    place.enable(table="Altered")
    for grant in _on_the_table("Altered"):
        place.execute(f"GRANT {grant} TO {READER}")
    place.execute(f"INSERT INTO dbo.Altered VALUES (1, {value})")
    place.scan()
    place.execute("DELETE FROM dbo.Altered")  # what is there may not be convertible
    place.execute(f"ALTER TABLE dbo.Altered ALTER COLUMN A {after} NULL")
    altered = TableName("dbo", "Altered")
    instance = source.states([altered])[altered].instances[0]
    assert instance.columns[1].declared.replace(",", ", ") == after.lower()
    probe = source.probe([ProbeRequest(instance, None)])
    assert probe.upto is not None
    return source.page(PageQuery(instance, after=instance.start, upto=probe.upto, rows=9)).changes[0].data["A"]


@pytest.mark.parametrize(
    ("before", "after", "value", "read"),
    [
        ("INT", "BIGINT", "-5", -5),
        ("BIGINT", "INT", "-5", -5),
        ("INT", "BIT", "1", 1),
        ("DECIMAL(9, 2)", "INT", "1.50", "1.50"),
        ("BINARY(4)", "INT", "0x01020304", "AQIDBA=="),
        ("BIT", "INT", "1", True),
        ("SMALLMONEY", "MONEY", "-5.5", "-5.5000"),
        ("MONEY", "SMALLMONEY", "-5.5", "-5.5000"),
        ("DATETIME", "DATETIME2(7)", "'2020-01-02T03:04:05.67'", "2020-01-02T03:04:05.670"),
        ("DATETIME2(3)", "DATETIMEOFFSET(7)", "'2020-01-02T03:04:05.678'", "2020-01-02T03:04:05.678"),
        ("DATETIME", "DATE", "'2020-01-02T03:04:05.67'", "2020-01-02T03:04:05.670"),
        ("DATETIME", "SMALLDATETIME", "'2020-01-02T03:04:05.67'", "2020-01-02T03:04:05.670"),
        ("REAL", "FLOAT", "0.5", 0.5),
        ("FLOAT", "REAL", "0.1234567890123", 0.1234567890123),
        ("INT", "NVARCHAR(20)", "-5", -5),
        ("VARCHAR(60)", "DECIMAL(9, 2)", f"'{'a' * 60}'", "a" * 60),
        ("NVARCHAR(60)", "DATETIME2(7)", f"N'{'ž ' * 30}'", "ž " * 30),
        ("NVARCHAR(9)", "MONEY", "N'012'", "012"),
        ("VARCHAR(9)", "NVARCHAR(MAX)", "'é'", "é"),
        (
            "UNIQUEIDENTIFIER",
            "NVARCHAR(40)",
            f"'{'0f' * 4}-0000-0000-0000-{'0' * 12}'",
            f"{'0F' * 4}-0000-0000-0000-{'0' * 12}",
        ),
        ("MONEY", "NVARCHAR(30)", "1.2345", "1.2345"),
        ("DATETIME", "NVARCHAR(30)", "'2020-01-02T03:04:05.67'", "2020-01-02T03:04:05.670"),
        ("SMALLDATETIME", "VARCHAR(30)", "'2020-01-02T03:04:00'", "2020-01-02T03:04:00"),
        ("FLOAT", "VARCHAR(30)", "1234567.891", 1234567.891),
        ("REAL", "NVARCHAR(30)", "1234567.875", 1234567.9),
        ("FLOAT", "DECIMAL(38, 20)", "0.12345678901234568", 0.12345678901234568),
        ("BINARY(16)", "UNIQUEIDENTIFIER", "0x00112233445566778899AABBCCDDEEFF", "ABEiM0RVZneImaq7zN3u/w=="),
        ("VARBINARY(9)", "VARCHAR(9)", "0x4142", "QUI="),
        ("VARBINARY(9)", "NVARCHAR(9)", "0x410042", "QQBC"),
    ],
)
def test_a_login_that_does_not_see_the_change_table_reads_right_values_before_capture_has_come_to_an_alter(
    reader: Any, before: str, after: str, value: str, read: object
) -> None:
    place, source = reader((), mode="function")
    assert _read_before_capture(place, source, before, after, value) == read


@pytest.mark.parametrize(
    ("before", "value", "read"),
    [
        ("VARCHAR(9)", "'abc'", b'"abc"'),
        ("VARCHAR(9)", "'012'", b'"012"'),
        ("NVARCHAR(9)", "N'é'", '"é"'.encode()),
        ("DECIMAL(9, 4)", "-0.5", b"-0.5000"),
    ],
)
def test_what_is_no_number_stays_text_with_decimals_as_numbers_too(
    reader: Any, before: str, value: str, read: bytes
) -> None:
    place, source = reader((), mode="function", decimals_as_numbers=True)
    assert orjson.dumps(_read_before_capture(place, source, before, "DECIMAL(9, 2)", value)) == read


def test_a_page_has_its_most_bytes_though_the_source_is_narrower_by_now(reader: Any) -> None:
    """Not by the length that the source's column has: the change table has longer values until capture has come to the ALTER."""
    place, source = reader((), mode="function", page_bytes=100_000)
    place.execute("CREATE TABLE dbo.Altered (ID INT PRIMARY KEY, A NVARCHAR(MAX) NULL)")
    place.enable(table="Altered")
    for grant in _on_the_table("Altered"):
        place.execute(f"GRANT {grant} TO {READER}")
    for number in range(5):
        place.execute(f"INSERT INTO dbo.Altered VALUES ({number}, REPLICATE(CAST(N'a' AS NVARCHAR(MAX)), 30000))")
    place.scan()
    place.execute("DELETE FROM dbo.Altered")
    place.execute("ALTER TABLE dbo.Altered ALTER COLUMN A NVARCHAR(20) NULL")
    instance, upto = _asked(source, "Altered")
    page = source.page(PageQuery(instance, after=instance.start, upto=upto, rows=9))
    assert (len(page.changes), page.full) == (2, True)


def _asked(source: SqlServerSource, name: str) -> tuple[CaptureInstance, Position]:
    table = TableName("dbo", name)
    instance = source.states([table])[table].instances[0]
    probe = source.probe([ProbeRequest(instance, None)])
    assert probe.upto is not None
    return instance, probe.upto


@pytest.mark.parametrize("page_bytes", [1, 10**6], ids=["a page that is cut", "whole"])
def test_values_are_read_as_what_capture_makes_of_them_once_it_has_come_to_the_alter(
    reader: Any, monkeypatch: pytest.MonkeyPatch, page_bytes: int
) -> None:
    """Nothing that this login sees of the catalog changes then: what the function returns is asked behind each page."""
    place, source = reader((), mode="function", page_bytes=page_bytes)
    read = _read_before_capture(place, source, "INT", "NVARCHAR(20)", "5")
    assert read == 5
    instance, upto = _asked(source, "Altered")
    rows_until = source._connection.rows_until
    scans = iter([place.scan])

    def altered_before_the_rows(*asked: Any) -> Any:
        next(scans, lambda: None)()
        return rows_until(*asked)

    monkeypatch.setattr(source._connection, "rows_until", altered_before_the_rows)
    page = source.page(PageQuery(instance, after=instance.start, upto=upto, rows=1))
    assert [change.data["A"] for change in page.changes] == ["5"]
    assert [column.declared for column in page.columns] == ["int", "nvarchar(20)"]


def test_a_page_is_of_the_table_that_is_asked_for_after_one_of_its_former_name(reader: Any) -> None:
    """What the server has said of a capture instance's types says nothing of its table's name."""
    _, source = reader(FUNCTION, mode="function")
    instance, upto = _asked(source, "Persons")
    for name in (PERSONS, TableName("dbo", "People")):
        asked = replace(instance, table=name)
        (change,) = source.page(PageQuery(asked, after=instance.start, upto=upto, rows=9)).changes
        assert change.table == name


def test_cdc_that_is_switched_off_before_a_page_stops_nobody(reader: Any) -> None:
    place, source = reader(FUNCTION, mode="function")
    instance, upto = _asked(source, "Persons")
    place.execute("EXEC sys.sp_cdc_disable_table N'dbo', N'Persons', N'all'")
    with pytest.raises(TransientError, match="dbo_Persons no longer exists; DStream looks for its table again"):
        source.page(PageQuery(instance, after=instance.start, upto=upto, rows=9))
