"""`dstream check` of the database, its tables, the offsets and the locks: what each fault is called, and the remedy beside it."""

from __future__ import annotations

import pytest

from common.sqladdress import SqlAddress
from ingester.sqlserver.connection import Connection
from ingester.sqlserver.offsets import SqlServerOffsets
from ingester.sqlserver.sql import offsets as queries_of_offsets
from tests.contracts.check.conftest import PASSWORD, Place

TABLE = "table dbo.Persons"


def offsets_table(place: Place) -> None:
    place.execute(queries_of_offsets.CREATE)


def reader(place: Place, *grants: str) -> None:
    """The check logs in as a user with these rights and no others."""
    login = f"reader_{place.login.database}"
    place.execute(
        f"CREATE LOGIN {login} WITH PASSWORD = N'{PASSWORD}'",
        f"CREATE USER reader FOR LOGIN {login}",
        *(f"GRANT {grant} TO reader" for grant in grants),
    )
    place.settings["user"] = login


def test_a_sound_installation_is_ok_in_every_line_and_nothing_is_changed(place: Place) -> None:
    report = place.check()
    status, lines = report.status, report.lines
    assert status == 0
    assert {line.split()[0] for line in lines} == {"ok"}
    subjects = [line[6:].partition(":")[0].partition(",")[0].split()[0] for line in lines]
    assert subjects == [
        "Java",
        "Spark's",
        "Spark's",
        "SQL",
        "offsets",
        "table",
        "capture",
        "retention",
        "locks",
        "queue",
        "queue",
        "topic",
        "connections",
    ]
    with place.login.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT COUNT(*) FROM sys.tables WHERE name = 'cdc_offsets'")
        assert cursor.fetchone() == (0,)
    assert place.topic not in [topic.name for topic in place.admin.list_topics()]
    assert place.queue not in [queue.name for queue in place.admin.list_queues()]


def test_a_server_that_is_not_there_fails_and_the_rest_is_checked(place: Place) -> None:
    place.settings["port"] = 1
    report = place.check()
    status, lines = report.status, report.lines
    assert status == 1
    [line] = [line for line in lines if line.startswith("fail  SQL Server: ")]
    assert "cannot be reached" in line
    assert "check host, port and firewall" in line
    assert any(line.startswith("ok    queue") for line in lines)
    assert not any("table" in line.split(":")[0] for line in lines)


def test_a_wrong_password_fails(place: Place) -> None:
    place.settings["password"] = "wrong"
    assert "login refused" in place.check().said("fail", "SQL Server")


def test_a_database_without_cdc_fails_with_the_statement(place: Place) -> None:
    place.execute("EXEC sys.sp_cdc_disable_db")
    assert "EXEC sys.sp_cdc_enable_db" in place.check().said("fail", "CDC")


def test_a_table_that_does_not_exist_and_one_without_cdc_fail(place: Place) -> None:
    place.execute("CREATE TABLE dbo.Plain (ID INT NOT NULL PRIMARY KEY)")
    place.settings["tables"] = '"Persons", "Plain", "Nowhere"'
    report = place.check()
    assert "sp_cdc_enable_table" in report.said("fail", "table dbo.Plain")
    assert "does not exist" in report.said("fail", "table dbo.Nowhere")
    assert report.said("ok", TABLE)


def test_columns_that_are_not_captured_are_warned_of(place: Place) -> None:
    place.execute("ALTER TABLE dbo.Persons ADD Age INT NULL, Town NVARCHAR(20) NULL")
    assert "captures 3 of 5 columns, not Age, Town" in place.check().said("warn", TABLE)


def test_a_column_that_was_dropped_and_added_again_is_warned_of(place: Place) -> None:
    place.execute("ALTER TABLE dbo.Persons ADD Age INT NULL")
    place.execute(
        "EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = N'Persons', @role_name = NULL, "
        "@capture_instance = N'second'"
    )
    place.execute("ALTER TABLE dbo.Persons DROP COLUMN Age", "ALTER TABLE dbo.Persons ADD Age INT NULL")
    warned = [line for line in place.check().lines if line.startswith(f"warn  {TABLE}: ")]
    assert len(warned) == 2
    assert "captures 3 of 4 columns, not Age" in warned[0]
    assert "second was made for the columns Age, which have been dropped since" in warned[1]


