"""Items 16 to 32: enabling and disabling, and what the catalog says of it."""

from __future__ import annotations

import pytest

from tests.emulators.sqlserver.contract.client import Database, Refused
from tests.emulators.sqlserver.contract.labels import item

ENABLE = "EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @role_name = NULL, @source_name = "
TABLES = ("captured_columns", "change_tables", "ddl_history", "index_columns", "lsn_time_mapping")


@item(16, "documented")
def test_an_enabled_database_says_so_and_has_the_tables_of_schema_cdc(database: Database) -> None:
    """The five tables are there and empty.

    Source: Microsoft, "sys.sp_cdc_enable_db (Transact-SQL)".
    """
    enabled = "SELECT is_cdc_enabled FROM sys.databases WHERE name = DB_NAME()"
    assert not database.value(enabled)
    database.run("EXEC sys.sp_cdc_enable_db")
    assert database.value(enabled)
    assert database.value("SELECT COUNT(*) FROM sys.schemas WHERE name = N'cdc'") == 1
    tables = database.column("SELECT name FROM sys.tables WHERE schema_id = SCHEMA_ID(N'cdc')")
    assert set(TABLES) <= set(tables)
    for table in TABLES:
        assert database.value(f"SELECT COUNT(*) FROM cdc.{table}") == 0


@item(16, "documented")
def test_enabling_makes_a_user_named_cdc(database: Database) -> None:
    """Schema cdc belongs to it.

    Source: Microsoft, "sys.sp_cdc_enable_db (Transact-SQL)", remarks.
    """
    database.run("EXEC sys.sp_cdc_enable_db")
    assert database.value("SELECT COUNT(*) FROM sys.database_principals WHERE name = N'cdc' AND type = 'S'") == 1


@item(17, "unverified")
def test_enabling_a_database_twice_is_a_message_and_changes_nothing(persons: Database) -> None:
    """22905 is told with severity 10, which pymssql raises (it does from 6) and python-tds does not.

    Source: Microsoft, "Database engine events and errors", 22905, says the text; its severity nobody has written down.
    """
    if persons.driver == "pymssql":
        assert persons.error("EXEC sys.sp_cdc_enable_db").number == 22905
    else:
        persons.run("EXEC sys.sp_cdc_enable_db")
    assert persons.column("SELECT capture_instance FROM cdc.change_tables") == ["dbo_Persons"]


@item(18, "documented")
@pytest.mark.parametrize(
    "sql",
    [
        "IF EXISTS(select 1 from sys.databases where name = DB_NAME() AND is_cdc_enabled=0)\nEXEC sys.sp_cdc_enable_db",
        (
            "IF NOT EXISTS (SELECT 1 FROM sys.databases WHERE name = DB_NAME() AND is_cdc_enabled = 1)\n"
            "BEGIN\n    EXEC sys.sp_cdc_enable_db;\nEND"
        ),
    ],
    ids=["debezium", "dstream"],
)
def test_enabling_under_a_condition(database: Database, sql: str) -> None:
    """Twice the same: the second time does nothing.

    Source: Microsoft, "IF...ELSE (Transact-SQL)"; Debezium TestHelper; Go dstream.
    """
    database.run(sql)
    database.run(sql)
    assert database.value("SELECT is_cdc_enabled FROM sys.databases WHERE name = DB_NAME()")


@item(19, "documented")
def test_a_table_of_a_database_without_cdc_is_22901(database: Database) -> None:
    """The database comes first.

    Source: Microsoft, "Database engine events and errors", 22901.
    """
    database.run("CREATE TABLE dbo.t (n int NOT NULL PRIMARY KEY)")
    refused = database.error(f"{ENABLE}N't'")
    assert refused.number == 22901
    assert database.database in refused.text


@item(19, "documented")
@pytest.mark.parametrize(
    ("arguments", "number"),
    [
        ("N'Nobody'", 22931),
        ("N'Persons', @captured_column_list = N'ID, Age'", 22942),
        ("N'Persons', @index_name = N'no_such_index', @supports_net_changes = 1", 22928),
    ],
    ids=["table", "column", "index"],
)
def test_what_does_not_exist_cannot_be_enabled(cdc: Database, arguments: str, number: int) -> None:
    """Each has its own number, and nothing is enabled.

    Source: Microsoft, "Database engine events and errors", 22928, 22931, 22942.
    """
    assert cdc.error(f"{ENABLE}{arguments}").number == number
    assert cdc.value("SELECT COUNT(*) FROM cdc.change_tables") == 0


