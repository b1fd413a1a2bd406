"""Errors and their handling, messages, options, waiting and KILL."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from emulators.sqlserver.engine.server_engine import SqlEngine
from emulators.sqlserver.results import Cancelled, ErrorMessage, Info, ResultSet, SqlError, TransactionChanged

from .conftest import Client

Connect = Callable[[], Client]


def messages(client: Client, sql: str) -> list[tuple[int, str, int, int]]:
    return [(e.number, e.message, e.severity, e.state) for e in client.events(sql) if isinstance(e, Info)]


def test_raiserror_substitutes_as_printf(client: Client) -> None:
    sql = "DECLARE @n int = 42, @s nvarchar(10) = N'abc' RAISERROR(N'%d|%5d|%-5s|%05d|%x|%%|%.2s', 10, 3, @n, 7, @s, 7, 255, 'xyz')"
    assert messages(client, sql) == [(50000, "42|    7|abc  |00007|ff|%|xy", 10, 3)]


def test_raiserror_shows_a_missing_argument_as_null(client: Client) -> None:
    assert messages(client, "RAISERROR('%s %d', 0, 1, NULL)")[0][1] == "(null) (null)"


@pytest.mark.parametrize(
    ("sql", "number"),
    [
        ("RAISERROR('%d', 16, 1, 'text')", 2786),
        ("RAISERROR('%y', 16, 1)", 2787),
        ("RAISERROR(60000, 16, 1)", 18054),
        ("RAISERROR('x', 19, 1)", 2754),
        ("RAISERROR('x', 20, 1) WITH LOG", 50001),
        ("THROW 40000, 'x', 1", 35100),
        ("THROW", 10704),
        ("GOTO there", 50001),
        ("CREATE TABLE a (b int)\nGO", 102),
        ("SET ROWCOUNT 5", 50001),
        ("SET NOCOUNT MAYBE", 102),
        ("WAITFOR (RECEIVE 1)", 50001),
        ("KILL 999", 6106),
        ("KILL 5", 6107),
        ("KILL @x", 50001),
    ],
)
def test_what_is_wrong_or_not_there_has_its_number(client: Client, sql: str, number: int) -> None:
    assert client.error(sql)[0] == number


def test_severity_and_state_reach_the_client(client: Client) -> None:
    (event,) = [e for e in client.events("RAISERROR('boom', 14, 7) WITH NOWAIT") if isinstance(e, ErrorMessage)]
    assert (event.number, event.severity, event.state) == (50000, 14, 7)


def test_nested_handlers_each_see_their_own_error(client: Client) -> None:
    sql = """
    BEGIN TRY
      BEGIN TRY THROW 50001, 'inner', 2 END TRY
      BEGIN CATCH SELECT ERROR_MESSAGE(), ERROR_STATE(); THROW 50002, 'outer', 3 END CATCH
    END TRY
    BEGIN CATCH SELECT ERROR_NUMBER(), ERROR_MESSAGE(), ERROR_STATE(), ERROR_SEVERITY(), ERROR_LINE() END CATCH
    SELECT ERROR_NUMBER()
    """
    assert client.results(sql) == [[("inner", 2)], [(50002, "outer", 3, 16, 4)], [(None,)]]


def test_a_handler_may_fail_and_leave_the_first_error_to_its_outer(client: Client) -> None:
    sql = """
    BEGIN TRY SELECT 1/0 END TRY
    BEGIN CATCH
      BEGIN TRY SELECT CAST('x' AS int) END TRY BEGIN CATCH SELECT ERROR_NUMBER() END CATCH
      SELECT ERROR_NUMBER()
    END CATCH
    """
    assert client.results(sql) == [[(245,)], [(8134,)]]


def test_a_name_that_is_not_there_is_not_caught_at_its_own_level(client: Client) -> None:
    with pytest.raises(SqlError) as caught:
        client.events("BEGIN TRY SELECT * FROM nope END TRY BEGIN CATCH SELECT 'caught' END CATCH")
    assert caught.value.number == 208


def test_a_name_that_is_not_there_is_caught_one_level_above(client: Client) -> None:
    sql = "BEGIN TRY EXEC sp_executesql N'SELECT * FROM nope' END TRY BEGIN CATCH SELECT ERROR_NUMBER() END CATCH"
    assert client.rows(sql) == [(208,)]


def test_every_statement_resets_the_error_number_an_if_included(client: Client) -> None:
    client.run("CREATE TABLE t (id int PRIMARY KEY) INSERT t VALUES (1)")
    events = client.events(
        "INSERT t VALUES (1) SELECT @@ERROR SELECT @@ERROR INSERT t VALUES (1) IF @@ERROR = 2627 SELECT @@ERROR"
    )
    assert [next(iter(e.rows)) for e in events if isinstance(e, ResultSet)] == [(2627,), (0,), (0,)]


def test_xact_abort_heeds_throw_but_not_raiserror(client: Client) -> None:
    client.run("SET XACT_ABORT ON BEGIN TRAN")
    assert client.error("RAISERROR('x', 16, 1)")[0] == 50000
    assert client.value("SELECT @@TRANCOUNT") == 1
    assert client.error("THROW 50000, 'x', 1")[0] == 50000
    assert client.value("SELECT @@TRANCOUNT") == 0


def test_a_doomed_transaction_refuses_to_write_and_to_commit(client: Client) -> None:
    client.run("CREATE TABLE t (id int) SET XACT_ABORT ON")
    sql = "BEGIN TRY BEGIN TRAN INSERT t VALUES (1) SELECT 1/0 END TRY BEGIN CATCH SELECT XACT_STATE() {} END CATCH"
    for then in ("INSERT t VALUES (2)", "COMMIT"):
        assert client.error(sql.format(then))[0] == 3930
        client.run("IF @@TRANCOUNT > 0 ROLLBACK")
    assert client.results(sql.format("ROLLBACK SELECT XACT_STATE()")) == [[(-1,)], [(0,)]]
    assert client.value("SELECT COUNT(*) FROM t") == 0


def test_implicit_transactions_begin_with_the_first_statement_that_touches_a_table(client: Client) -> None:
    client.run("CREATE TABLE t (id int) SET IMPLICIT_TRANSACTIONS ON")
    assert client.value("SELECT @@TRANCOUNT") == 0
    events = client.events("INSERT t VALUES (1)")
    assert [e.kind for e in events if isinstance(e, TransactionChanged)] == ["begin"]
    client.run("ROLLBACK")
    assert client.rows("SELECT COUNT(*) FROM t") == [(0,)]
    assert client.value("SELECT @@TRANCOUNT") == 1
    client.run("COMMIT SET IMPLICIT_TRANSACTIONS OFF")


def test_waitfor_time_waits_until_the_clock_says_so(client: Client) -> None:
    assert client.rows("WAITFOR TIME '07:08:09.150' SELECT 1") == [(1,)]
    assert client.rows("DECLARE @d datetime = '00:00:00.010' WAITFOR DELAY @d SELECT 2") == [(2,)]


def test_kill_rolls_the_other_session_back(client: Client, connect: Connect) -> None:
    client.run("CREATE TABLE t (id int)")
    victim = connect()
    number = victim.value("SELECT @@SPID")
    victim.run("BEGIN TRAN INSERT t VALUES (1)")
    assert client.error(f"KILL {client.value('SELECT @@SPID')}")[0] == 6104
    client.run(f"KILL {number} SET LOCK_TIMEOUT 0 INSERT t VALUES (2)")
    assert client.rows("SELECT id FROM t") == [(2,)]
    assert client.error(f"KILL {number}")[0] == 6106


def test_a_server_that_registers_is_told_whom_to_disconnect(
    engine: SqlEngine, client: Client, connect: Connect
) -> None:
    told: list[int] = []
    engine.on_kill = told.append
    victim = connect()
    number = victim.value("SELECT @@SPID")
    client.run(f"KILL {number}")
    assert told == [number]
    with pytest.raises(Cancelled):  # it does not wait
        victim.events("SELECT 1 WAITFOR DELAY '10:00'")
    victim.session.close()
