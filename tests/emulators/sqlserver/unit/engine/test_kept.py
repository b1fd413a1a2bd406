"""What a data directory keeps: everything that was committed, as the next engine finds it. A death is a copy of the files of a running one."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path

import pytest

from emulators.sqlserver.build import build_engine, capture_of
from emulators.sqlserver.cdc.capture.capture import scan_by_hand
from emulators.sqlserver.engine.server_engine import SqlEngine
from emulators.sqlserver.engine.store.data_directory import DataDirectory, DataDirectoryError
from emulators.sqlserver.results import LoginRequest, SqlError

from .conftest import Client

Start = Callable[..., SqlEngine]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a server on the directory, or on what another one that still runs has in its own."""
    with ExitStack() as running:

        def started(like: SqlEngine | None = None, directory: str = "data", password: str = "secret") -> SqlEngine:
            path = tmp_path / directory
            if like is not None:
                shutil.copytree(like.home.path, path)
            made = build_engine(users={"sa": password}, databases=["demo"], capture_interval=3600, data_dir=path)
            running.callback(made.close)
            return made

        yield started


def client(engine: SqlEngine, database: str = "demo", user: str = "sa", password: str = "secret") -> Client:
    return Client(engine.login(LoginRequest(user, password, database)))


@pytest.fixture
def reborn(start: Start) -> Callable[[str], tuple[Client, Client]]:
    """Runs a batch in a server that then dies: a client of that one, and one of the server that comes after."""

    def after(sql: str) -> tuple[Client, Client]:
        first = client(engine := start())
        first.run(sql)
        return first, client(start(like=engine, directory="copied"))

    return after


# Data and definitions


def test_rows_of_every_type_are_as_they_were(reborn: Callable[[str], tuple[Client, Client]]) -> None:
    before, after = reborn(
        "CREATE TABLE t (id int IDENTITY(5, 5) PRIMARY KEY, a bigint, b decimal(38, 10), c money, d float, e nvarchar(max), f varbinary(9), "
        "g uniqueidentifier, h date, i time(7), j datetime, k datetime2(3), l datetimeoffset(1), m bit, v rowversion) "
        "INSERT t (a, b, c, d, e, f, g, h, i, j, k, l, m) VALUES (1, 2.5, 3, 4.5, N'\U0001f40e', 0x0102, NEWID(), '2024-01-01', '10:00:01.5', "
        "'2024-01-01', '2024-01-01', '2024-01-01 10:00 +02:00', 1) INSERT t (a) VALUES (NULL)"
    )
    rows = "SELECT * FROM t ORDER BY id"
    assert after.rows(rows) == before.rows(rows)
    assert after.value("SELECT @@DBTS") == before.value("SELECT @@DBTS")


def test_a_constraint_that_is_not_trusted_stays_so(reborn: Callable[[str], tuple[Client, Client]]) -> None:
    _, after = reborn(
        "CREATE TABLE t (n int CHECK (n > 0)) ALTER TABLE t WITH NOCHECK ADD CONSTRAINT late CHECK (n < 9)"
    )
    assert after.rows("SELECT name FROM sys.check_constraints WHERE is_not_trusted = 1") == [("late",)]


def test_what_was_not_committed_is_gone(start: Start) -> None:
    first = client(engine := start())
    first.run("CREATE TABLE t (n int) INSERT t VALUES (1) BEGIN TRAN INSERT t VALUES (2) CREATE TABLE u (n int)")
    after = client(start(like=engine, directory="copied"))
    assert after.rows("SELECT n FROM t") == [(1,)]
    assert after.value("SELECT OBJECT_ID('u')") is None


def test_definitions_hold_and_are_shown_as_before(reborn: Callable[[str], tuple[Client, Client]]) -> None:
    before, after = reborn(
        "CREATE TABLE p (id int NOT NULL CONSTRAINT pk PRIMARY KEY, name nvarchar(20) COLLATE Latin1_General_CS_AS NOT NULL, "
        "price decimal(9, 2) CONSTRAINT df DEFAULT 1.5, twice AS price * 2, CONSTRAINT ck CHECK (price > 0), CONSTRAINT uq UNIQUE (name)) "
        "CREATE TABLE c (id int IDENTITY PRIMARY KEY, p int NULL CONSTRAINT fk REFERENCES p (id), code nvarchar(9), gone bit) "
        "CREATE UNIQUE INDEX ux ON c (code) WHERE gone IS NULL AND code <> N'x' CREATE INDEX ix ON c (p DESC) INCLUDE (gone) "
        "INSERT p (id, name) VALUES (1, N'a') INSERT c (p, code) VALUES (1, N'q')"
    )
    before.run("CREATE SCHEMA s")
    for view in (
        "indexes",
        "columns",
        "check_constraints",
        "default_constraints",
        "foreign_keys",
        "computed_columns",
        "objects",
    ):
        rows = f"SELECT * FROM sys.{view} WHERE object_id > 0"
        assert after.rows(rows) == before.rows(rows), view
    assert after.error("INSERT p (id, name, price) VALUES (2, N'b', -1)")[0] == 547
    assert after.error("INSERT c (p) VALUES (9)")[0] == 547
    assert after.error("INSERT c (code) VALUES (N'Q')")[0] == 2601
    assert after.error("INSERT p (id, name) VALUES (2, N'a')")[0] == 2627
    after.run("INSERT p (id, name) VALUES (2, N'A')")
    assert after.rows("SELECT price, twice FROM p WHERE id = 2") == [("1.50", "3.00")]


