"""A statement that its client has cancelled, or whose session was killed, ends there: nothing of it stays, and nothing behind it runs.

Source: https://learn.microsoft.com/openspecs/windows_protocols/ms-tds (2.2.1.7, Attention), and the page "KILL (Transact-SQL)".
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from emulators.sqlserver.engine.server_engine import SqlEngine
from emulators.sqlserver.results import Cancelled, Event, LoginRequest, ResultSet, TransactionChanged

from .conftest import Client

Connect = Callable[[], Client]
ROWS = 1000
LONG = "SELECT COUNT_BIG(*) FROM big a, big b, big c WHERE a.i + b.i + c.i < 0"


class Asked:
    """Cancels at the nth question."""

    def __init__(self, times: int) -> None:
        self.left = times

    def __call__(self) -> bool:
        self.left -= 1
        return self.left < 0


class Inside:
    """Cancels at the twentieth question after the transaction of `client` has begun. Short statements are asked once each, so the last statement,
    which runs long, is under way by then, however slow the machine."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._asked = 0

    def __call__(self) -> bool:
        if self._client.session.transaction.count:  # type: ignore[attr-defined]
            self._asked += 1
        return self._asked >= 20


@pytest.fixture
def tables(client: Client) -> Client:
    client.run("CREATE TABLE big (i int) CREATE TABLE copy (i int)")
    client.run(f"INSERT big VALUES {', '.join(f'({i})' for i in range(ROWS))}")
    return client


def events(client: Client, sql: str, cancelled: Callable[[], bool]) -> list[Event]:
    """Rows are read as they come."""
    found: list[Event] = []
    for event in client.session.batch(sql, {}, cancelled):
        if isinstance(event, ResultSet):
            event = ResultSet(event.columns, iter(list(event.rows)))
        found.append(event)
    return found