@pytest.mark.parametrize("gone", [False, True])
def test_an_offset_of_another_table_that_had_the_name_is_told(place: Place, gone: bool) -> None:
    offsets_table(place)
    place.execute(
        "INSERT INTO dbo.cdc_offsets (table_name, last_lsn, last_seq, last_command_id, last_operation, source_object) "
        "SELECT 'dbo.Persons', 0x00ffffffffffffffffff, 0x00000000000000000001, 1, 2, "
        "CONVERT(nvarchar(12), object_id) + N' ' + CONVERT(nvarchar(23), create_date, 126) FROM sys.tables WHERE name = N'Persons'",
        "DROP TABLE dbo.Persons" if gone else "EXEC sp_rename N'dbo.Persons', N'Persons_old'",
        "CREATE TABLE dbo.Persons (ID INT NOT NULL PRIMARY KEY)",
        "EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = N'Persons', @role_name = NULL, "
        "@capture_instance = N'another'",
    )
    report = place.check()
    if gone:
        assert "changes may be lost" in report.said("fail", TABLE)
    else:
        assert "the rest of that one is sent first" in report.said("warn", TABLE)


def test_a_second_capture_instance_is_told(place: Place) -> None:
    place.execute(
        "EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = N'Persons', @role_name = NULL, "
        "@capture_instance = N'second'"
    )
    assert "dbo_Persons, second" in place.check().said("ok", TABLE)


def test_an_offset_below_the_low_watermark_fails_with_the_way_on(place: Place) -> None:
    offsets_table(place)
    place.execute(
        "INSERT INTO dbo.cdc_offsets (table_name, last_lsn, last_seq, last_command_id, last_operation) "
        "VALUES ('dbo.Persons', 0x00000000000000000001, 0x00000000000000000001, 1, 2)"
    )
    said = place.check().said("fail", TABLE)
    assert "changes were lost" in said
    assert "run dstream offsets set dbo.Persons --earliest --skip and restart" in said
    place.settings["locks"] = 'type = "local"'
    said = place.check("--stage", "ingester").said("fail", TABLE)
    assert "run dstream offsets set dbo.Persons --earliest --skip --take and restart" in said


@pytest.mark.parametrize(
    ("more", "goes_on"),
    [
        ('on_gap = "skip"', "goes on by itself at the low watermark"),
        ('on_gap = "snapshot"', "goes on by itself with a gap event and a snapshot"),
        ('snapshot { mode = "when_needed" }', "goes on by itself with a gap event and a snapshot"),
    ],
)
def test_a_gap_that_the_ingester_passes_by_itself_is_a_warning(place: Place, more: str, goes_on: str) -> None:
    """A person who moved the offset there would lose the gap event and the snapshot."""
    offsets_table(place)
    place.execute(
        "INSERT INTO dbo.cdc_offsets (table_name, last_lsn, last_seq, last_command_id, last_operation) "
        "VALUES ('dbo.Persons', 0x00000000000000000001, 0x00000000000000000001, 1, 2)"
    )
    place.settings["more"] = more
    said = place.check("--stage", "ingester").said("warn", TABLE)
    assert "changes were lost" in said
    assert said.endswith(goes_on)


def test_an_offset_is_told(place: Place) -> None:
    offsets_table(place)
    place.execute(
        "INSERT INTO dbo.cdc_offsets (table_name, last_lsn, last_seq, last_command_id, last_operation) "
        "VALUES ('dbo.Persons', 0x00ffffffffffffffffff, 0x00000000000000000001, 1, 2)"
    )
    assert "offset at LSN 0x00ffffffffffffffffff" in place.check().said("ok", TABLE)


def test_an_offset_whose_changes_are_sent_elsewhere_fails_with_the_statement(place: Place) -> None:
    offsets_table(place)
    place.execute(
        "INSERT INTO dbo.cdc_offsets (table_name, destination) VALUES ('dbo.Persons', N'ns.servicebus.windows.net/q (s/d)')"
    )
    said = place.check().said("fail", TABLE)
    assert "its changes are sent to ns.servicebus.windows.net/q (s/d)" in said
    database = place.login.database.lower()
    assert (
        f"SET destination = N'127.0.0.1/{place.queue} (127-0-0-1/{database})' WHERE table_name = N'dbo.Persons'" in said
    )


