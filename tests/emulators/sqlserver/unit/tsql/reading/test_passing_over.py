"""Where a refused statement ends: the words of its own grammar that also begin statements."""

from __future__ import annotations

import pytest

from emulators.sqlserver.results import SqlError
from emulators.sqlserver.tsql.reading import statements as st
from emulators.sqlserver.tsql.reading.batch import parse_batch


@pytest.mark.parametrize(
    "sql",
    [
        "WITH q AS (SELECT a FROM t) INSERT INTO q EXEC ('delete u')",
        "WITH q (a) AS (SELECT 1), r AS (SELECT 2 AS b) INSERT TOP (SELECT 1) INTO q SELECT a FROM r",
        "INSERT TOP (1) INTO t (a) (SELECT 1)",
        "UPDATE OPENQUERY(s, 'SELECT 1') SET a = 1 WHERE b = 2",
        "UPDATE STATISTICS t WITH FULLSCAN, ALL",
        "SET @c = CURSOR FOR WITH q AS (SELECT 1 AS a) SELECT a FROM q FOR UPDATE",
        "EXECUTE AS LOGIN = 'x' WITH NO REVERT",
        "EXEC ('x') AT s",
        "ALTER TABLE t NOCHECK CONSTRAINT ALL",
        "ALTER PARTITION FUNCTION f() MERGE RANGE (1)",
        "ALTER TABLE t ALTER COLUMN a DROP MASKED",
        "ALTER TABLE t ALTER COLUMN a DROP SPARSE",
        "ALTER TABLE t ALTER COLUMN a DROP ROWGUIDCOL",
        "ALTER TABLE t ALTER COLUMN a DROP PERSISTED",
        "ALTER TABLE t ALTER COLUMN a DROP HIDDEN",
        "ALTER TABLE t ALTER COLUMN a DROP NOT FOR REPLICATION",
        "ALTER FULLTEXT INDEX ON t SET CHANGE_TRACKING AUTO",
        "ALTER FULLTEXT INDEX ON t SET SEARCH PROPERTY LIST OFF",
        "ALTER FULLTEXT CATALOG c REBUILD",
        "ALTER ASSEMBLY a DROP FILE ALL",
        "ALTER EXTERNAL DATA SOURCE x SET LOCATION = 'y', CREDENTIAL = c",
        "ALTER EXTERNAL LIBRARY x SET (CONTENT = 0x) WITH (LANGUAGE = 'R')",
        "ALTER AVAILABILITY GROUP x GRANT CREATE ANY DATABASE",
        "ALTER AVAILABILITY GROUP x DENY CREATE ANY DATABASE",
        "ALTER RESOURCE GOVERNOR DISABLE",
        "ALTER RESOURCE GOVERNOR RECONFIGURE",
        "ALTER DATABASE SCOPED CONFIGURATION FOR SECONDARY SET MAXDOP = 4",
        "ALTER SERVER CONFIGURATION SET PROCESS AFFINITY CPU = AUTO",
        "ALTER INDEX i ON t SET (STATISTICS_NORECOMPUTE = ON)",
        "ALTER EVENT SESSION s ON SERVER DROP EVENT x.y",
        "ALTER APPLICATION ROLE r DROP MEMBER m",
        "CREATE SECURITY POLICY p ADD BLOCK PREDICATE s.f(a) ON t AFTER INSERT",
        "CREATE EXTERNAL TABLE e WITH (LOCATION = 'x') AS SELECT 1 AS a",
        "DROP SYNONYM IF EXISTS s",
        "REVOKE GRANT OPTION FOR SELECT, UPDATE ON t FROM u",
        "GRANT ADMINISTER BULK OPERATIONS TO u WITH GRANT OPTION",
        "COMMIT WITH (DELAYED_DURABILITY = ON)",
        "SELECT a FROM OPENJSON('[]') UNION ALL SELECT 1 EXCEPT SELECT 2",
        "MERGE TOP (1) INTO t USING u ON t.a = u.a WHEN MATCHED THEN UPDATE SET a = 1 WHEN NOT MATCHED BY SOURCE THEN DELETE;",
        "SELECT TRIM(TRAILING 'x' FROM 'ax')",
        "UPDATE t SET v.modify('x'), b = 1",
        "DISABLE TRIGGER ALL ON ALL SERVER",
        "ENABLE TRIGGER r ON t",
        "SETUSER",
        "SELECT JSON_OBJECT('a' : 1)",
    ],
)
def test_it_takes_its_own_words_and_nothing_behind_it(sql: str) -> None:
    for following in ("DELETE u", "UPDATE u SET a = 1", "SET @x = 1", "DROP TABLE u", "COMMIT", "INSERT u SELECT 1"):
        branch, behind = parse_batch(f"IF 1 = 0 {sql}\n{following}")
        assert isinstance(branch, st.If)
        assert isinstance(branch.then, st.Refused)
        assert not isinstance(behind, st.Refused)
    if not sql.endswith(";"):
        block, behind = parse_batch(f"BEGIN {sql} END SELECT 77")
        assert isinstance(block, st.Block)
        assert [type(inner) for inner in block.body] == [st.Refused]
        assert isinstance(behind, st.Select)


@pytest.mark.parametrize(
    ("sql", "number"),
    [
        ("IF 1 = 0 MERGE TOP (1) INTO t USING u ON t.a = u.a WHEN MATCHED THEN DELETE SELECT 77", 10713),
        ("IF 1 = 0 DECLARE c CURSOR FOR WITH q AS SELECT 1 SELECT 77", 156),
        ("IF 1 = 0 DECLARE c CURSOR FOR WITH q AS (SELECT 1 AS a) DELETE u", 156),
        ("IF 1 = 0 CREATE OR ALTER PROCEDURE p AS SELECT 1", 156),
        ("BEGIN DISTRIBUTED TRANSACTION CREATE PROCEDURE p AS SELECT 1", 111),
    ],
)
def test_a_batch_fails_where_its_end_is_not_to_be_found(sql: str, number: int) -> None:
    with pytest.raises(SqlError) as refused:
        parse_batch(sql)
    assert refused.value.number == number


def test_what_looks_like_one_of_them_is_a_name() -> None:
    (select,) = parse_batch("SELECT receive, t.send, [end] AS conversation FROM t AS enable WHERE [add] = signature")
    assert isinstance(select, st.Select)
    (branch,) = parse_batch("IF EXISTS (SELECT receive FROM t WHERE send = 1) SELECT TRIM(leading) FROM t")
    assert isinstance(branch, st.If)
    assert isinstance(branch.then, st.Select)
