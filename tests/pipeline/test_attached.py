"""The demo on a database where it has run before, as `--attach` finds it: no key and no Version of the earlier run comes again."""

from __future__ import annotations

import json

import pytest

from common.errors import PermanentError
from dstream.demo.ledger import Ledger
from dstream.demo.schema import TABLES, create_or_continue
from dstream.demo.verdict import of_an_earlier_workload
from dstream.demo.workload import Pace, Workload
from dstream.emulators import Login


def versions(ledger: Ledger) -> set[int]:
    rows = [change.row["Version"] for table in TABLES for change, _, _ in ledger.entries(table)]
    return {version for version in rows if isinstance(version, int)}


def run(login: Login, after: int) -> Ledger:
    ledger = Ledger()
    workload = Workload(login, ledger, Pace(changes=200, seconds=0, large=20), seed=1, after=after)
    workload.start()
    workload.join()
    return ledger


def test_a_second_run_on_the_same_tables_is_told_from_the_first(login: Login) -> None:
    assert create_or_continue(login) == 0
    assert create_or_continue(login) == 0, "nothing was written yet"
    first = versions(run(login, 0))
    after = create_or_continue(login)
    # With the same seed: rows with a key of the first run would be refused.
    second = versions(run(login, after))
    assert max(first) <= after < min(second)
    for found, earlier in ((first, True), (second, False)):
        bodies = [json.dumps({"metadata": {"OperationType": "Insert"}, "data": {"Version": each}}) for each in found]
        assert {of_an_earlier_workload(body.encode(), after) for body in bodies} == {earlier}


def test_a_server_that_answers_has_no_refusal_and_one_that_is_away_has_a_reason(login: Login) -> None:
    assert login.refusal() is None
    refused = Login(login.host, 1, login.user, login.password, login.database).refusal()
    assert refused is not None
    assert login.password not in refused


@pytest.mark.parametrize(
    ("tables", "why"),
    [
        (("dbo.Invoices (Id INT)",), "has other tables: dbo.Invoices"),
        (("dbo.Customers (Id INT)",), "not dbo.Everything, dbo.OrderLines, sales.Orders"),
        (
            ("dbo.Customers (Id INT)", "sales.Orders (Id INT)", "dbo.OrderLines (Id INT)", "dbo.Everything (Id INT)"),
            "Version",
        ),
    ],
)
def test_a_database_that_is_not_the_demos_own_is_refused_before_anything_is_written(
    login: Login, tables: tuple[str, ...], why: str
) -> None:
    with login.connect() as connection, connection.cursor() as cursor:
        cursor.execute("CREATE SCHEMA sales")
        for table in tables:
            cursor.execute(f"CREATE TABLE {table}")
        with pytest.raises(PermanentError, match=why):
            create_or_continue(login)
        cursor.execute(
            "SELECT (SELECT COUNT(*) FROM sys.tables), (SELECT is_cdc_enabled FROM sys.databases WHERE name = DB_NAME())"
        )
        assert cursor.fetchall() == [(len(tables), False)]


def test_tables_of_dstream_itself_are_no_reason_to_refuse(login: Login) -> None:
    with login.connect() as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE dbo.cdc_offsets (table_name NVARCHAR(255))")
    assert create_or_continue(login) == 0