@pytest.mark.parametrize("mode", ["direct", "function"])
def test_a_login_without_rights_on_the_changes_fails_with_the_grant(place: Place, mode: str) -> None:
    reader(place, "SELECT ON SCHEMA::dbo", "CREATE TABLE", "ALTER ON SCHEMA::dbo")
    place.settings["more"] = f'query_mode = "{mode}"'
    report = place.check()
    status, lines = report.status, report.lines
    assert status == 1
    assert any(line.startswith("fail ") and "cdc" in line for line in lines)


@pytest.mark.parametrize("mode", ["direct", "function"])
def test_a_login_that_sees_no_table_under_cdc_is_not_told_that_there_is_none(place: Place, mode: str) -> None:
    reader(place)
    place.settings["more"] = f'query_mode = "{mode}"'
    report = place.check("--stage", "ingester")
    assert report.said("warn", "capture") == (
        "this login may not see whether a table is under Change Data Capture: GRANT SELECT ON SCHEMA::cdc to the login's user"
    )
    place.execute("GRANT SELECT ON OBJECT::cdc.change_tables TO reader")
    assert "may not see whether a table is" not in "\n".join(place.check("--stage", "ingester").lines)


def test_a_database_without_a_table_under_cdc_is_told(place: Place) -> None:
    place.execute(
        "EXEC sys.sp_cdc_disable_table @source_schema = N'dbo', @source_name = N'Persons', @capture_instance = N'all'"
    )
    reader(place, "SELECT ON SCHEMA::cdc")
    assert (
        place.check("--stage", "ingester").said("ok", "capture")
        == "no table of the database is under Change Data Capture"
    )


def test_a_login_that_may_not_read_the_times_of_commits_fails_before_its_first_page(place: Place) -> None:
    reader(
        place,
        *(f"SELECT ON OBJECT::cdc.{name}" for name in ("change_tables", "captured_columns", "index_columns")),
        "SELECT ON OBJECT::cdc.dbo_Persons_CT",
        "SELECT ON OBJECT::dbo.Persons",
    )
    assert "GRANT SELECT ON OBJECT::cdc.lsn_time_mapping" in place.check().said("fail", "CDC")


def test_a_gating_role_that_the_login_is_not_in_fails(place: Place) -> None:
    place.execute(
        "EXEC sys.sp_cdc_disable_table @source_schema = N'dbo', @source_name = N'Persons', @capture_instance = N'all'",
        "EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = N'Persons', @role_name = N'gate'",
    )
    reader(place, "SELECT ON SCHEMA::cdc", "SELECT ON SCHEMA::dbo", "CREATE TABLE", "ALTER ON SCHEMA::dbo")
    assert "under CDC as dbo_Persons" in place.check().said("ok", TABLE)  # reads the change table, which no role guards
    place.settings["more"] = 'query_mode = "function"'
    assert "gating role" in place.check().said("fail", TABLE)


def test_offsets_that_cannot_be_made_fail(place: Place) -> None:
    reader(place, "SELECT ON SCHEMA::cdc", "SELECT ON OBJECT::dbo.Persons")
    said = place.check().said("fail", "offsets")
    assert "dbo.cdc_offsets does not exist, or this login may not see it" in said
    place.execute("GRANT SELECT TO reader")
    assert "dbo.cdc_offsets does not exist, and this login may not create it" in place.check().said("fail", "offsets")


def test_offsets_that_the_login_may_not_see_are_not_said_to_be_gone(place: Place) -> None:
    offsets_table(place)
    reader(place)
    said = place.check().said("fail", "offsets")
    assert "dbo.cdc_offsets does not exist, or this login may not see it" in said
    assert "if it exists, GRANT SELECT, INSERT, UPDATE ON OBJECT::dbo.cdc_offsets" in said
    assert "else create it (docs/install.md)" in said


