"""Transactions, locks and isolation between sessions, and what observers and extensions are told."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence

import pytest

from emulators.sqlserver.engine.extension import (
    CallContext,
    Database,
    LogState,
    ProcedureSpec,
    RowChange,
    ScalarFunction,
    Table,
    TableFunction,
    Transaction,
)
from emulators.sqlserver.engine.server_engine import SqlEngine
from emulators.sqlserver.results import (
    Cancelled,
    Column,
    Event,
    Info,
    LoginRequest,
    Parameter,
    SqlError,
    TransactionChanged,
    Value,
)
from emulators.sqlserver.sqltypes import SqlType

from .conftest import Client

Connect = Callable[[], Client]


@pytest.fixture
def table(client: Client) -> Client:
    client.run("CREATE TABLE t (id int PRIMARY KEY, v nvarchar(10)) INSERT t VALUES (1, N'a'), (2, N'b')")
    return client


def test_uncommitted_rows_are_invisible_and_readers_wait_for_what_was_updated(table: Client, connect: Connect) -> None:
    other = connect()
    table.run("BEGIN TRAN INSERT t VALUES (3, N'c')")
    assert other.rows("SELECT v FROM t ORDER BY id") == [("a",), ("b",)]
    table.run("UPDATE t SET v = N'x' WHERE id = 1")
    assert other.error("SET LOCK_TIMEOUT 0 SELECT v FROM t ORDER BY id")[0] == 1222
    assert other.rows("SELECT v FROM t WHERE id = 2") == [("b",)]
    assert table.rows("SELECT COUNT(*) FROM t WHERE v = N'x'") == [(1,)]
    table.run("COMMIT")
    assert other.value("SELECT COUNT(*) FROM t") == 3


def test_a_second_writer_times_out_with_1222(table: Client, connect: Connect) -> None:
    other = connect()
    table.run("BEGIN TRAN DELETE FROM t WHERE id = 1")
    other.run("SET LOCK_TIMEOUT 0")
    assert other.error("DELETE FROM t WHERE id = 2") == (1222, "Lock request time out period exceeded.")
    table.run("ROLLBACK")
    assert other.counts("DELETE FROM t WHERE id = 2") == [1]


def test_tablockx_in_a_transaction_keeps_writers_out(table: Client, connect: Connect) -> None:
    other = connect()
    table.run("BEGIN TRAN")
    table.rows("SELECT * FROM t WITH (TABLOCKX)")
    assert other.error("SET LOCK_TIMEOUT 0 UPDATE t SET v = N'z'")[0] == 1222
    table.run("COMMIT")


def test_snapshot_reads_one_state_and_refuses_to_overwrite_another(table: Client, connect: Connect) -> None:
    other = connect()
    table.run("ALTER DATABASE demo SET ALLOW_SNAPSHOT_ISOLATION ON SET TRANSACTION ISOLATION LEVEL SNAPSHOT BEGIN TRAN")
    assert table.value("SELECT COUNT(*) FROM t") == 2
    other.run("INSERT t VALUES (3, N'c')")
    assert table.value("SELECT COUNT(*) FROM t") == 2
    assert table.error("UPDATE t SET v = N'x'")[0] == 3960
    table.run("IF @@TRANCOUNT > 0 ROLLBACK")
    assert table.value("SELECT COUNT(*) FROM t") == 3


def test_savepoints_undo_their_part_only(table: Client) -> None:
    table.run("BEGIN TRAN SAVE TRAN a INSERT t VALUES (3, N'c') SAVE TRAN b INSERT t VALUES (4, N'd') ROLLBACK TRAN b")
    assert table.value("SELECT COUNT(*) FROM t") == 3
    table.run("ROLLBACK TRAN a COMMIT")
    assert table.value("SELECT COUNT(*) FROM t") == 2


def test_nested_begin_counts_and_only_the_outer_commit_commits(table: Client, connect: Connect) -> None:
    table.run("BEGIN TRAN BEGIN TRAN INSERT t VALUES (3, N'c') COMMIT")
    assert table.value("SELECT @@TRANCOUNT") == 1
    assert connect().value("SELECT COUNT(*) FROM t") == 2
    events = table.events("COMMIT")
    assert [event.kind for event in events if isinstance(event, TransactionChanged)] == ["commit"]


def test_closing_a_session_rolls_back(table: Client, connect: Connect) -> None:
    other = connect()
    other.run("BEGIN TRAN DELETE FROM t")
    other.session.close()
    other.session.close()
    assert table.counts("UPDATE t SET v = N'q'") == [2]


def test_a_cancelled_wait_ends_the_batch(table: Client, connect: Connect) -> None:
    other = connect()
    table.run("BEGIN TRAN DELETE FROM t")
    with pytest.raises(Cancelled):
        list(other.session.batch("DELETE FROM t", {}, lambda: True))
    table.run("ROLLBACK")


class Recorder:
    """An observer that writes down what it is told."""

    def __init__(self) -> None:
        self.calls: list[tuple[object, ...]] = []
        self.refuse: SqlError | None = None

    def tracks(self, object_id: int) -> bool:
        return True

    def statement(
        self, transaction: Transaction, table: Table, changes: Sequence[RowChange], updated: frozenset[int]
    ) -> None:
        self.calls.append(("statement", table.name, [(c.before, c.after) for c in changes], sorted(updated)))

    def saved(self, transaction: Transaction, savepoint: str) -> None:
        if not savepoint.startswith("<"):  # each statement has one of its own
            self.calls.append(("saved", savepoint))

    def rolled_back_to(self, transaction: Transaction, savepoint: str) -> None:
        if not savepoint.startswith("<"):
            self.calls.append(("back", savepoint))

    def committing(self, transaction: Transaction, connection: sqlite3.Connection) -> None:
        self.calls.append(("committing", connection.in_transaction))

    def rolled_back(self, transaction: Transaction) -> None:
        self.calls.append(("rolled back",))

    def table_changed(self, before: Table, after: Table | None, ddl: str, transaction: Transaction | None) -> None:
        self.calls.append(("ddl", before.name, after == before, ddl))
        if self.refuse is not None:
            raise self.refuse


@pytest.fixture
def recorder(engine: SqlEngine, table: Client) -> Recorder:
    made = Recorder()
    engine.database("demo").set_observer(made)
    return made


def test_an_observer_gets_each_statement_once_with_its_images(table: Client, recorder: Recorder) -> None:
    table.run("UPDATE t SET id = id + 1")
    assert recorder.calls == [
        ("statement", "t", [((1, "a"), (2, "a")), ((2, "b"), (3, "b"))], [1]),
        ("committing", True),
    ]


def test_a_failing_statement_reports_nothing(table: Client, recorder: Recorder) -> None:
    assert table.error("INSERT t VALUES (9, N'x'), (1, N'y')")[0] == 2627
    assert recorder.calls == [("rolled back",)]


def test_savepoints_and_rollback_are_reported_in_order(table: Client, recorder: Recorder) -> None:
    table.run("BEGIN TRAN DELETE FROM t WHERE id = 2 SAVE TRAN s DELETE FROM t WHERE id = 1 ROLLBACK TRAN s ROLLBACK")
    assert recorder.calls == [
        ("statement", "t", [((2, "b"), None)], []),
        ("saved", "s"),
        ("statement", "t", [((1, "a"), None)], []),
        ("back", "s"),
        ("rolled back",),
    ]


def test_a_rollback_to_before_the_first_change_lets_other_writers_in(
    table: Client, recorder: Recorder, connect: Connect
) -> None:
    table.run("BEGIN TRAN SAVE TRAN s DELETE FROM t WHERE id = 1 ROLLBACK TRAN s")
    assert recorder.calls == [("saved", "s"), ("statement", "t", [((1, "a"), None)], []), ("rolled back",)]
    assert connect().counts("SET LOCK_TIMEOUT 0 UPDATE t SET v = N'x'") == [2]
    table.run("DELETE FROM t WHERE id = 2 COMMIT")
    assert table.rows("SELECT v FROM t") == [("x",)]


def test_an_observer_may_refuse_truncate(table: Client, recorder: Recorder) -> None:
    recorder.refuse = SqlError(4711, "Cannot truncate table 't' because it is published for replication.")
    assert table.error("TRUNCATE TABLE t")[0] == 4711
    assert recorder.calls[0] == ("ddl", "t", True, "TRUNCATE TABLE t")
    assert table.value("SELECT COUNT(*) FROM t") == 2


LSN = SqlType("binary", 10)


class Functions:
    """An extension with one procedure and a few functions."""

    def __init__(self) -> None:
        self.given: list[Mapping[str, Value]] = []

    def procedures(self) -> Mapping[str, ProcedureSpec]:
        return {"sys.sp_note": ProcedureSpec(("@what", "@n"), ("@what",), self._note)}

    def _note(self, context: CallContext, arguments: Mapping[str, Value]) -> Iterator[Event]:
        self.given.append(arguments)
        with context.database.writer() as connection:
            table = context.database.table("dbo", "notes")
            assert table is not None
            connection.execute(f"INSERT INTO {context.database.storage(table)} VALUES (?)", (arguments["@what"],))
        yield Info(50000, "noted")

    def detach(self, database: Database) -> None:
        pass

    def session_ended(self, session_id: int) -> None:
        pass

    def scalar_functions(self) -> Mapping[str, ScalarFunction]:
        return {
            "sys.fn_twice": ScalarFunction(1, LSN, lambda context, arguments: bytes(str(arguments[0]) * 2, "ascii"))
        }

    def table_function(self, database: Database, schema: str, name: str) -> TableFunction | None:
        if name != "fn_rows":
            return None
        columns = (Column("n", SqlType("int")), Column("s", SqlType("nvarchar", 20)))
        return TableFunction(
            2, columns, lambda context, arguments: iter([(1, str(arguments[0])), (2, str(arguments[1]))])
        )

    def views(self) -> Mapping[str, TableFunction]:
        return {}

    def log(self, database: Database) -> LogState | None:
        return None

    def attach(self, database: Database) -> None:
        return None

    def close(self) -> None:
        pass


@pytest.fixture
def extended() -> Iterator[tuple[Client, Functions, SqlEngine]]:
    functions = Functions()
    engine = SqlEngine(users={"sa": "x"}, databases=["demo"], extension=functions)
    client = Client(engine.login(LoginRequest("sa", "x", "demo")))
    client.run("CREATE TABLE notes (what nvarchar(50))")
    yield client, functions, engine
    engine.close()


def test_procedures_get_named_and_positional_arguments(extended: tuple[Client, Functions, SqlEngine]) -> None:
    client, functions, _ = extended
    client.run("EXEC sys.sp_note N'a', 0x01 EXEC [demo].sys.sp_note @n = NULL, @what = N'b'")
    assert functions.given == [{"@what": "a", "@n": b"\1"}, {"@n": None, "@what": "b"}]
    assert [client.error(f"EXEC sp_note {given}")[0] for given in ("", "1, 2, 3", "@x = 1")] == [201, 8144, 8145]


def test_a_procedure_inside_a_write_transaction_joins_it(extended: tuple[Client, Functions, SqlEngine]) -> None:
    client, _, _ = extended
    client.run("BEGIN TRAN INSERT notes VALUES (N'mine') EXEC sys.sp_note N'joined' ROLLBACK")
    assert client.value("SELECT COUNT(*) FROM notes") == 0


def test_functions_of_the_extension_are_called_with_evaluated_arguments(
    extended: tuple[Client, Functions, SqlEngine],
) -> None:
    client, _, _ = extended
    assert client.rows(
        "DECLARE @a nvarchar(9) = N'x' SELECT sys.fn_twice(N'abcde'), f.s FROM dbo.fn_rows(@a, N'y' + N'z') AS f WHERE f.n = 2"
    ) == [(b"abcdeabcde", "yz")]
    assert (
        client.rows("DECLARE @a int = 1, @b int = 2 SELECT n FROM dbo.fn_rows(@b, @a) WHERE n = @a AND NOT @b = NULL")
        == []
    )
    assert client.rows("DECLARE @a int = 1, @b int = 2 SELECT s FROM dbo.fn_rows(@b, @a)") == [("2",), ("1",)]
    assert client.error("SELECT * FROM dbo.fn_none(1)") == (208, "Invalid object name 'dbo.fn_none'.")


def test_a_capture_thread_writes_beside_sessions(extended: tuple[Client, Functions, SqlEngine]) -> None:
    client, _, engine = extended
    database = engine.database("demo")

    def capture() -> None:
        with database.writer() as connection:
            table = database.create_system_table(
                connection, "dbo", "sys_t", [Column("lsn", LSN), Column("n", SqlType("int"))], ["lsn"]
            )
            connection.execute(f"INSERT INTO {database.storage(table)} VALUES (?, 1)", (bytes(10),))

    thread = threading.Thread(target=capture)
    thread.start()
    thread.join()
    assert client.rows("SELECT n FROM sys_t WHERE lsn = 0x00") == [(1,)]
    with database.writer(), pytest.raises(RuntimeError, match="already writes"), database.writer():
        pass


@pytest.mark.parametrize(("end", "number"), [("", 3998), (" ; THROW", 8134)])
def test_a_doomed_transaction_does_not_outlive_a_call(client: Client, end: str, number: int) -> None:
    client.run("CREATE TABLE called (i int)")
    sql = "SET XACT_ABORT ON BEGIN TRAN INSERT called VALUES (1) BEGIN TRY SELECT 1 / 0 END TRY BEGIN CATCH SELECT 0"
    given = Parameter("@stmt", SqlType("nvarchar", length=4000), f"{sql}{end} END CATCH")
    found: list[Event] = []
    with pytest.raises(SqlError) as caught:
        found.extend(client.session.procedure("sp_executesql", [given], lambda: False))
    assert caught.value.number == number
    assert client.value("SELECT @@TRANCOUNT") == 0
    assert client.value("SELECT COUNT(*) FROM called") == 0
    assert [event.kind for event in found if isinstance(event, TransactionChanged)] == ["begin", "rollback"]
