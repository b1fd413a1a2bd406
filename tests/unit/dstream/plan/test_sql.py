"""The T-SQL file holds what docs/install.md tells a person to run, and no secret."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dstream.plan import sql
from tests.unit.dstream.plan.conftest import Plan

INSTALL = Path(__file__).parents[4] / "docs" / "install.md"


def statements(text: str) -> set[str]:
    """Without comments, guards, brackets and whitespace: what is done, whoever writes it."""
    bare = re.sub(r"--[^\n]*", "", text)
    found = (re.sub(r"\s+", " ", each).strip() for each in bare.split(";"))
    return {re.sub(r"^IF .*? (?=CREATE|ALTER)", "", each).replace("[", "").replace("]", "") for each in found if each}


def planned(text: str) -> set[str]:
    return statements(re.sub(r"^-- (?=[A-Z]{2,} )", "", text, flags=re.M))


def documented(heading: str) -> str:
    """The T-SQL below a heading of the page, its subsections left out."""
    section = INSTALL.read_text().partition(f"\n{heading}\n")[2].partition("\n#")[0]
    blocks = re.findall(r"```sql\n(.*?)```", section, re.S)
    assert blocks, heading
    return "\n".join(blocks)


@pytest.mark.parametrize(
    ("heading", "changed"),
    [
        ("## What the login needs", {}),
        ("### Without SELECT on change tables", {"ingester": 'query_mode = "function"'}),
        ("## The table of offsets", {}),
        ("## The table of moves", {}),
        ("## The table of snapshots", {}),
        (
            "## An identity at SQL Server",
            {"db": "Server=db.database.windows.net;Database=shop;Authentication=Active Directory Workload Identity"},
        ),
    ],
)
def test_it_holds_every_statement_of_the_page(plan: Plan, heading: str, changed: dict[str, str]) -> None:
    assert statements(documented(heading)) <= planned(sql.written(plan(tables='"Persons"', **changed)))


def test_an_older_table_of_offsets_gets_every_column_that_a_new_one_has(plan: Plan) -> None:
    text = sql.written(plan())
    made = re.findall(r"^    (\w+) ", text.partition("CREATE TABLE dbo.cdc_offsets (")[2].partition("\n);")[0], re.M)
    added = re.findall(r"ALTER TABLE dbo.cdc_offsets ADD (\w+) ", text)
    assert set(added) == set(made[2:]), "all but the first two, which every version has had"


def test_no_secret_and_a_password_from_the_environment(plan: Plan) -> None:
    text = sql.written(plan())
    assert "secret-Password-1" not in text
    assert "PASSWORD = N'$(DSTREAM_PASSWORD)'" in text


def test_capture_is_enabled_by_a_person_who_has_decided_to(plan: Plan) -> None:
    text = sql.written(plan())
    assert "\n-- EXEC sys.sp_cdc_enable_table" in text
    assert not re.search(r"^EXEC", text, re.M)


def test_azure_sql_database_has_neither_logins_nor_msdb(plan: Plan) -> None:
    text = sql.written(plan(db="sqlserver://ann:Secret-1@shop.database.windows.net?database=shop"))
    assert "CREATE USER [ann] WITH PASSWORD" in text
    assert "msdb" not in text
    assert "\nUSE" not in text


def test_names_are_quoted(plan: Plan) -> None:
    assert "GRANT SELECT ON OBJECT::[sales].[Order Details] TO [dstream];" in sql.written(plan())


def test_the_role_that_scans_the_log_is_a_comment_and_only_where_it_is_wanted(plan: Plan) -> None:
    grant = "-- ALTER ROLE [db_owner] ADD MEMBER [dstream];"
    assert grant in sql.written(plan(ingester="low_latency = true"))
    assert grant not in sql.written(plan())
