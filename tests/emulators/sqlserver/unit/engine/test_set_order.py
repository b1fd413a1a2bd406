"""ORDER BY behind UNION, and the list of system views."""

from __future__ import annotations

import pytest

from .conftest import Client


@pytest.fixture
def pairs(client: Client) -> Client:
    client.run("CREATE TABLE dbo.p (b int, c int)")
    client.run("INSERT dbo.p VALUES (2, 1), (1, 9)")
    return client


def test_a_union_is_ordered_by_columns_as_its_first_select_writes_them(pairs: Client) -> None:
    """https://learn.microsoft.com/sql/t-sql/queries/select-order-by-clause-transact-sql"""
    sql = "WITH a AS (SELECT b, c FROM dbo.p) SELECT a.b, a.c AS last FROM a UNION SELECT 5, 5 ORDER BY A.C DESC, a.b"
    assert pairs.rows(sql) == [(1, 9), (5, 5), (2, 1)]
    assert pairs.rows("SELECT p.b FROM dbo.p UNION SELECT 3 ORDER BY b") == [(1,), (2,), (3,)]


def test_a_union_is_not_ordered_by_what_it_does_not_list(pairs: Client) -> None:
    assert pairs.error("SELECT p.b FROM dbo.p UNION SELECT 3 ORDER BY p.c")[0] == 104


def test_system_views_are_listed(client: Client) -> None:
    """https://learn.microsoft.com/sql/relational-databases/system-catalog-views/sys-system-views-transact-sql"""
    found = client.rows(
        "SELECT name, SCHEMA_NAME(schema_id), is_ms_shipped FROM sys.system_views "
        "WHERE name IN (N'dm_exec_sessions', N'TABLES', N'dm_pdw_nodes_exec_sessions') ORDER BY schema_id, name"
    )
    assert ("TABLES", "INFORMATION_SCHEMA", 1) in found
    assert ("dm_exec_sessions", "sys", 1) in found
    assert not any(row[0] == "dm_pdw_nodes_exec_sessions" for row in found)
