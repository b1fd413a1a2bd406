"""The catalog views have the real names and columns; what drivers and ORMs ask when they connect or reflect runs as it is."""

from __future__ import annotations

import pytest

from emulators.sqlserver.engine.views.register import VIEWS

from .conftest import Client

_TABLE = (
    "CREATE TABLE dbo.t (id int IDENTITY(1, 1) CONSTRAINT pk_t PRIMARY KEY, name nvarchar(20) NULL CONSTRAINT df_t DEFAULT 'x', "
    "price decimal(9, 2) NOT NULL CONSTRAINT uq_t UNIQUE) INSERT t (price) VALUES (1), (2)"
)


@pytest.mark.parametrize("view", sorted(VIEWS))
def test_every_view_can_be_read_whole(client: Client, view: str) -> None:
    client.run(_TABLE)
    for row in client.rows(f"SELECT * FROM {view}"):
        assert len(row) == len(VIEWS[view][0])


def test_a_database_says_what_tools_look_for(client: Client) -> None:
    """https://learn.microsoft.com/sql/relational-databases/system-catalog-views/sys-databases-transact-sql"""
    client.run("ALTER DATABASE demo SET ALLOW_SNAPSHOT_ISOLATION ON")
    assert client.rows(
        "SELECT state_desc, compatibility_level, collation_name, recovery_model_desc, user_access_desc, is_read_only, "
        "log_reuse_wait_desc, snapshot_isolation_state_desc, is_read_committed_snapshot_on, is_cdc_enabled "
        "FROM sys.databases WHERE name = 'demo'"
    ) == [("ONLINE", 160, "SQL_Latin1_General_CP1_CI_AS", "FULL", "MULTI_USER", 0, "NOTHING", "ON", 0, 0)]


def test_principals_members_and_permissions(client: Client) -> None:
    """https://learn.microsoft.com/sql/relational-databases/system-catalog-views/sys-database-permissions-transact-sql"""
    client.run(_TABLE)
    client.run("CREATE LOGIN l WITH PASSWORD = 'x' CREATE USER u FOR LOGIN l CREATE ROLE r ALTER ROLE r ADD MEMBER u")
    client.run("GRANT SELECT ON t TO r DENY CREATE TABLE TO u")
    members = (
        "SELECT r.name, m.name FROM sys.database_role_members AS x JOIN sys.database_principals AS r ON r.principal_id = "
        "x.role_principal_id JOIN sys.database_principals AS m ON m.principal_id = x.member_principal_id ORDER BY 1"
    )
    assert client.rows(members) == [("db_owner", "dbo"), ("r", "u")]
    assert client.rows(
        "SELECT p.class_desc, OBJECT_NAME(p.major_id), USER_NAME(p.grantee_principal_id), p.type, p.permission_name, p.state_desc "
        "FROM sys.database_permissions AS p ORDER BY p.class"
    ) == [
        ("DATABASE", None, "u", "CRTB", "CREATE TABLE", "DENY"),
        ("OBJECT_OR_COLUMN", "t", "r", "SL  ", "SELECT", "GRANT"),
    ]
    assert client.rows("SELECT name, type_desc FROM sys.server_principals WHERE type = 'S' ORDER BY 1") == [
        ("l", "SQL_LOGIN"),
        ("sa", "SQL_LOGIN"),
    ]


def test_a_schema_goes_when_nothing_is_in_it(client: Client) -> None:
    """https://learn.microsoft.com/sql/t-sql/statements/drop-schema-transact-sql: "The schema that is being dropped must not contain any
    objects"; those of every database stay."""
    client.run("CREATE SCHEMA shop")
    client.run("CREATE TABLE shop.t (id int)")
    assert client.error("DROP SCHEMA shop")[0] == 3729
    client.run("DROP TABLE shop.t")
    client.run("CREATE VIEW shop.v AS SELECT 1 AS one")
    assert client.error("DROP SCHEMA shop")[0] == 3729
    client.run("DROP VIEW shop.v")
    client.run("DROP SCHEMA shop")
    assert client.rows("SELECT 1 FROM sys.schemas WHERE name = 'shop'") == []
    client.run("DROP SCHEMA IF EXISTS shop")
    assert client.error("DROP SCHEMA shop")[0] == 15151
    assert client.error("DROP SCHEMA dbo") == (15150, "Cannot drop the schema 'dbo'.")