@item(20, "documented")
def test_a_capture_instance_is_named_after_schema_and_table(cdc: Database) -> None:
    """schema_table, and its change table has _CT at the end.

    Source: Microsoft, "sys.sp_cdc_enable_table (Transact-SQL)".
    """
    cdc.run("CREATE SCHEMA sales")
    cdc.run("CREATE TABLE sales.Orders (ID int NOT NULL PRIMARY KEY)")
    cdc.run("EXEC sys.sp_cdc_enable_table @source_schema = N'sales', @source_name = N'Orders', @role_name = NULL")
    assert cdc.rows("SELECT capture_instance, OBJECT_NAME(object_id) FROM cdc.change_tables") == [
        ("sales_Orders", "sales_Orders_CT")
    ]


@item(20, "documented")
def test_a_capture_instance_may_have_up_to_a_hundred_characters(cdc: Database) -> None:
    """One more is 22927.

    Source: Microsoft, "sys.sp_cdc_enable_table (Transact-SQL)"; errors, 22927.
    """
    assert cdc.error(f"{ENABLE}N'Persons', @capture_instance = N'{'x' * 101}'").number == 22927
    cdc.enable(capture_instance=f"N'{'x' * 100}'")
    assert cdc.column("SELECT capture_instance FROM cdc.change_tables") == ["x" * 100]


@item(20, "documented")
def test_a_capture_instance_that_is_taken_is_22926(persons: Database) -> None:
    """Names are unique in the database.

    Source: Microsoft, "sys.sp_cdc_enable_table (Transact-SQL)"; errors, 22926.
    """
    assert persons.error(f"{ENABLE}N'Persons'").number == 22926
    persons.run("CREATE TABLE dbo.t (n int NOT NULL PRIMARY KEY)")
    assert persons.error(f"{ENABLE}N't', @capture_instance = N'dbo_Persons'").number == 22926


@item(21, "documented")
def test_only_the_listed_columns_are_captured(cdc: Database) -> None:
    """Names may be quoted with brackets or double quotes; the order is the table's.

    Source: Microsoft, "sys.sp_cdc_enable_table (Transact-SQL)", @captured_column_list.
    """
    cdc.run("CREATE TABLE dbo.t (id int NOT NULL PRIMARY KEY, [first name] int NULL, [a,b] int NULL, d int NULL)")
    cdc.enable("t", captured_column_list="N'[a,b], \"first name\", id'")
    assert cdc.column("SELECT column_name FROM cdc.captured_columns ORDER BY column_ordinal") == [
        "id",
        "first name",
        "a,b",
    ]
    cdc.run("INSERT INTO dbo.t VALUES (1, 2, 3, 4)")
    cdc.captured(1, "dbo_t")
    assert cdc.changes("id, [first name], [a,b], [__$update_mask]", "dbo_t") == [(1, 2, 3, b"\x07")]


@item(21, "documented")
def test_net_changes_need_the_key_among_the_captured_columns(cdc: Database) -> None:
    """22943.

    Source: Microsoft, "sys.sp_cdc_enable_table (Transact-SQL)"; errors, 22943.
    """
    refused = cdc.error(f"{ENABLE}N'Persons', @captured_column_list = N'LastName', @supports_net_changes = 1")
    assert refused.number == 22943


@item(22, "documented")
def test_net_changes_need_a_unique_index(cdc: Database) -> None:
    """22939.

    Source: Microsoft, "sys.sp_cdc_enable_table (Transact-SQL)"; errors, 22939.
    """
    cdc.run("CREATE TABLE dbo.t (n int NULL)")
    assert cdc.error(f"{ENABLE}N't', @supports_net_changes = 1").number == 22939


@item(22, "unverified")
def test_net_changes_are_the_default_of_a_table_with_a_primary_key(cdc: Database) -> None:
    """And not of one without.

    Source: Microsoft, "sys.sp_cdc_enable_table (Transact-SQL)" says so; a measurement of SQL Server 2025 says 0.
    """
    cdc.run("CREATE TABLE dbo.t (n int NULL)")
    cdc.enable()
    cdc.enable("t")
    rows = cdc.rows("SELECT capture_instance, supports_net_changes FROM cdc.change_tables")
    assert {name: bool(net) for name, net in rows} == {"dbo_Persons": True, "dbo_t": False}