def test_offsets_that_cannot_be_written_fail(place: Place) -> None:
    offsets_table(place)
    reader(place, "SELECT ON SCHEMA::cdc", "SELECT ON SCHEMA::dbo")
    said = place.check().said("fail", "offsets")
    assert "lacks INSERT, UPDATE" in said
    assert "GRANT SELECT, INSERT, UPDATE" in said


def test_an_older_installations_offsets_are_told_and_fail_where_they_cannot_be_upgraded(place: Place) -> None:
    place.execute(
        "CREATE TABLE dbo.cdc_offsets (table_name NVARCHAR(255) NOT NULL PRIMARY KEY, last_lsn VARBINARY(10))"
    )
    assert "are added at the first start" in place.check().said("ok", "offsets")
    reader(
        place,
        "SELECT ON SCHEMA::cdc",
        "SELECT ON SCHEMA::dbo",
        "INSERT ON OBJECT::dbo.cdc_offsets",
        "UPDATE ON OBJECT::dbo.cdc_offsets",
    )
    assert "GRANT ALTER" in place.check().said("fail", "offsets")


def test_what_the_ingester_has_made_is_in_order(place: Place) -> None:
    address = f"sqlserver://sa:{PASSWORD}@127.0.0.1:{place.login.port}?database={place.login.database}&encrypt=disable"
    connection = Connection(SqlAddress.parse(address))
    SqlServerOffsets(connection).ensure()
    connection.close()
    assert place.check().said("ok", "offsets") == "dbo.cdc_offsets may be read and written"


def test_capture_without_a_job_is_warned_of(place: Place) -> None:
    place.execute("EXEC sys.sp_cdc_drop_job N'capture'")
    assert "no capture job" in place.check().said("warn", "capture")


def test_a_short_retention_is_warned_of(place: Place) -> None:
    place.execute("EXEC sys.sp_cdc_change_job @job_type = N'cleanup', @retention = 60")
    assert "kept for 1h" in place.check().said("warn", "retention")


def test_without_a_cleanup_job_nothing_is_removed(place: Place) -> None:
    place.execute("EXEC sys.sp_cdc_drop_job N'cleanup'")
    assert "without a cleanup job" in place.check().said("ok", "retention")


def test_jobs_that_may_not_be_seen_are_a_warning(place: Place) -> None:
    offsets_table(place)
    reader(place, "SELECT ON SCHEMA::cdc", "SELECT ON SCHEMA::dbo", "INSERT ON SCHEMA::dbo", "UPDATE ON SCHEMA::dbo")
    assert "may not see" in place.check().said("warn", "retention")


def test_locks_within_this_process_and_those_of_running_ingesters(place: Place) -> None:
    lock = f"dstream/127-0-0-1/{place.login.database}/dbo.Persons.lock"
    with place.login.connect() as connection, connection.cursor() as cursor:
        cursor.execute(f"EXEC sp_getapplock @Resource = N'{lock}', @LockMode = 'Exclusive', @LockOwner = 'Session'")
        assert "1 of 1 tables are locked" in place.check("--stage", "ingester").said("ok", "locks")
    place.settings["locks"] = 'type = "local"'
    assert "run one ingester" in place.check("--stage", "ingester").said("ok", "locks")


def test_a_storage_account_that_is_not_there_fails(place: Place) -> None:
    place.settings["locks"] = (
        'type = "azure_blob"\n        connection_string = "DefaultEndpointsProtocol=http;AccountName=a;'
        'AccountKey=c2VjcmV0;BlobEndpoint=http://127.0.0.1:1/a"'
    )
    report = place.check("--stage", "ingester")
    status, lines = report.status, report.lines
    assert status == 1
    assert any(line.startswith("fail  locks: looking for container 'locks'") for line in lines)


def test_a_configuration_with_mistakes_is_status_2_with_all_of_them(place: Place) -> None:
    place.settings["more"] = 'page_rows = 0\n    on_gap = "perhaps"'
    report = place.check()
    status, lines = report.status, report.lines
    assert status == 2
    assert [line for line in lines if "page_rows" in line]
    assert [line for line in lines if "on_gap" in line]
