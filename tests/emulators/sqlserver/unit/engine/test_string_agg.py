"""STRING_AGG, in groups and in order.

https://learn.microsoft.com/sql/t-sql/functions/string-agg-transact-sql
"""

from __future__ import annotations

import pytest

from emulators.sqlserver.results import ResultSet
from emulators.sqlserver.sqltypes import MAX

from .conftest import Client


@pytest.fixture
def towns(client: Client) -> Client:
    client.run(
        "CREATE TABLE dbo.towns (id int NOT NULL, land char(2) NULL, name nvarchar(20) NULL, size decimal(9, 1) NULL)"
    )
    client.run(
        "INSERT dbo.towns VALUES (1, 'DE', N'Ulm', 9.5), (2, 'FR', N'Pau', 77), (3, 'DE', N'aachen', 100), (4, 'DE', NULL, 1), "
        "(5, 'IT', NULL, NULL)"
    )
    return client


def test_values_are_joined_in_groups_and_nulls_left_out(towns: Client) -> None:
    sql = "SELECT land, STRING_AGG(name, N'; ') WITHIN GROUP (ORDER BY name) AS names FROM dbo.towns GROUP BY land ORDER BY land"
    assert towns.rows(sql) == [("DE", "aachen; Ulm"), ("FR", "Pau"), ("IT", None)]


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("name DESC", "Ulm,Pau,aachen"),
        ("size", "Ulm,Pau,aachen"),  # by number, not by text
        ("land DESC, id DESC", "Pau,aachen,Ulm"),
        ("CASE WHEN id = 2 THEN NULL ELSE id END", "Pau,Ulm,aachen"),
    ],
)
def test_the_order_is_that_of_order_by(towns: Client, order: str, expected: str) -> None:
    assert towns.value(f"SELECT STRING_AGG(name, ',') WITHIN GROUP (ORDER BY {order}) FROM dbo.towns") == expected


def test_no_row_gives_null(towns: Client) -> None:
    assert towns.value("SELECT STRING_AGG(name, ',') FROM dbo.towns WHERE 1 = 0") is None


def test_a_variable_or_a_function_may_separate(towns: Client) -> None:
    sql = "DECLARE @s nvarchar(2) = N'|'; SELECT STRING_AGG(id, @s) + STRING_AGG(id, CHAR(13)) FROM dbo.towns WHERE id < 3"
    assert towns.value(sql) == "1|21\r2"


@pytest.mark.parametrize(
    ("expression", "kind"),
    [
        ("CAST(name AS nvarchar(10))", ("nvarchar", 4000)),
        ("CAST(name AS nvarchar(max))", ("nvarchar", MAX)),
        ("CAST(name AS varchar(10))", ("varchar", 8000)),
        ("CAST(name AS varchar(max))", ("varchar", MAX)),
        ("id", ("nvarchar", 4000)),
        ("size", ("nvarchar", 4000)),
        ("CAST('2024-01-02' AS datetime2)", ("nvarchar", 4000)),
    ],
)
def test_the_type_is_that_of_the_values_at_full_length(towns: Client, expression: str, kind: tuple[str, int]) -> None:
    event = next(
        e for e in towns.events(f"SELECT STRING_AGG({expression}, ',') FROM dbo.towns") if isinstance(e, ResultSet)
    )
    assert (event.columns[0].type.name, event.columns[0].type.length) == kind


def test_eight_thousand_bytes_are_the_limit_of_short_types(towns: Client) -> None:
    sql = "SELECT LEN(STRING_AGG({}, '')) FROM (VALUES (REPLICATE(N'x', 3000)), (REPLICATE(N'y', {}))) AS v (t)"
    assert towns.value(sql.format("t", 1000)) == 4000
    assert towns.error(sql.format("t", 1001))[0] == 9829
    assert towns.value(sql.format("CAST(t AS nvarchar(max))", 1001)) == 4001


@pytest.mark.parametrize(
    ("expression", "number"),
    [
        ("STRING_AGG(name)", 174),
        ("STRING_AGG(name, land)", 8733),
        ("STRING_AGG(name, 1)", 8116),
        ("STRING_AGG(CAST(name AS ntext), ',')", 8116),
        ("STRING_AGG(name, ',') OVER (ORDER BY id)", 4113),
        ("STRING_AGG(DISTINCT name, ',')", 102),
        ("STRING_AGG(name, NULL)", 50001),
        ("PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY id)", 50001),
    ],
)
def test_what_it_refuses(towns: Client, expression: str, number: int) -> None:
    assert towns.error(f"SELECT {expression} FROM dbo.towns")[0] == number