@item(23, "documented")
def test_a_table_has_at_most_two_capture_instances(persons: Database) -> None:
    """The third is 22962.

    Source: Microsoft, "sys.sp_cdc_enable_table (Transact-SQL)"; errors, 22962; measured on SQL Server 2025.
    """
    persons.enable(capture_instance="N'second'")
    assert persons.error(f"{ENABLE}N'Persons', @capture_instance = N'third'").number == 22962
    persons.run("EXEC sys.sp_cdc_disable_table N'dbo', N'Persons', N'second'")
    persons.enable(capture_instance="N'third'")


@item(24, "documented")
def test_a_captured_table_says_so(cdc: Database) -> None:
    """Until its last capture instance goes.

    Source: Microsoft, "sys.tables (Transact-SQL)"; Debezium IS_CDC_TABLE_ENABLED.
    """
    tracked = "SELECT is_tracked_by_cdc FROM sys.tables WHERE name = 'Persons'"
    assert not cdc.value(tracked)
    cdc.enable()
    cdc.enable(capture_instance="N'second'")
    assert cdc.value(tracked)
    cdc.run("EXEC sys.sp_cdc_disable_table N'dbo', N'Persons', N'second'")
    assert cdc.value(tracked)
    cdc.run("EXEC sys.sp_cdc_disable_table N'dbo', N'Persons', N'dbo_Persons'")
    assert not cdc.value(tracked)


@item(25, "documented")
def test_help_describes_each_capture_instance(cdc: Database) -> None:
    """The page's columns in their order, one row an instance.

    Source: Microsoft, "sys.sp_cdc_help_change_data_capture (Transact-SQL)".
    """
    cdc.enable(supports_net_changes="1")
    call = "EXEC sys.sp_cdc_help_change_data_capture"
    assert cdc.columns(call)[:15] == [
        *("source_schema", "source_table", "capture_instance", "object_id", "source_object_id", "start_lsn", "end_lsn"),
        *("supports_net_changes", "has_drop_pending", "role_name", "index_name", "filegroup_name", "create_date"),
        *("index_column_list", "captured_column_list"),
    ]
    (row,) = cdc.named(call)
    assert (row["source_schema"], row["source_table"], row["capture_instance"]) == ("dbo", "Persons", "dbo_Persons")
    assert (row["object_id"], row["source_object_id"]) == (
        cdc.value("SELECT OBJECT_ID(N'cdc.dbo_Persons_CT')"),
        cdc.value("SELECT OBJECT_ID(N'dbo.Persons')"),
    )
    assert (row["end_lsn"], row["role_name"], bool(row["supports_net_changes"])) == (None, None, True)
    assert row["index_column_list"] == "[ID]"
    assert row["captured_column_list"] == "[ID], [FirstName], [LastName]"


@item(25, "documented")
def test_help_of_one_table_shows_that_table(persons: Database) -> None:
    """And no other.

    Source: Microsoft, "sys.sp_cdc_help_change_data_capture (Transact-SQL)", arguments.
    """
    persons.run("CREATE TABLE dbo.t (n int NOT NULL PRIMARY KEY)")
    persons.enable("t")
    call = "EXEC sys.sp_cdc_help_change_data_capture @source_schema = N'dbo', @source_name = N't'"
    assert [row["capture_instance"] for row in persons.named(call)] == ["dbo_t"]


@item(25, "documented")
def test_captured_columns_are_told_by_a_procedure(persons: Database) -> None:
    """One row a column, with its type.

    Source: Microsoft, "sys.sp_cdc_get_captured_columns (Transact-SQL)".
    """
    rows = persons.named("EXEC sys.sp_cdc_get_captured_columns @capture_instance = N'dbo_Persons'")
    described = [
        (r["column_name"], r["data_type"], r["character_maximum_length"], r["numeric_precision"]) for r in rows
    ]
    assert described == [
        ("ID", "int", None, 10),
        ("FirstName", "nvarchar", 50, None),
        ("LastName", "nvarchar", 50, None),
    ]


