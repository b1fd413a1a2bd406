"""What ORMs ask when they connect, reflect and migrate: SQLAlchemy, Entity Framework Core, Django. Each statement and its answer.

The statements are ours, of the kind that those were seen to send or that their pages describe: the same views, joins and functions.
SQLAlchemy 2.1 over pymssql was run against the emulator as a whole; none of the ORMs is needed here.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from emulators.sqlserver.results import Session
from tests.emulators.sqlserver.wire.statements import Row, answer, session_after


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    statements = (
        "CREATE SCHEMA sales",
        (
            "CREATE TABLE dbo.people (id int IDENTITY(10, 5) NOT NULL CONSTRAINT pk_people PRIMARY KEY, "
            "name nvarchar(20) NOT NULL CONSTRAINT uq_name UNIQUE, born date NULL, debt decimal(12, 3) NOT NULL CONSTRAINT df_debt "
            "DEFAULT (0) CONSTRAINT ck_debt CHECK (debt >= 0), twice AS (id * 2), seen rowversion)"
        ),
        (
            "CREATE TABLE sales.orders (id bigint NOT NULL, person int NULL, note varchar(50) COLLATE Latin1_General_CI_AS NULL, "
            "CONSTRAINT pk_orders PRIMARY KEY NONCLUSTERED (id), "
            "CONSTRAINT fk_person FOREIGN KEY (person) REFERENCES dbo.people (id))"
        ),
        "CREATE INDEX ix_note ON sales.orders (note DESC) INCLUDE (person)",
        "CREATE UNIQUE INDEX ux_note ON sales.orders (note) WHERE [note] IS NOT NULL",
        "CREATE VIEW dbo.debtors AS SELECT id, name FROM dbo.people WHERE debt > 0",
    )
    with session_after(statements) as made:
        yield made


CONNECTING: list[tuple[str, list[Row]]] = [
    ("SELECT CAST('test' AS nvarchar(max))", [("test",)]),
    ("SELECT SCHEMA_NAME()", [("dbo",)]),
    ("SELECT CAST(SERVERPROPERTY('ProductVersion') AS varchar)", [("16.0.1000.6",)]),
    ("SELECT SERVERPROPERTY('EngineEdition')", [(3,)]),
    (
        "SELECT name FROM sys.system_views WHERE name IN (N'dm_exec_sessions', N'dm_pdw_nodes_exec_sessions')",
        [("dm_exec_sessions",)],
    ),
    (
        (
            "SELECT CASE transaction_isolation_level WHEN 0 THEN NULL WHEN 1 THEN 'READ UNCOMMITTED' WHEN 2 THEN 'READ COMMITTED' "
            "WHEN 3 THEN 'REPEATABLE READ' WHEN 4 THEN 'SERIALIZABLE' WHEN 5 THEN 'SNAPSHOT' END FROM sys.dm_exec_sessions "
            "WHERE session_id = @@SPID"
        ),
        [("READ COMMITTED",)],
    ),
    ("SELECT 1 WHERE CAST(SERVERPROPERTY('Edition') AS nvarchar(100)) = N'SQL Azure'", []),
    ("SELECT OBJECT_ID(N'[__EFMigrationsHistory]')", [(None,)]),
    ("SELECT OBJECT_ID(N'tempdb..[#none]', 'U')", [(None,)]),
]
REFLECTING: list[tuple[str, list[Row]]] = [
    (
        (
            "SELECT [INFORMATION_SCHEMA].[TABLES].[TABLE_NAME] FROM [INFORMATION_SCHEMA].[TABLES] "
            "WHERE [INFORMATION_SCHEMA].[TABLES].[TABLE_SCHEMA] = CAST(N'dbo' AS nvarchar(max)) "
            "AND [INFORMATION_SCHEMA].[TABLES].[TABLE_TYPE] = CAST(N'BASE TABLE' AS nvarchar(max)) "
            "ORDER BY [INFORMATION_SCHEMA].[TABLES].[TABLE_NAME]"
        ),
        [("people",)],
    ),
    (
        (
            "SELECT o.name FROM sys.objects AS o JOIN sys.schemas AS s ON o.schema_id = s.schema_id "
            "WHERE s.name = CAST(N'dbo' AS nvarchar(max)) AND o.type IN ('U', 'V') ORDER BY o.name"
        ),
        [("debtors",), ("people",)],
    ),
    (
        (
            "SELECT m.definition FROM sys.sql_modules AS m JOIN sys.views AS v ON m.object_id = v.object_id "
            "JOIN sys.schemas AS s ON v.schema_id = s.schema_id WHERE v.name = N'debtors' AND s.name = N'dbo'"
        ),
        [("CREATE VIEW dbo.debtors AS SELECT id, name FROM dbo.people WHERE debt > 0",)],
    ),
    (
        (
            "SELECT sys.columns.name, sys.types.name, base.name, sys.columns.max_length, sys.columns.[precision], sys.columns.scale, "
            "sys.default_constraints.definition, sys.computed_columns.definition, sys.identity_columns.is_identity, "
            "CAST(sys.identity_columns.seed_value AS numeric(38, 0)), CAST(sys.extended_properties.value AS nvarchar(max)) "
            "FROM sys.columns JOIN sys.objects ON sys.columns.object_id = sys.objects.object_id "
            "JOIN sys.types ON sys.columns.user_type_id = sys.types.user_type_id "
            "LEFT OUTER JOIN sys.types AS base ON sys.types.system_type_id = base.system_type_id AND base.user_type_id = base.system_type_id "
            "LEFT OUTER JOIN sys.default_constraints ON sys.default_constraints.object_id = sys.columns.default_object_id "
            "AND sys.default_constraints.parent_column_id = sys.columns.column_id "
            "LEFT OUTER JOIN sys.computed_columns ON sys.computed_columns.object_id = sys.columns.object_id "
            "AND sys.computed_columns.column_id = sys.columns.column_id "
            "LEFT OUTER JOIN sys.identity_columns ON sys.identity_columns.object_id = sys.columns.object_id "
            "AND sys.identity_columns.column_id = sys.columns.column_id "
            "LEFT OUTER JOIN sys.extended_properties ON sys.extended_properties.class = 1 "
            "AND sys.extended_properties.major_id = sys.columns.object_id AND sys.extended_properties.minor_id = sys.columns.column_id "
            "WHERE sys.objects.name IN (N'people') ORDER BY sys.objects.name, sys.columns.column_id"
        ),
        [
            ("id", "int", "int", 4, 10, 0, None, None, 1, "10", None),
            ("name", "nvarchar", "nvarchar", 40, 0, 0, None, None, None, None, None),
            ("born", "date", "date", 3, 10, 0, None, None, None, None, None),
            ("debt", "decimal", "decimal", 9, 12, 3, "((0))", None, None, None, None),
            ("twice", "int", "int", 4, 10, 0, None, "([id]*(2))", None, None, None),
            ("seen", "timestamp", "timestamp", 8, 0, 0, None, None, None, None, None),
        ],
    ),
    (
        (
            "SELECT k.name, c.name, ic.key_ordinal, i.type FROM sys.key_constraints AS k WITH (READPAST) "
            "JOIN sys.index_columns AS ic ON ic.object_id = k.parent_object_id AND ic.index_id = k.unique_index_id "
            "JOIN sys.columns AS c ON c.object_id = ic.object_id AND c.column_id = ic.column_id "
            "JOIN sys.indexes AS i ON i.object_id = k.parent_object_id AND i.index_id = k.unique_index_id WHERE k.type = 'PK' ORDER BY k.name"
        ),
        [("pk_orders", "id", 1, 2), ("pk_people", "id", 1, 1)],
    ),
    (
        (
            "SELECT i.name, i.type_desc, i.is_unique, i.has_filter, i.filter_definition, i.fill_factor, COL_NAME(ic.object_id, ic.column_id), "
            "ic.is_descending_key, ic.is_included_column FROM sys.indexes AS i JOIN sys.tables AS t ON i.object_id = t.object_id "
            "JOIN sys.index_columns AS ic ON i.object_id = ic.object_id AND i.index_id = ic.index_id "
            "WHERE i.is_hypothetical = 0 AND i.is_primary_key = 0 AND t.name = N'orders' ORDER BY i.name, ic.index_column_id"
        ),
        [
            ("ix_note", "NONCLUSTERED", 0, 0, None, 0, "note", 1, 0),
            ("ix_note", "NONCLUSTERED", 0, 0, None, 0, "person", 0, 1),
            ("ux_note", "NONCLUSTERED", 1, 1, "([note] IS NOT NULL)", 0, "note", 0, 0),
        ],
    ),
    (
        (
            "WITH keys AS (SELECT r.constraint_schema, r.constraint_name, k.ordinal_position, k.table_name, r.unique_constraint_schema, "
            "r.unique_constraint_name, r.delete_rule, k.column_name AS mine FROM INFORMATION_SCHEMA.REFERENTIAL_CONSTRAINTS AS r "
            "INNER JOIN INFORMATION_SCHEMA.KEY_COLUMN_USAGE AS k ON k.table_schema = r.constraint_schema "
            "AND k.constraint_name = r.constraint_name), others AS (SELECT u.constraint_schema, u.constraint_name, u.ordinal_position, "
            "u.table_schema, u.table_name, u.column_name FROM INFORMATION_SCHEMA.KEY_COLUMN_USAGE AS u), "
            "indexed AS (SELECT s.name AS index_schema, i.name AS index_name, ic.key_ordinal AS ordinal_position, s.name AS table_schema, "
            "o.name AS table_name, c.name AS column_name FROM sys.indexes AS i INNER JOIN sys.objects AS o ON o.object_id = i.object_id "
            "INNER JOIN sys.schemas AS s ON s.schema_id = o.schema_id INNER JOIN sys.index_columns AS ic ON ic.object_id = o.object_id "
            "AND ic.index_id = i.index_id INNER JOIN sys.columns AS c ON c.object_id = i.object_id AND c.column_id = ic.column_id) "
            "SELECT keys.constraint_schema, keys.constraint_name, keys.ordinal_position, keys.mine, others.table_schema, "
            "others.table_name, others.column_name, keys.delete_rule FROM keys INNER JOIN others "
            "ON others.constraint_schema = keys.unique_constraint_schema AND others.constraint_name = keys.unique_constraint_name "
            "AND others.ordinal_position = keys.ordinal_position "
            "UNION SELECT keys.constraint_schema, keys.constraint_name, keys.ordinal_position, keys.mine, indexed.table_schema, "
            "indexed.table_name, indexed.column_name, keys.delete_rule FROM keys INNER JOIN indexed "
            "ON indexed.index_schema = keys.unique_constraint_schema AND indexed.index_name = keys.unique_constraint_name "
            "AND indexed.ordinal_position = keys.ordinal_position AND NOT (indexed.table_name = keys.table_name) "
            "ORDER BY keys.constraint_schema, keys.constraint_name, keys.ordinal_position"
        ),
        [("sales", "fk_person", 1, "person", "dbo", "people", "id", "NO ACTION")],
    ),
    (
        (
            "SELECT [cc].[name], [cc].[definition], COL_NAME([cc].[parent_object_id], [cc].[parent_column_id]) FROM [sys].[check_constraints] "
            "AS [cc]"
        ),
        [("ck_debt", "([debt]>=(0))", "debt")],
    ),
    (
        (
            "SELECT kc.column_name, kc.constraint_name, tc.CONSTRAINT_TYPE FROM INFORMATION_SCHEMA.KEY_COLUMN_USAGE AS kc "
            "JOIN INFORMATION_SCHEMA.TABLE_CONSTRAINTS AS tc ON kc.TABLE_SCHEMA = tc.TABLE_SCHEMA AND kc.TABLE_NAME = tc.TABLE_NAME "
            "AND kc.CONSTRAINT_NAME = tc.CONSTRAINT_NAME WHERE tc.TABLE_SCHEMA = SCHEMA_NAME() AND tc.TABLE_NAME = N'people' ORDER BY 2"
        ),
        [("id", "pk_people", "PRIMARY KEY"), ("name", "uq_name", "UNIQUE")],
    ),
    ("SELECT SEQUENCE_NAME FROM INFORMATION_SCHEMA.SEQUENCES WHERE SEQUENCE_SCHEMA = N'dbo'", []),
    (
        (
            "SELECT SCHEMA_NAME([t].[schema_id]) AS [schema], [t].[name], [t].[temporal_type] FROM [sys].[tables] AS [t] "
            "WHERE [t].[is_ms_shipped] = 0 AND NOT EXISTS (SELECT * FROM [sys].[extended_properties] AS [p] WHERE [p].[major_id] = "
            "[t].[object_id] AND [p].[minor_id] = 0 AND [p].[class] = 1 AND [p].[name] = N'microsoft_database_tools_support') "
            "ORDER BY [schema], [name]"
        ),
        [("dbo", "people", 0), ("sales", "orders", 0)],
    ),
]
WRITING: list[tuple[str, list[Row]]] = [
    (
        (
            "DECLARE @result int; EXEC @result = sp_getapplock @Resource = '__EFMigrationsLock', @LockOwner = 'Session', "
            "@LockMode = 'Exclusive'; SELECT @result"
        ),
        [(0,)],
    ),
    ("INSERT INTO dbo.people (name) OUTPUT inserted.id VALUES (N'Ann')", [(10,)]),
    (
        (
            "SET IMPLICIT_TRANSACTIONS OFF; SET NOCOUNT ON; MERGE [people] USING (VALUES (N'Bob', 1.5, 0), (N'Cid', 2, 1)) "
            "AS i ([name], [debt], _Position) ON 1 = 0 WHEN NOT MATCHED THEN INSERT ([name], [debt]) VALUES (i.[name], i.[debt]) "
            "OUTPUT INSERTED.[id], i._Position;"
        ),
        [(15, 0), (20, 1)],
    ),
    ("UPDATE dbo.people SET debt = 3 OUTPUT inserted.name WHERE id = 10", [("Ann",)]),
    (
        "SELECT name FROM (SELECT name, ROW_NUMBER() OVER (ORDER BY id) AS place FROM dbo.people) AS p WHERE place > 1 AND place <= 3",
        [("Bob",), ("Cid",)],
    ),
    ("SELECT name FROM dbo.people ORDER BY id OFFSET 1 ROWS FETCH FIRST 1 ROWS ONLY", [("Bob",)]),
    (
        "SELECT STRING_AGG(CAST(name AS nvarchar(max)), N', ') WITHIN GROUP (ORDER BY id) FROM dbo.people",
        [("Ann, Bob, Cid",)],
    ),
    (
        "SET IDENTITY_INSERT dbo.people ON; INSERT dbo.people (id, name) VALUES (1, N'Dee'); SET IDENTITY_INSERT dbo.people OFF",
        [],
    ),
    ("EXEC sp_releaseapplock @Resource = '__EFMigrationsLock', @LockOwner = 'Session'", []),
]


@pytest.mark.parametrize(("sql", "expected"), CONNECTING + REFLECTING)
def test_what_is_asked_of_a_database(session: Session, sql: str, expected: list[Row]) -> None:
    assert answer(session, sql) == expected


def test_what_is_written_to_it(session: Session) -> None:
    for sql, expected in WRITING:
        assert answer(session, sql) == expected, sql
