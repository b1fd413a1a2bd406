"""The commands with patterns in `tables`: each asks the database which tables match now, or says why it cannot."""

from __future__ import annotations

import pytest

from ingester.sqlserver.sql.rights import PASSWORD as VARIABLE
from tests.contracts.check.conftest import PASSWORD
from tests.contracts.operating.conftest import Desk


@pytest.fixture(autouse=True)
def patterns(desk: Desk) -> None:
    """dbo.Persons, sales.Orders and sales.AuditLog are under CDC."""
    desk.place.settings["tables"] = '"Pers*", "sales.*", "!sales.Audit*", "hr.*"'
    desk.place.execute("CREATE SCHEMA sales")
    for name in ("Orders", "AuditLog"):
        desk.place.execute(
            f"CREATE TABLE sales.{name} (ID INT NOT NULL PRIMARY KEY)",
            f"EXEC sys.sp_cdc_enable_table N'sales', N'{name}', @role_name = NULL",
        )
    desk.place.make_queue()


def test_status_and_offsets_show_what_matches_now(desk: Desk) -> None:
    ran = desk.run("status", "--json")
    assert ran.status == 0, ran.out
    assert [table["table"] for table in ran.document["tables"]] == ["dbo.Persons", "sales.Orders"]
    assert desk.run("offsets", "sales.Orders", "--json").status == 0
    refused = desk.run("offsets", "sales.AuditLog")
    assert refused.status == 2
    assert "dbo.Persons, sales.Orders" in refused.err


def test_status_of_a_database_that_is_away_says_so_and_has_the_exact_names(desk: Desk) -> None:
    desk.place.settings |= {"port": 1, "tables": '"Persons", "sales.*"'}
    ran = desk.run("status", "--json")
    assert ran.status == 1
    assert "tables that patterns match" in [each["what"] for each in ran.document["unknown"]]
    assert [table["table"] for table in ran.document["tables"]] == ["dbo.Persons"]


def test_the_router_alone_says_that_it_does_not_know_the_tables(desk: Desk) -> None:
    ran = desk.run("status", "--stage", "router", "--json")
    assert (ran.status, [each["what"] for each in ran.document["unknown"]]) == (
        1,
        ["topics of tables that patterns match"],
    )


def test_a_snapshot_and_a_replay_are_of_a_table_that_matches(desk: Desk) -> None:
    assert desk.run("snapshot", "start", "sales.Orders", "--dry-run").status == 0
    assert desk.run("snapshot", "start", "sales.AuditLog", "--dry-run").status == 2
    desk.insert(1)
    ran = desk.run("replay", "dbo.Persons", "--from", "2020-01-01", "--to-topic", "copy", "--dry-run")
    assert "no such table" not in ran.err


def test_the_check_lists_what_each_pattern_matches_and_looks_at_those_tables(desk: Desk) -> None:
    place = desk.place
    place.settings["more"] = 'tables_overrides {\noverrides {\ntable_name = "sales.Oders"\n}\n}'
    report = place.check()
    assert report.said("warn", "override sales.Oders").startswith("holds for no table: correct table_name")
    assert report.said("ok", "pattern Pers*") == "matches 1 now: dbo.Persons"
    assert report.said("ok", "pattern sales.*") == "matches 1 now: sales.Orders"
    assert report.said("warn", "pattern hr.*").startswith(
        "matches no table under Change Data Capture: put such a table"
    )
    assert "under CDC as sales_Orders" in report.said("ok", "table sales.Orders")
    assert report.each("ok", "table sales.AuditLog") == []
    assert "is created at the first change for it" in report.said("ok", "patterns")
    topic = f"topic 127-0-0-1.{place.login.database.lower()}.sales.orders.events"
    assert report.said("ok", topic)


def test_the_user_of_a_plan_sees_the_tables_and_the_topics_are_those_that_match(desk: Desk) -> None:
    place = desk.place
    user = f"planned_{place.login.database}"
    place.settings["user"] = user
    planned = desk.run("plan", "--sql")
    assert planned.status == 0, planned.err
    assert f"GRANT SELECT ON SCHEMA::[sales] TO [{user}];" in planned.lines
    assert "sales.Orders" not in planned.out
    place.execute("CREATE SCHEMA hr")
    place.execute(planned.out.replace(VARIABLE, PASSWORD))
    assert "sales.Orders" in desk.place.check("--stage", "ingester").said("ok", "pattern sales.*")
    blind, seeing = desk.run("plan", "--bicep"), desk.run("plan", "--bicep", "--with-matches")
    assert "sales.orders.events" not in blind.out
    assert "`tables` has patterns (Pers*, sales.*, hr.*, not sales.Audit*)" in blind.out
    assert "sales.orders.events" in seeing.out