@item(26, "documented")
@pytest.mark.parametrize(
    ("table", "columns"),
    [
        (
            "change_tables",
            (
                "object_id version source_object_id capture_instance start_lsn end_lsn supports_net_changes has_drop_pending "
                "role_name index_name filegroup_name create_date partition_switch"
            ),
        ),
        ("captured_columns", "object_id column_name column_id column_type column_ordinal is_computed"),
        ("index_columns", "object_id column_name index_ordinal column_id"),
        ("ddl_history", "source_object_id object_id required_column_update ddl_command ddl_lsn ddl_time"),
    ],
)
def test_the_tables_of_schema_cdc_have_their_columns(persons: Database, table: str, columns: str) -> None:
    """In the order of the page; newer versions add some at the end.

    Source: Microsoft, "cdc.change_tables", "cdc.captured_columns", "cdc.index_columns", "cdc.ddl_history (Transact-SQL)".
    """
    expected = columns.split()
    assert persons.columns(f"SELECT * FROM cdc.{table}")[: len(expected)] == expected


@item(26, "documented")
def test_captured_and_key_columns_join_with_their_change_table(cdc: Database) -> None:
    """column_id is the source's, column_ordinal counts the captured ones.

    Source: Microsoft, "cdc.captured_columns (Transact-SQL)", "cdc.index_columns (Transact-SQL)".
    """
    cdc.enable(captured_column_list="N'ID, LastName'")
    assert cdc.rows(
        "SELECT cc.column_name, cc.column_id, cc.column_type, cc.column_ordinal, ic.index_ordinal, t.capture_instance "
        "FROM cdc.captured_columns AS cc JOIN cdc.change_tables AS t ON t.object_id = cc.object_id "
        "LEFT JOIN cdc.index_columns AS ic ON ic.object_id = cc.object_id AND ic.column_id = cc.column_id "
        "ORDER BY cc.column_ordinal"
    ) == [("ID", 1, "int", 1, 1, "dbo_Persons"), ("LastName", 3, "nvarchar", 2, None, "dbo_Persons")]


@item(26, "documented")
def test_debeziums_metadata_queries(persons: Database) -> None:
    """As they are, with the database's name in every place.

    Source: Debezium SqlServerConnection.java, GET_CAPTURED_COLUMNS and GET_CHANGE_TABLES.
    """
    name = persons.database
    change_table = persons.value("SELECT OBJECT_ID(N'cdc.dbo_Persons_CT')")
    assert persons.rows(
        f"SELECT object_id, column_name FROM [{name}].cdc.captured_columns ORDER BY object_id, column_id"
    ) == [(change_table, column) for column in ("ID", "FirstName", "LastName")]
    low = persons.value("SELECT start_lsn FROM cdc.change_tables")
    assert persons.rows(
        "WITH ordered_change_tables AS (SELECT ROW_NUMBER() OVER (PARTITION BY ct.source_object_id, ct.start_lsn "
        f"ORDER BY ct.create_date DESC) AS ct_sequence, ct.* FROM [{name}].cdc.change_tables AS ct) "
        "SELECT OBJECT_SCHEMA_NAME(source_object_id, DB_ID(%s)), OBJECT_NAME(source_object_id, DB_ID(%s)), "
        "capture_instance, object_id, start_lsn FROM ordered_change_tables WHERE ct_sequence = 1",
        *(name, name),
    ) == [("dbo", "Persons", "dbo_Persons", change_table, low)]


@item(27, "documented")
def test_change_tables_that_are_new_since_an_lsn(persons: Database) -> None:
    """BETWEEN over start_lsn, as Debezium asks for them.

    Source: Debezium SqlServerConnection.java, GET_NEW_CHANGE_TABLES; Microsoft, "cdc.change_tables (Transact-SQL)".
    """
    persons.settled()
    before = persons.value("SELECT sys.fn_cdc_get_max_lsn()")
    persons.enable(capture_instance="N'second'")
    persons.settled()
    now = persons.value("SELECT sys.fn_cdc_get_max_lsn()")
    query = f"SELECT * FROM [{persons.database}].cdc.change_tables WHERE start_lsn BETWEEN %s AND %s"
    assert [row["capture_instance"] for row in persons.named(query, before, now)] == ["second"]