def test_a_filtered_index_is_made_with_the_functions_of_the_new_process(start: Start) -> None:
    """SQLite has the condition with numbers that another process gives to other functions."""
    first = client(engine := start())
    first.run("CREATE TABLE t (n int, d date) CREATE UNIQUE INDEX ux ON t (n) WHERE d >= CAST('2024-01-01' AS date)")
    first.run("INSERT t VALUES (1, '2024-02-02')")
    copied = Path(shutil.copytree(engine.home.path, engine.home.path.parent / "copied"))
    [file] = [path for path in copied.glob("*.sqlite") if _spoil_functions(path)]
    after = client(start(directory="copied"))
    assert after.error("INSERT t VALUES (1, '2024-03-03')")[0] == 2601, file
    after.run("INSERT t VALUES (1, '2023-01-01')")


def _spoil_functions(path: Path) -> bool:
    """As another process would have numbered them."""
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA writable_schema = ON")
    found = connection.execute(
        "UPDATE sqlite_master SET sql = replace(sql, 'fn(', 'fn(9999') WHERE type = 'index' AND sql LIKE '%fn(%'"
    )
    connection.commit()
    connection.close()
    return found.rowcount > 0


def test_views_and_schemas_are_there(start: Start) -> None:
    first = client(engine := start())
    first.run("CREATE TABLE t (n int) INSERT t VALUES (1)")
    first.run("CREATE SCHEMA s")
    first.run("CREATE VIEW s.v AS SELECT n + 1 AS m FROM dbo.t WHERE n <> 7")
    first.run("DROP TABLE IF EXISTS nothing")
    after = client(start(like=engine, directory="copied"))
    assert after.rows("SELECT * FROM s.v") == [(2,)]
    assert after.value("SELECT SCHEMA_ID('s')") == first.value("SELECT SCHEMA_ID('s')")


def test_identities_and_object_ids_go_on(start: Start) -> None:
    first = client(engine := start())
    first.run("CREATE TABLE t (id int IDENTITY PRIMARY KEY, n int) INSERT t VALUES (1), (2) DELETE t")
    first.run("CREATE TABLE gone (n int) DROP TABLE gone")
    after = client(start(like=engine, directory="copied"))
    after.run("INSERT t VALUES (3) CREATE TABLE u (n int)")
    assert after.rows("SELECT id FROM t") == [(3,)]
    first.run("CREATE TABLE u (n int)")
    assert after.value("SELECT OBJECT_ID('u')") == first.value("SELECT OBJECT_ID('u')")


def test_an_altered_and_a_truncated_table(reborn: Callable[[str], tuple[Client, Client]]) -> None:
    _, after = reborn(
        "CREATE TABLE t (id int IDENTITY PRIMARY KEY, n int) INSERT t VALUES (1) TRUNCATE TABLE t "
        "ALTER TABLE t ALTER COLUMN n varchar(20) ALTER TABLE t ADD more int NOT NULL DEFAULT 7"
    )
    after.run("INSERT t (n) VALUES ('a')")
    assert after.rows("SELECT id, n, more FROM t") == [(1, "a", 7)]


# Databases


def test_databases_keep_number_collation_options_and_age(start: Start) -> None:
    first = client(engine := start())
    first.run("CREATE DATABASE turkish COLLATE Turkish_CI_AS")
    first.run("CREATE DATABASE gone")
    first.run("DROP DATABASE gone")
    first.run(
        "ALTER DATABASE turkish SET ALLOW_SNAPSHOT_ISOLATION ON ALTER DATABASE turkish SET READ_COMMITTED_SNAPSHOT ON"
    )
    rows = (
        "SELECT name, database_id, collation_name, create_date, snapshot_isolation_state, is_read_committed_snapshot_on "
        "FROM sys.databases WHERE name <> 'tempdb' ORDER BY database_id"
    )
    after = client(start(like=engine, directory="copied"))
    assert after.rows(rows) == first.rows(rows)
    after.run("CREATE DATABASE another")
    assert after.value("SELECT DB_ID('another')") == int(str(first.value("SELECT DB_ID('turkish')"))) + 2


