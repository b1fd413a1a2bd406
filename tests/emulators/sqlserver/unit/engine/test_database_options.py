"""ALTER DATABASE ... SET: an option does what it says, or is refused by its name. What other sessions see of it is the contract's."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from emulators.sqlserver.build import build_engine
from emulators.sqlserver.engine.server_engine import SqlEngine
from emulators.sqlserver.results import Cancelled, LoginRequest, SqlError

from .conftest import Client

_STATES = (
    "SELECT user_access_desc, state_desc, recovery_model_desc FROM sys.databases WHERE name = 'other' "
    "UNION ALL SELECT CONVERT(nvarchar(60), DATABASEPROPERTYEX('other', 'UserAccess')), "
    "CONVERT(nvarchar(60), DATABASEPROPERTYEX('other', 'Status')), CONVERT(nvarchar(60), DATABASEPROPERTYEX('other', 'Recovery'))"
)


@pytest.mark.parametrize(
    "option",
    [
        "RECOVERY FULL",
        "AUTO_CLOSE OFF",
        "AUTO_SHRINK OFF",
        "COMPATIBILITY_LEVEL = 160",
        "PAGE_VERIFY CHECKSUM",
        "READ_WRITE",
        "ALLOW_SNAPSHOT_ISOLATION OFF",
        "READ_COMMITTED_SNAPSHOT OFF WITH ROLLBACK IMMEDIATE",
        "MULTI_USER WITH NO_WAIT",
        "ONLINE",
    ],
)
def test_what_a_database_already_is_may_be_set(client: Client, option: str) -> None:
    before = client.rows("SELECT * FROM sys.databases")
    client.run(f"ALTER DATABASE demo SET {option} SELECT 1")
    assert client.rows("SELECT * FROM sys.databases") == before


@pytest.mark.parametrize(
    ("option", "name"),
    [
        ("AUTO_CLOSE ON", "AUTO_CLOSE ON"),
        ("AUTO_SHRINK ON", "AUTO_SHRINK ON"),
        ("COMPATIBILITY_LEVEL = 110", "COMPATIBILITY_LEVEL 110"),
        ("READ_ONLY", "READ_ONLY"),
        ("EMERGENCY", "EMERGENCY"),
        ("RECOVERY SOMEHOW", "RECOVERY SOMEHOW"),
        ("QUERY_STORE = ON", "QUERY_STORE ON"),
        ("DELAYED_DURABILITY = FORCED", "DELAYED_DURABILITY FORCED"),
        ("CHANGE_TRACKING = ON", "CHANGE_TRACKING ON"),
        ("RECOVERY SIMPLE, AUTO_CLOSE OFF", "several options"),
        ("QUERY_STORE (OPERATION_MODE = READ_WRITE)", "QUERY_STORE"),
        ("CHANGE_TRACKING = ON (CHANGE_RETENTION = 2 DAYS)", "CHANGE_TRACKING ON"),
        ("AUTO_CREATE_STATISTICS ON (INCREMENTAL = ON)", "AUTO_CREATE_STATISTICS ON"),
        ("TARGET_RECOVERY_TIME = 60 SECONDS", "TARGET_RECOVERY_TIME"),
        ("ENCRYPTION ON", "ENCRYPTION ON"),
        ("PARTNER = 'TCP://x:5022'", "PARTNER"),
    ],
)
def test_an_option_without_its_effect_is_refused_by_name(client: Client, option: str, name: str) -> None:
    before = client.rows("SELECT * FROM sys.databases")
    number, text = client.error(f"ALTER DATABASE demo SET {option}")
    assert number == 50001
    assert name in text
    assert client.rows("SELECT * FROM sys.databases") == before


def test_the_recovery_model_is_what_was_set(client: Client) -> None:
    client.run("CREATE DATABASE other")
    for model in ("SIMPLE", "BULK_LOGGED", "FULL"):
        client.run(f"ALTER DATABASE other SET RECOVERY {model}")
        assert client.rows(_STATES) == [("MULTI_USER", "ONLINE", model)] * 2


def test_an_offline_database_takes_no_other_option(client: Client) -> None:
    client.run("CREATE DATABASE other")
    client.run("ALTER DATABASE other SET OFFLINE")
    assert client.error("ALTER DATABASE other SET RECOVERY SIMPLE")[0] == 50001
    client.run("ALTER DATABASE other SET SINGLE_USER")
    assert client.rows(_STATES) == [("SINGLE_USER", "OFFLINE", "FULL")] * 2
    client.run("DROP DATABASE other")


def test_a_catch_block_sees_the_last_of_two_errors(client: Client, connect: Callable[[], Client]) -> None:
    other = connect()
    failing = "ALTER DATABASE demo SET SINGLE_USER WITH NO_WAIT"
    assert both(client, failing) == (5070, 5069)
    assert client.value(f"BEGIN TRY {failing} END TRY BEGIN CATCH SELECT ERROR_NUMBER() END CATCH") == 5069
    assert other.value("SELECT 1") == 1


def both(client: Client, sql: str) -> tuple[int, int]:
    """The numbers of two errors that one statement ends with."""
    with pytest.raises(SqlError) as last:
        client.run(sql)
    assert last.value.earlier is not None
    return last.value.earlier.number, last.value.number


def test_versions_need_the_database_alone(client: Client, connect: Callable[[], Client]) -> None:
    connect()
    assert both(client, "ALTER DATABASE demo SET READ_COMMITTED_SNAPSHOT ON WITH NO_WAIT") == (5070, 5069)
    assert client.error("ALTER DATABASE demo SET ALLOW_SNAPSHOT_ISOLATION ON WITH NO_WAIT")[0] == 5083
    client.run("ALTER DATABASE demo SET READ_COMMITTED_SNAPSHOT ON WITH ROLLBACK IMMEDIATE")
    assert client.value("SELECT is_read_committed_snapshot_on FROM sys.databases WHERE name = 'demo'") == 1


def test_a_wait_for_others_ends_when_its_client_cancels_it(client: Client, connect: Callable[[], Client]) -> None:
    """The database stays as it is: an attention ends what no LOCK_TIMEOUT does."""
    other = connect()
    asked = iter(range(1_000))
    events = client.session.batch("ALTER DATABASE demo SET SINGLE_USER", {}, lambda: next(asked) > 20)
    with pytest.raises(Cancelled):
        list(events)
    assert client.value("SELECT user_access_desc FROM sys.databases WHERE name = 'demo'") == "MULTI_USER"
    assert other.value("SELECT 1") == 1


def test_states_outlive_the_server(tmp_path: Path) -> None:
    first = _started(tmp_path / "data")
    client = Client(first.login(LoginRequest("sa", "secret", "demo")))
    client.run("CREATE DATABASE other")
    client.run("EXEC sys.sp_cdc_enable_db ALTER DATABASE other SET RECOVERY SIMPLE")
    client.run("ALTER DATABASE other SET RESTRICTED_USER")
    client.run("ALTER DATABASE other SET OFFLINE ALTER DATABASE demo SET OFFLINE")
    shutil.copytree(tmp_path / "data", tmp_path / "copied")
    first.close()
    second = _started(tmp_path / "copied")
    try:
        after = Client(second.login(LoginRequest("sa", "secret", "master")))
        assert after.rows(_STATES) == [("RESTRICTED_USER", "OFFLINE", "SIMPLE")] * 2
        with pytest.raises(SqlError) as refused:
            second.login(LoginRequest("sa", "secret", "demo"))
        assert refused.value.number == 4060
        after.run("ALTER DATABASE demo SET ONLINE USE demo")
        assert after.value("SELECT is_cdc_enabled FROM sys.databases WHERE name = 'demo'") == 1
    finally:
        second.close()


def test_a_directory_from_before_there_were_states_is_taken_up(tmp_path: Path) -> None:
    _started(tmp_path).close()
    with sqlite3.connect(tmp_path / "server.sqlite") as server:
        for column in ("access", "offline", "recovery_model"):
            server.execute(f"ALTER TABLE databases DROP COLUMN {column}")
    server.close()
    engine = _started(tmp_path)
    try:
        client = Client(engine.login(LoginRequest("sa", "secret", "demo")))
        client.run("CREATE DATABASE other")
        assert client.rows(_STATES.replace("'other'", "'demo'")) == [("MULTI_USER", "ONLINE", "FULL")] * 2
    finally:
        engine.close()


def test_the_servers_time_zone_is_utc(client: Client) -> None:
    assert client.value("SELECT DATENAME(tzoffset, SYSDATETIMEOFFSET())") == "+00:00"


def test_what_is_said_of_a_database_that_was_dropped_meanwhile_does_not_bring_it_back(tmp_path: Path) -> None:
    engine = _started(tmp_path)
    client = Client(engine.login(LoginRequest("sa", "secret", "master")))
    client.run("CREATE DATABASE other")
    other = engine.find("other")
    assert other is not None
    client.run("DROP DATABASE other")
    with pytest.raises(SqlError) as gone:
        other.make_available(other.availability, client)
    assert gone.value.number == 911
    engine.save_options(other)
    engine.close()
    engine = _started(tmp_path)
    assert engine.find("other") is None
    engine.close()


def test_the_right_to_alter_a_database_is_that_of_the_one_that_is_named(engine: SqlEngine, client: Client) -> None:
    client.run("CREATE DATABASE other")
    client.run("CREATE LOGIN bob WITH PASSWORD = 'pw' CREATE USER bob FOR LOGIN bob")
    client.run("ALTER ROLE db_owner ADD MEMBER bob")
    bob = Client(engine.login(LoginRequest("bob", "pw", "demo")))
    assert bob.error("ALTER DATABASE other SET OFFLINE WITH ROLLBACK IMMEDIATE")[0] == 5011
    bob.run("USE master")
    bob.run("ALTER DATABASE demo SET RECOVERY SIMPLE")
    assert client.value("SELECT state_desc FROM sys.databases WHERE name = 'other'") == "ONLINE"
    assert client.value("SELECT recovery_model_desc FROM sys.databases WHERE name = 'demo'") == "SIMPLE"


def _started(path: Path) -> SqlEngine:
    return build_engine(users={"sa": "secret"}, databases=["demo"], capture_interval=3600, data_dir=path)