@item(28, "documented")
def test_information_schema_lists_the_columns_of_both(persons: Database) -> None:
    """The Go dstream's queries.

    Source: Microsoft, "COLUMNS (Transact-SQL)"; Go dstream, table_metadata.go and batchsizer.go.
    """
    query = "SELECT COLUMN_NAME FROM INFORMATION_SCHEMA.COLUMNS WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s"
    assert persons.column(query, "dbo", "Persons") == ["ID", "FirstName", "LastName"]
    assert persons.column(
        "\n\t\tSELECT COLUMN_NAME\n\t\tFROM INFORMATION_SCHEMA.COLUMNS\n\t\tWHERE TABLE_NAME = 'dbo_Persons_CT'\n"
        "\t\tAND TABLE_SCHEMA = 'cdc'\n\t"
    ) == [
        "__$start_lsn",
        "__$end_lsn",
        "__$seqval",
        "__$operation",
        "__$update_mask",
        "ID",
        "FirstName",
        "LastName",
        "__$command_id",
    ]


@item(28, "documented")
def test_information_schema_tells_types_and_sizes(database: Database) -> None:
    """Lengths in characters, -1 for max; NULL where a column has none.

    Source: Microsoft, "COLUMNS (Transact-SQL)".
    """
    database.run(
        "CREATE TABLE dbo.t (a int NOT NULL, b nvarchar(50) NULL, c varchar(max) NULL, d decimal(10, 2) NULL, e datetime2(3))"
    )
    assert database.rows(
        "SELECT COLUMN_NAME, ORDINAL_POSITION, IS_NULLABLE, DATA_TYPE, CHARACTER_MAXIMUM_LENGTH, NUMERIC_PRECISION, "
        "NUMERIC_SCALE, DATETIME_PRECISION FROM INFORMATION_SCHEMA.COLUMNS WHERE TABLE_NAME = N't' ORDER BY ORDINAL_POSITION"
    ) == [
        ("a", 1, "NO", "int", None, 10, 0, None),
        ("b", 2, "YES", "nvarchar", 50, None, None, None),
        ("c", 3, "YES", "varchar", -1, None, None, None),
        ("d", 4, "YES", "decimal", None, 10, 2, None),
        ("e", 5, "YES", "datetime2", None, None, None, 3),
    ]


@item(29, "documented")
def test_a_primary_key_is_found_in_the_catalog_views(database: Database) -> None:
    """Its columns in the key's order, which need not be the table's.

    Source: Microsoft, "sys.key_constraints", "sys.index_columns (Transact-SQL)".
    """
    database.run("CREATE TABLE dbo.t (a int NOT NULL, b int NOT NULL, c int NULL, CONSTRAINT PK_t PRIMARY KEY (b, a))")
    database.run("CREATE UNIQUE INDEX other ON dbo.t (c)")
    assert database.rows(
        "SELECT kc.name, c.name, ic.key_ordinal, TYPE_NAME(c.system_type_id) FROM sys.key_constraints AS kc "
        "JOIN sys.index_columns AS ic ON ic.object_id = kc.parent_object_id AND ic.index_id = kc.unique_index_id "
        "JOIN sys.columns AS c ON c.object_id = ic.object_id AND c.column_id = ic.column_id "
        "WHERE kc.type = 'PK' AND kc.parent_object_id = OBJECT_ID(N'dbo.t') ORDER BY ic.key_ordinal"
    ) == [("PK_t", "b", 1, "int"), ("PK_t", "a", 2, "int")]


@item(30, "documented")
def test_a_change_table_has_its_columns(cdc: Database) -> None:
    """Metadata, captured columns, and __$command_id last; captured ones are nullable whatever the source says.

    Source: Microsoft, "cdc.<capture_instance>_CT (Transact-SQL)"; the nullability measured on SQL Server 2025.
    """
    cdc.run("CREATE TABLE dbo.t (id int NOT NULL PRIMARY KEY, v nvarchar(20) NOT NULL, w decimal(10, 2) NOT NULL)")
    cdc.enable("t")
    assert cdc.rows(
        "SELECT name, TYPE_NAME(system_type_id), max_length, precision, scale, CONVERT(int, is_nullable) "
        "FROM sys.columns WHERE object_id = OBJECT_ID(N'cdc.dbo_t_CT') ORDER BY column_id"
    ) == [
        ("__$start_lsn", "binary", 10, 0, 0, 0),
        ("__$end_lsn", "binary", 10, 0, 0, 1),
        ("__$seqval", "binary", 10, 0, 0, 0),
        ("__$operation", "int", 4, 10, 0, 0),
        ("__$update_mask", "varbinary", 128, 0, 0, 1),
        ("id", "int", 4, 10, 0, 1),
        ("v", "nvarchar", 40, 0, 0, 1),
        ("w", "decimal", 9, 10, 2, 1),
        ("__$command_id", "int", 4, 10, 0, 1),
    ]