def test_tempdb_is_always_new_and_files_that_nobody_knows_are_removed(start: Start) -> None:
    first = client(engine := start())
    first.run("CREATE TABLE tempdb.dbo.t (n int)")
    first.run("CREATE TABLE #t (n int) INSERT #t VALUES (1)")
    copied = Path(shutil.copytree(engine.home.path, engine.home.path.parent / "copied"))
    (copied / "99.sqlite").write_bytes(b"")
    after = client(start(directory="copied"))
    assert after.value("SELECT OBJECT_ID('tempdb.dbo.t')") is None
    assert not (copied / "99.sqlite").exists()
    assert not list(copied.glob("session-*"))


def test_who_died_before_a_database_had_its_file_finds_it_empty(tmp_path: Path) -> None:
    """In the first start too: master is number 1 whatever happened."""
    directory = DataDirectory(tmp_path)
    directory.new_database("master", "", datetime(2024, 1, 1))
    directory.close()
    engine = build_engine(users={"sa": "secret"}, databases=["demo"], data_dir=tmp_path)
    found = client(engine, "master").rows("SELECT name, database_id FROM sys.databases ORDER BY database_id")
    engine.close()
    assert found == [("master", 1), ("tempdb", 2), ("model", 3), ("msdb", 4), ("demo", 5)]


# The server's own


def test_logins_users_roles_and_permissions_are_there(start: Start) -> None:
    first = client(engine := start())
    first.run(
        "CREATE LOGIN reader WITH PASSWORD = 'a-Password-1' CREATE USER reader FOR LOGIN reader CREATE ROLE readers "
        "ALTER ROLE readers ADD MEMBER reader CREATE TABLE t (n int, secret int) CREATE TABLE u (n int)"
    )
    first.run("GRANT SELECT ON dbo.t (n) TO readers DENY SELECT ON dbo.u TO reader")
    other = start(like=engine, directory="copied")
    reader = client(other, "demo", "reader", "a-Password-1")
    assert reader.rows("SELECT n FROM t") == []
    assert reader.error("SELECT secret FROM t")[0] == 230
    assert reader.error("SELECT n FROM u")[0] == 229
    after = client(other)
    for view in ("database_principals", "database_permissions", "database_role_members", "server_principals"):
        rows = f"SELECT * FROM sys.{view}"
        assert after.rows(rows) == first.rows(rows), view
    after.run("CREATE USER another WITHOUT LOGIN")


def test_the_password_of_the_command_line_holds(start: Start) -> None:
    start().close()
    engine = start(password="another")
    with pytest.raises(SqlError, match="Login failed"):
        client(engine)
    client(engine, password="another")


def test_settings_are_there(start: Start) -> None:
    first = client(engine := start())
    first.run("EXEC sp_configure 'max text repl size', 1000 RECONFIGURE")
    other = start(like=engine, directory="copied")
    after = client(other)
    assert after.rows("EXEC sp_configure 'max text repl size'")[0][-2:] == (1000, 1000)
    after.run("EXEC sys.sp_cdc_enable_db CREATE TABLE t (id int PRIMARY KEY, s nvarchar(max))")
    after.run("EXEC sys.sp_cdc_enable_table 'dbo', 't', @role_name = NULL")
    assert after.error("INSERT t VALUES (1, REPLICATE(CAST(N'x' AS nvarchar(max)), 600))")[0] == 7139


# Change Data Capture


_ENABLE = "EXEC sys.sp_cdc_enable_table 'dbo', 't', @role_name = N'gate'"


@pytest.fixture
def captured(start: Start) -> tuple[SqlEngine, Client]:
    """With a captured row and one that is not captured yet."""
    first = client(engine := start())
    first.run("EXEC sys.sp_cdc_enable_db CREATE TABLE t (id int PRIMARY KEY, s varchar(9))")
    first.run(_ENABLE)
    cdc = capture_of(engine, "demo")
    cdc.stop_job()
    first.run("INSERT t VALUES (1, 'a')")
    scan_by_hand(cdc, 500)
    first.run(
        "INSERT t VALUES (2, 'b') ALTER TABLE t ALTER COLUMN s varchar(20) UPDATE t SET s = 'longer than nine' WHERE id = 1"
    )
    return engine, first