@pytest.mark.parametrize("after", range(0, ROWS // 64, 3))
def test_insert_of_what_a_text_returns_stores_all_or_nothing(tables: Client, after: int) -> None:
    with pytest.raises(Cancelled):
        events(tables, "INSERT copy EXEC('SELECT i FROM big')", Asked(after))
    assert tables.value("SELECT COUNT(*) FROM copy") == 0


def test_a_result_inside_try_is_whole_or_not_there(tables: Client) -> None:
    sql = "BEGIN TRY SELECT i FROM big END TRY BEGIN CATCH INSERT copy VALUES (1) END CATCH INSERT copy VALUES (2)"
    with pytest.raises(Cancelled):
        events(tables, sql, Asked(3))
    assert tables.value("SELECT COUNT(*) FROM copy") == 0


def test_rows_that_a_client_reads_end_with_the_cancel(tables: Client) -> None:
    with pytest.raises(Cancelled):
        events(tables, "SELECT i FROM big", Asked(3))
    assert tables.value("SELECT COUNT(*) FROM big") == ROWS


def test_nothing_behind_a_cancelled_loop_runs(tables: Client) -> None:
    with pytest.raises(Cancelled):
        events(tables, "SET NOCOUNT ON WHILE 1 = 1 BEGIN DECLARE @i int = 1 END DELETE big", Asked(20))
    assert tables.value("SELECT COUNT(*) FROM big") == ROWS


def test_rows_that_nobody_reads_after_a_cancel_are_not_read_from_the_table(tables: Client, engine: SqlEngine) -> None:
    answer: Iterator[Event] = tables.session.batch("SELECT a.i FROM big a, big b, big c", {}, Asked(3))
    result = next(answer)
    assert isinstance(result, ResultSet)
    with pytest.raises(Cancelled):
        list(result.rows)
    begin = time.monotonic()
    assert tables.value("SELECT 1") == 1
    assert time.monotonic() - begin < 60


def test_a_session_that_ends_does_not_read_the_rest(tables: Client, connect: Connect) -> None:
    other = connect()
    answer = other.session.batch("SELECT a.i FROM big a, big b, big c", {}, lambda: False)
    next(answer)
    begin = time.monotonic()
    other.session.close()
    assert time.monotonic() - begin < 60


@pytest.mark.parametrize(
    "sql", [LONG, f"UPDATE copy SET i = ({LONG})", f"INSERT copy {LONG}", f"IF ({LONG}) = 0 SELECT 1"]
)
def test_a_query_that_runs_long_is_stopped(tables: Client, sql: str) -> None:
    tables.run("INSERT copy VALUES (1)")
    begin = time.monotonic()
    with pytest.raises(Cancelled):
        events(tables, sql, lambda: time.monotonic() - begin > 0.1)
    assert time.monotonic() - begin < 60
    assert tables.value("SELECT SUM(i) FROM copy") == 1


def test_a_stopped_query_leaves_its_transaction_as_it_was(tables: Client) -> None:
    tables.run("BEGIN TRAN INSERT copy VALUES (1)")
    begin = time.monotonic()
    with pytest.raises(Cancelled):
        events(tables, LONG, lambda: time.monotonic() - begin > 0.1)
    tables.run("INSERT copy VALUES (2) COMMIT")
    assert tables.value("SELECT COUNT(*) FROM copy") == 2


def test_a_killed_session_runs_nothing_more(tables: Client, engine: SqlEngine) -> None:
    engine.on_kill = lambda number: None  # its connection is not there yet
    victim = engine.login(LoginRequest("sa", "secret", "demo"))
    tables.run(f"KILL {victim.session_id}")
    with pytest.raises(Cancelled):
        list(victim.batch("DELETE big", {}, lambda: False))
    assert tables.value("SELECT COUNT(*) FROM big") == ROWS


def test_the_client_is_cut_off_before_its_session_hears_of_a_kill(tables: Client, engine: SqlEngine) -> None:
    victim = engine.login(LoginRequest("sa", "secret", "demo"))
    seen: list[bool] = []
    engine.on_kill = lambda number: seen.append(victim.killed)  # type: ignore[attr-defined]
    tables.run(f"KILL {victim.session_id}")
    assert seen == [False]
    assert victim.killed  # type: ignore[attr-defined]


BEGUN = "SET XACT_ABORT ON BEGIN TRAN INSERT copy VALUES (1)"
DOOMED = "BEGIN TRY INSERT copy VALUES (1 / 0) END TRY BEGIN CATCH"


@pytest.mark.parametrize(
    "sql",
    [
        f"{BEGUN} {LONG}",
        f"{BEGUN} SELECT a.i FROM big a, big b, big c",
        f"{BEGUN} WHILE 1 = 1 SET NOCOUNT ON",
        f"{BEGUN} EXEC ('{LONG}')",
        f"BEGIN TRAN EXEC ('SET XACT_ABORT ON INSERT copy VALUES (1) {LONG}')",
        f"BEGIN TRAN EXEC ('SET XACT_ABORT ON CREATE TABLE #t (i int) INSERT copy VALUES (1) {LONG}')",
        f"{BEGUN} {DOOMED} {LONG} END CATCH",
        f"{BEGUN} {DOOMED} SET XACT_ABORT OFF; {LONG} END CATCH",
    ],
)
def test_a_cancel_undoes_a_doomed_transaction_and_with_xact_abort_any(
    tables: Client, connect: Connect, sql: str
) -> None:
    with pytest.raises(Cancelled):
        events(tables, sql, Inside(tables))
    assert tables.value("SELECT @@TRANCOUNT") == 0
    assert connect().value("SET LOCK_TIMEOUT 0 SELECT COUNT(*) FROM copy") == 0


def test_the_client_hears_of_the_transaction_that_its_cancel_has_undone(tables: Client) -> None:
    answer = tables.session.batch(f"{BEGUN} {LONG}", {}, Inside(tables))
    found: list[Event] = []
    with pytest.raises(Cancelled):
        found.extend(iter(answer))
    begun, ended = [event for event in found if isinstance(event, TransactionChanged)]
    assert (begun.kind, ended.kind, ended.descriptor) == ("begin", "rollback", begun.descriptor)


def test_rows_that_are_left_by_a_cancel_end_the_transaction_too(tables: Client) -> None:
    asked = False
    answer = tables.session.batch(f"{BEGUN} SELECT a.i FROM big a, big b", {}, lambda: asked)
    assert any(isinstance(event, ResultSet) for event in answer)
    asked = True
    answer.close()  # type: ignore[attr-defined]
    assert tables.value("SELECT @@TRANCOUNT") == 0


def test_without_xact_abort_a_cancel_leaves_the_transaction(tables: Client) -> None:
    with pytest.raises(Cancelled):
        events(tables, f"BEGIN TRAN INSERT copy VALUES (1) {LONG}", Inside(tables))
    assert tables.value("SELECT @@TRANCOUNT") == 1


def stopped(client: Client, sql: str) -> float:
    """How long a statement has run that is cancelled after 0.2 seconds."""
    begin = time.monotonic()
    with pytest.raises(Cancelled):
        events(client, sql, lambda: time.monotonic() - begin > 0.2)
    return time.monotonic() - begin


def test_looking_for_rows_that_others_have_changed_is_stopped(tables: Client, connect: Connect) -> None:
    tables.run("CREATE TABLE keyed (id int PRIMARY KEY, v int) INSERT keyed VALUES (1, 0), (2, 0)")
    tables.run("BEGIN TRAN UPDATE keyed SET v = 1 WHERE id = 1")
    sql = "SELECT b.i FROM keyed a, big b, big c, big d WHERE a.id = 2"  # of a row that is free, a thousand million
    assert stopped(connect(), sql) < 60