def test_partitions_count_rows(client: Client) -> None:
    client.run(_TABLE)
    assert client.rows(
        "SELECT SUM(p.rows) FROM sys.partitions AS p WHERE p.object_id = OBJECT_ID('t') AND p.index_id IN (0, 1)"
    ) == [(2,)]


def test_a_session_sees_itself(client: Client) -> None:
    client.run("SET TRANSACTION ISOLATION LEVEL SNAPSHOT BEGIN TRAN")
    assert client.rows(
        "SELECT login_name, transaction_isolation_level, DB_NAME(database_id), open_transaction_count "
        "FROM sys.dm_exec_sessions WHERE session_id = @@SPID"
    ) == [("sa", 5, "demo", 1)]


def test_the_agent_runs(client: Client) -> None:
    assert client.rows("SELECT status_desc FROM sys.dm_server_services WHERE servicename LIKE 'SQL Server Agent%'") == [
        ("Running",)
    ]


PROBES = {
    "SQLAlchemy, version": "SELECT CAST(SERVERPROPERTY('ProductVersion') AS VARCHAR)",
    "SQLAlchemy, large types": "SELECT CAST('test max support' AS NVARCHAR(max))",
    "SQLAlchemy, schema": "SELECT schema_name()",
    "SQLAlchemy, isolation": (
        "SELECT CASE transaction_isolation_level WHEN 0 THEN NULL WHEN 1 THEN 'READ UNCOMMITTED' WHEN 2 THEN 'READ COMMITTED' "
        "WHEN 3 THEN 'REPEATABLE READ' WHEN 4 THEN 'SERIALIZABLE' WHEN 5 THEN 'SNAPSHOT' END AS TRANSACTION_ISOLATION_LEVEL "
        "FROM sys.dm_exec_sessions where session_id = @@SPID"
    ),
    "SQLAlchemy, tables": (
        "SELECT [INFORMATION_SCHEMA].[TABLES].[TABLE_NAME] FROM [INFORMATION_SCHEMA].[TABLES] WHERE "
        "[INFORMATION_SCHEMA].[TABLES].[TABLE_SCHEMA] = CAST(N'dbo' AS NVARCHAR(max)) AND "
        "[INFORMATION_SCHEMA].[TABLES].[TABLE_TYPE] = CAST(N'BASE TABLE' AS NVARCHAR(max)) "
        "ORDER BY [INFORMATION_SCHEMA].[TABLES].[TABLE_NAME]"
    ),
    "SQLAlchemy, columns": (
        "SELECT sys.columns.name, sys.types.name AS name_1, sys.columns.is_nullable, sys.columns.max_length, "
        "sys.columns.precision, sys.columns.scale, sys.default_constraints.definition, sys.columns.collation_name, "
        "sys.computed_columns.definition AS definition_1, sys.computed_columns.is_persisted, "
        "sys.identity_columns.is_identity, sys.identity_columns.seed_value, sys.identity_columns.increment_value, "
        "CAST(sys.extended_properties.value AS NVARCHAR(max)) AS comment FROM sys.columns "
        "JOIN sys.types ON sys.columns.user_type_id = sys.types.user_type_id "
        "LEFT OUTER JOIN sys.default_constraints ON sys.default_constraints.object_id = sys.columns.default_object_id "
        "AND sys.default_constraints.parent_column_id = sys.columns.column_id "
        "LEFT OUTER JOIN sys.computed_columns ON sys.computed_columns.object_id = sys.columns.object_id "
        "AND sys.computed_columns.column_id = sys.columns.column_id "
        "LEFT OUTER JOIN sys.identity_columns ON sys.identity_columns.object_id = sys.columns.object_id "
        "AND sys.identity_columns.column_id = sys.columns.column_id "
        "LEFT OUTER JOIN sys.extended_properties ON sys.extended_properties.class = 1 AND "
        "sys.extended_properties.name = 'MS_Description' AND sys.columns.object_id = sys.extended_properties.major_id "
        "AND sys.columns.column_id = sys.extended_properties.minor_id "
        "WHERE sys.columns.object_id = object_id('dbo.t') ORDER BY sys.columns.column_id"
    ),
    "SQLAlchemy, indexes": (
        "select ind.index_id, ind.is_unique, ind.name, ind.type, ind.filter_definition from sys.indexes as ind "
        "join sys.tables as tab on ind.object_id = tab.object_id join sys.schemas as sch on sch.schema_id = tab.schema_id "
        "where tab.name = N't' and sch.name = N'dbo' and ind.is_primary_key = 0 and ind.type != 0 order by ind.name"
    ),
    "tedious, session": (
        "set ansi_nulls on set ansi_null_dflt_on on set ansi_padding on set ansi_warnings on set arithabort on "
        "set concat_null_yields_null on set cursor_close_on_commit off set datefirst 7 set dateformat mdy "
        "set implicit_transactions off set language us_english set numeric_roundabort off set quoted_identifier on "
        "set textsize 2147483647 set transaction isolation level read committed set xact_abort off SELECT 1"
    ),
    "JDBC, edition": "SELECT SERVERPROPERTY('EngineEdition')",
    "ODBC, options": "SELECT @@OPTIONS, @@TEXTSIZE, @@LANGUAGE, @@MAX_PRECISION, @@SPID",
    "Debezium, agent": (
        "SELECT CASE WHEN dss.[status] = 4 THEN 1 ELSE 0 END AS isRunning FROM sys.dm_server_services dss "
        "WHERE dss.[servicename] LIKE N'SQL Server Agent (%'"
    ),
}