def test_capture_goes_on_where_it_was(start: Start, captured: tuple[SqlEngine, Client]) -> None:
    engine, first = captured
    highest = first.value("SELECT sys.fn_cdc_get_max_lsn()")
    other = start(like=engine, directory="copied")
    after, cdc = client(other), capture_of(other, "demo")
    assert cdc.job_running
    after.run("INSERT t VALUES (3, 'c')")
    scan_by_hand(cdc, 500)
    rows = after.rows(
        "SELECT __$start_lsn, __$operation, id, s FROM cdc.dbo_t_CT ORDER BY __$start_lsn, __$seqval, __$operation"
    )
    assert [row[1:] for row in rows] == [
        (2, 1, "a"),
        (2, 2, "b"),
        (3, 1, "a"),
        (4, 1, "longer than nine"),
        (2, 3, "c"),
    ]
    assert rows[0][0] == highest
    assert len({row[0] for row in rows}) == 4
    assert after.value("SELECT COUNT(*) FROM cdc.ddl_history") == 1
    ids = after.rows("SELECT tran_id FROM cdc.lsn_time_mapping WHERE tran_id <> 0x00")
    assert len(set(ids)) == len(ids)


def test_instances_jobs_and_their_settings_are_there(start: Start, captured: tuple[SqlEngine, Client]) -> None:
    engine, first = captured
    first.run(
        "EXEC sys.sp_cdc_change_job @job_type = 'cleanup', @retention = 77 EXEC sys.sp_cdc_change_job @maxtrans = 9"
    )
    after = client(start(like=engine, directory="copied"))
    for rows in (
        "SELECT * FROM cdc.change_tables",
        "SELECT * FROM cdc.captured_columns",
        "SELECT * FROM msdb.dbo.cdc_jobs",
        "SELECT name, is_cdc_enabled FROM sys.databases",
        "SELECT name, is_tracked_by_cdc FROM sys.tables",
        "SELECT name FROM sys.database_principals",
    ):
        assert after.rows(rows) == first.rows(rows), rows
    assert after.value("SELECT sys.fn_cdc_get_min_lsn('dbo_t')") == first.value(
        "SELECT sys.fn_cdc_get_min_lsn('dbo_t')"
    )


@pytest.mark.parametrize("times", [1, 2])
def test_lsns_grow_although_capture_was_switched_off_before_the_end(
    start: Start, captured: tuple[SqlEngine, Client], times: int
) -> None:
    engine, first = captured
    highest = first.value("SELECT sys.fn_cdc_get_max_lsn()")
    first.run("EXEC sys.sp_cdc_disable_db")
    for n in range(times):
        engine = start(like=engine, directory=f"copied{n}")
    after = client(engine)
    assert after.value("SELECT is_tracked_by_cdc FROM sys.tables") == 0
    after.run("EXEC sys.sp_cdc_enable_db")
    engine = start(like=engine, directory="last")
    after = client(engine)
    after.run(_ENABLE)
    lowest = after.value("SELECT sys.fn_cdc_get_min_lsn('dbo_t')")
    assert isinstance(lowest, bytes)
    assert isinstance(highest, bytes)
    assert lowest > highest


# The directory


def test_a_directory_in_use_is_refused_by_name(start: Start) -> None:
    path = start().home.path
    with pytest.raises(DataDirectoryError, match=rf"{path} is in use by another emulator \(process [0-9]+\)"):
        build_engine(users={}, data_dir=path)


def test_a_closed_one_may_be_opened_again_and_again(start: Start) -> None:
    for times in range(3):
        engine = start()
        if times == 0:
            client(engine).run("CREATE TABLE t (n int)")
        client(engine).run("INSERT t VALUES (1)")
        assert client(engine).value("SELECT COUNT(*) FROM t") == times + 1
        engine.close()


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (
            "PRAGMA user_version = 99",
            r"another version of the emulator \(format 99, not 1\): remove it or take another directory",
        ),
        (None, "server.sqlite in the data directory .* cannot be read"),
    ],
)
def test_files_of_another_kind_are_refused(tmp_path: Path, spoil: str | None, complaint: str) -> None:
    DataDirectory(tmp_path).close()
    if spoil is None:
        (tmp_path / "server.sqlite").write_bytes(b"something else altogether" * 100)
    else:
        with sqlite3.connect(tmp_path / "server.sqlite") as connection:
            connection.execute(spoil)
        connection.close()
    with pytest.raises(DataDirectoryError, match=complaint):
        DataDirectory(tmp_path)
    (tmp_path / "server.sqlite").unlink()
    DataDirectory(tmp_path).close()


def test_databases_without_a_server_are_refused(tmp_path: Path) -> None:
    (tmp_path / "1.sqlite").write_bytes(b"")
    with pytest.raises(DataDirectoryError, match=r"has databases and no server\.sqlite"):
        DataDirectory(tmp_path)


def test_a_directory_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(DataDirectoryError, match="cannot be used"):
        DataDirectory(tmp_path / "file")