@item(30, "measured")
def test_a_change_table_is_clustered_over_the_position_of_a_change(persons: Database) -> None:
    """Unique: start LSN, command id, seqval, operation.

    Source: measured on SQL Server 2025; Debezium PR #6279.
    """
    assert persons.column(
        "SELECT c.name FROM sys.indexes AS i JOIN sys.index_columns AS ic ON ic.object_id = i.object_id "
        "AND ic.index_id = i.index_id JOIN sys.columns AS c ON c.object_id = ic.object_id AND c.column_id = ic.column_id "
        "WHERE i.object_id = OBJECT_ID(N'cdc.dbo_Persons_CT') AND i.type = 1 AND i.is_unique = 1 ORDER BY ic.key_ordinal"
    ) == ["__$start_lsn", "__$command_id", "__$seqval", "__$operation"]


@item(31, "documented")
@pytest.mark.parametrize("row_filter", ["all", "all update old"])
def test_the_function_returns_four_columns_before_the_captured_ones(persons: Database, row_filter: str) -> None:
    """No end LSN, no command id.

    Source: Microsoft, "cdc.fn_cdc_get_all_changes_<capture_instance> (Transact-SQL)"; measured on SQL Server 2025.
    """
    persons.run("INSERT INTO dbo.Persons (ID) VALUES (1)")
    persons.captured(1)
    columns = persons.columns(
        "DECLARE @to binary(10) SET @to = sys.fn_cdc_get_max_lsn() SELECT * FROM "
        f"cdc.fn_cdc_get_all_changes_dbo_Persons(sys.fn_cdc_get_min_lsn('dbo_Persons'), @to, N'{row_filter}')"
    )
    assert columns == ["__$start_lsn", "__$seqval", "__$operation", "__$update_mask", "ID", "FirstName", "LastName"]


@item(32, "documented")
def test_disabling_a_table_removes_its_change_tables_and_functions(persons: Database) -> None:
    """Afterwards the function is unknown: 208 with its name.

    Source: Microsoft, "sys.sp_cdc_disable_table (Transact-SQL)"; Debezium MISSING_CDC_FUNCTION.
    """
    persons.enable(capture_instance="N'second'")
    persons.run(
        "EXEC sys.sp_cdc_disable_table @source_schema = N'dbo', @source_name = N'Persons', @capture_instance = 'all'"
    )
    assert persons.column("SELECT name FROM sys.tables WHERE name LIKE '%[_]CT'") == []
    assert persons.value("SELECT COUNT(*) FROM cdc.change_tables") == 0
    refused = persons.error("SELECT * FROM cdc.fn_cdc_get_all_changes_dbo_Persons(0x00, 0x00, N'all')")
    assert refused.number == 208
    assert "'cdc.fn_cdc_get_all_changes_dbo_Persons'" in refused.text


@item(32, "documented")
def test_disabling_a_table_that_is_not_captured_is_refused(persons: Database) -> None:
    """22960 for an instance that the table does not have.

    Source: Microsoft, "sys.sp_cdc_disable_table (Transact-SQL)"; errors, 22960.
    """
    call = "EXEC sys.sp_cdc_disable_table @source_schema = N'dbo', @source_name = N'Persons', @capture_instance = N'nobody'"
    assert persons.error(call).number == 22960


@item(32, "documented")
def test_disabling_a_database_removes_schema_cdc(persons: Database) -> None:
    """With every table, function and job in it.

    Source: Microsoft, "sys.sp_cdc_disable_db (Transact-SQL)".
    """
    persons.run("EXEC sys.sp_cdc_disable_db")
    assert not persons.value("SELECT is_cdc_enabled FROM sys.databases WHERE name = DB_NAME()")
    assert persons.value("SELECT COUNT(*) FROM sys.schemas WHERE name = N'cdc'") == 0
    assert not persons.value("SELECT is_tracked_by_cdc FROM sys.tables WHERE name = 'Persons'")
    with pytest.raises(Refused) as refused:
        persons.rows("SELECT * FROM cdc.change_tables")
    assert refused.value.number == 208
    persons.run("EXEC sys.sp_cdc_enable_db")
    assert persons.value("SELECT COUNT(*) FROM cdc.change_tables") == 0