@pytest.mark.parametrize("probe", sorted(PROBES))
def test_what_clients_ask_at_connect_and_for_metadata_runs(client: Client, probe: str) -> None:
    """SQLAlchemy: lib/sqlalchemy/dialects/mssql/base.py; tedious: src/connection.ts; Debezium: SqlServerConnection.java."""
    client.run(_TABLE)
    assert client.rows(PROBES[probe])


def test_reflection_finds_type_default_and_identity(client: Client) -> None:
    client.run(_TABLE)
    found = client.rows(PROBES["SQLAlchemy, columns"])
    assert [(row[0], row[1], row[6], row[10]) for row in found] == [
        ("id", "int", None, 1),
        ("name", "nvarchar", "('x')", None),
        ("price", "decimal", None, None),
    ]


def test_the_catalog_procedures_of_odbc_and_jdbc(client: Client) -> None:
    """https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/catalog-stored-procedures-transact-sql"""
    client.run(_TABLE)
    assert client.rows("EXEC sp_tables @table_name = N't%', @table_owner = N'dbo'") == [
        ("demo", "dbo", "t", "TABLE", None)
    ]
    assert client.rows("EXEC sys.sp_tables 'none'") == []
    assert client.rows("EXEC sp_pkeys @table_name = N't'") == [("demo", "dbo", "t", "id", 1, "pk_t")]
    columns = client.rows("EXEC sp_columns_100 N't', N'dbo', NULL, NULL, @ODBCVer = 3")
    assert [(row[3], row[4], row[5], row[6], row[7], row[8], row[10], row[12], row[16]) for row in columns] == [
        ("id", 4, "int identity", 10, 4, 0, 0, None, 1),
        ("name", -9, "nvarchar", 20, 40, None, 1, "('x')", 2),
        ("price", 3, "decimal", 9, 11, 2, 0, None, 3),
    ]
    statistics = client.rows("EXEC sp_statistics_100 N't'")
    assert [(row[5], row[6], row[7], row[8], row[10]) for row in statistics] == [
        (None, 0, None, None, 2),
        ("pk_t", 1, 1, "id", 2),
        ("uq_t", 3, 1, "price", 2),
    ]
    assert ("demo",) in [row[:1] for row in client.rows("EXEC sp_databases")]


@pytest.mark.parametrize("name", ["sp_help", "sp_who2", "xp_readerrorlog", "sp_describe_first_result_set"])
def test_a_procedure_that_is_not_imitated_is_refused_by_name(client: Client, name: str) -> None:
    number, text = client.error(f"EXEC {name} 't'")
    assert (number, name in text) == (50001, True)
