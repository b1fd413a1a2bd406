"""Random transaction histories on the SQL Server emulator: the change tables hold what a short model of Change Data Capture says.

Three sessions of an unmodified pymssql write to one table, with savepoints, rollbacks, statements that fail and DDL in between, while
capture instances come and go. The model (`captured` below) rests on https://learn.microsoft.com/sql/relational-databases/track-changes/about-change-data-capture-sql-server
and KB 238254; the rows of one command are compared as a set, commands and transactions in their order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count, groupby
from typing import Any

import pymssql
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from emulators.sqlserver.build import build_engine
from emulators.sqlserver.server import SqlServerEmulator

Row = dict[str, Any]
Statement = list[tuple[Row | None, Row | None]]
"""The rows that a statement touched, before and after it."""
Image = tuple[int, bytes, tuple[Any, ...]]
"""A row of a change table: operation, mask, captured values."""

KEYS = ("ID", "U")
"""The primary key and the column of a unique index."""
SESSIONS = st.sampled_from([0, 1, 2])
SOME_ID = st.integers(1, 8)


def captured(statement: Statement, columns: Sequence[str]) -> list[list[Image]]:
    """The model: the commands that a statement becomes in the change table of an instance that captures `columns`."""

    def image(operation: int, row: Row, changed: Sequence[str]) -> Image:
        bits = sum(1 << at for at, name in enumerate(columns) if operation < 3 or name in changed)
        hidden = {"Bio"} - set(changed) if operation == 3 else set()
        values = tuple(None if name in hidden else row.get(name) for name in columns)
        return operation, bits.to_bytes((len(columns) + 7) // 8, "big"), values

    first, second = [], []
    for before, after in statement:
        changed = [name for name in after if before[name] != after[name]] if before and after else []
        if before and after and not set(changed) & set(KEYS):
            first += [image(3, before, changed), image(4, after, changed)] if set(changed) & set(columns) else []
            continue
        first += [image(1, before, ())] if before else []
        second += [image(2, after, ())] if after else []
    moved = any(before and after and any(before[key] != after[key] for key in KEYS) for before, after in statement)
    return [command for command in ([first, second] if moved else [first + second]) if command]


@dataclass
class State:
    """What a transaction sees and has done: the table, its columns, its statements, its DDL."""

    rows: dict[int, Row] = field(default_factory=dict)
    columns: tuple[str, ...] = ("ID", "U", "V", "Bio")
    statements: tuple[Statement, ...] = ()
    ddl: tuple[str, ...] = ()

    def copy(self) -> State:
        return State(dict(self.rows), self.columns, self.statements, self.ddl)


@dataclass
class Instance:
    """A capture instance: what it captures, and the transactions that its change table shall hold."""

    name: str
    columns: tuple[str, ...]
    transactions: list[list[list[Image]]] = field(default_factory=list)
    ddl: list[str] = field(default_factory=list)


_numbers = count(1)


class Histories(RuleBasedStateMachine):
    """`port`: of the emulator, set by the test that runs the machine."""

    port = 0

    def __init__(self) -> None:
        super().__init__()
        self.database = f"history{next(_numbers)}"
        self.options: dict[str, Any] = {
            "server": "127.0.0.1",
            "port": str(self.port),
            "user": "sa",
            "password": "test-Password-1",
            "autocommit": True,
        }
        with pymssql.connect(**self.options) as admin, admin.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE {self.database}")
        self.connections = [pymssql.connect(**self.options, database=self.database) for _ in range(3)]
        self.committed = State()
        self.open: dict[int, State] = {}
        self.saved: dict[int, State] = {}
        self.instances: list[Instance] = []
        self.entries = 0
        self.names = count(1)

    # -- helpers

    def run(self, session: int, sql: str) -> int:
        """0, or the number of the error that the statement failed with."""
        try:
            with self.connections[session].cursor() as cursor:
                cursor.execute(sql)
        except pymssql.Error as error:
            number: int = error.args[0]
            return number
        return 0

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        with self.connections[0].cursor() as cursor:
            cursor.execute(sql)
            return list(cursor.fetchall())

    def state(self, session: int) -> State:
        return self.open.get(session, self.committed)

    def write(self, session: int, sql: str, statement: Statement | None, ddl: str = "") -> None:
        """Run a statement that should do this; None: it should fail. Another session's transaction may stop it (1222)."""
        error = self.run(session, sql)
        if error == 1222:
            assert [other for other in self.open if other != session], sql
            return
        if statement is None:
            assert error in (2601, 2627, 515, 4711), (error, sql)
            return
        assert error == 0, (error, sql)
        state = self.state(session).copy()
        for before, _ in statement:
            if before:
                del state.rows[before["ID"]]
        state.rows |= {after["ID"]: after for _, after in statement if after}
        state.statements += (statement,)
        self.settle(session, state, ddl)

    def settle(self, session: int, state: State, ddl: str = "") -> None:
        state.ddl += (ddl,) if ddl else ()
        if session in self.open:
            self.open[session] = state
        else:
            self.commit_state(state)

    def commit_state(self, state: State) -> None:
        log = [captured(statement, state.columns) for statement in state.statements]
        if self.instances and (any(log) or state.ddl):
            self.entries += 1
        for instance in self.instances:
            commands = [c for statement in state.statements for c in captured(statement, instance.columns)]
            instance.transactions += [commands] if commands else []
            instance.ddl += state.ddl
        self.committed = State(state.rows, state.columns)

    def unique(self, rows: dict[int, Row], statement: Statement) -> bool:
        """Whether the table has no key twice after the statement."""
        gone = [before["ID"] for before, _ in statement if before]
        left = [row for number, row in rows.items() if number not in gone] + [after for _, after in statement if after]
        return all(len({row[key] for row in left}) == len(left) for key in KEYS)

    def change(self, session: int, sql: str, statement: Statement) -> None:
        self.write(session, sql, statement if self.unique(self.state(session).rows, statement) else None)

    def ready(self) -> bool:
        return not self.open

    # -- the beginning

    @initialize()
    def set_up(self) -> None:
        self.run(0, "EXEC sys.sp_cdc_enable_db")
        self.run(
            0, "CREATE TABLE dbo.T (ID int NOT NULL PRIMARY KEY, U int NOT NULL, V nvarchar(20), Bio nvarchar(max))"
        )
        self.run(0, "CREATE UNIQUE INDEX UQ_T ON dbo.T (U)")
        for session in range(3):
            self.run(session, "SET LOCK_TIMEOUT 0")
        self.enable(list("UVB"))
        assert self.run(0, "EXEC sys.sp_cdc_stop_job") == 0

    # -- transactions

    @rule(session=SESSIONS)
    def begin(self, session: int) -> None:
        if session not in self.open:
            assert self.run(session, "BEGIN TRAN") == 0
            self.open[session] = self.committed.copy()

    @rule(session=SESSIONS, commit=st.sampled_from([True, True, False]))
    def end(self, session: int, commit: bool) -> None:
        if session in self.open:
            assert self.run(session, "COMMIT" if commit else "ROLLBACK") == 0
            state = self.open.pop(session)
            self.saved.pop(session, None)
            if commit and (state.statements or state.ddl):
                self.commit_state(state)

    @rule(session=SESSIONS)
    def save(self, session: int) -> None:
        if session in self.open:
            assert self.run(session, "SAVE TRAN point") == 0
            self.saved[session] = self.open[session].copy()

    @rule(session=SESSIONS)
    def roll_back_to_the_savepoint(self, session: int) -> None:
        if session in self.saved:
            assert self.run(session, "ROLLBACK TRAN point") == 0
            self.open[session] = self.saved[session].copy()

    # -- statements. A transaction that has written nothing yet sees what the others have committed meanwhile.

    def now(self, session: int) -> State:
        state = self.open.get(session)
        if state is not None and not state.statements and not state.ddl:
            self.open[session] = self.committed.copy()
            if session in self.saved:
                self.saved[session] = self.committed.copy()
        return self.state(session)

    @rule(session=SESSIONS, ids=st.lists(SOME_ID, min_size=1, max_size=3, unique=True), offset=st.integers(0, 2))
    def insert(self, session: int, ids: list[int], offset: int) -> None:
        state = self.now(session)
        rows = [dict.fromkeys(state.columns) | {"ID": n, "U": n + offset, "V": f"v{n}", "Bio": "b"} for n in ids]
        values = ", ".join(f"({n}, {n + offset}, N'v{n}', N'b')" for n in ids)
        statement: Statement = [(None, row) for row in rows]
        taken = any(n in state.rows for n in ids)
        sql = f"INSERT INTO dbo.T (ID, U, V, Bio) VALUES {values}"
        self.write(session, sql, None if taken or not self.unique(state.rows, statement) else statement)

    @rule(session=SESSIONS, column=st.sampled_from(["V", "Bio"]), value=st.sampled_from("xyz"), low=SOME_ID)
    def update(self, session: int, column: str, value: str, low: int) -> None:
        state = self.now(session)
        statement: Statement = [(r, r | {column: value}) for n, r in state.rows.items() if n >= low]
        self.change(session, f"UPDATE dbo.T SET {column} = N'{value}' WHERE ID >= {low}", statement)

    @rule(session=SESSIONS, key=st.sampled_from(KEYS), by=st.sampled_from([-1, 1, 5]), low=SOME_ID)
    def move(self, session: int, key: str, by: int, low: int) -> None:
        """Of one row or several: the deferred update when it is a key of several."""
        state = self.now(session)
        statement: Statement = [(r, r | {key: r[key] + by}) for n, r in state.rows.items() if n >= low]
        self.change(session, f"UPDATE dbo.T SET {key} = {key} + {by} WHERE ID >= {low}", statement)

    @rule(session=SESSIONS, chosen=SOME_ID)
    def move_and_rename(self, session: int, chosen: int) -> None:
        """Rows that move and rows that do not, in one statement."""
        state = self.now(session)
        statement: Statement = [
            (r, r | {"V": "m", "U": r["U"] + 100 if n == chosen else r["U"]}) for n, r in state.rows.items()
        ]
        sql = f"UPDATE dbo.T SET V = N'm', U = CASE WHEN ID = {chosen} THEN U + 100 ELSE U END"
        self.change(session, sql, statement)

    @rule(session=SESSIONS, low=SOME_ID)
    def delete(self, session: int, low: int) -> None:
        state = self.now(session)
        self.change(
            session, f"DELETE FROM dbo.T WHERE ID >= {low}", [(r, None) for n, r in state.rows.items() if n >= low]
        )

    @rule(session=SESSIONS)
    def fail(self, session: int) -> None:
        """A row that may not be, after one that may: neither is."""
        self.write(session, "INSERT INTO dbo.T (ID, U) VALUES (50, 50), (51, NULL)", None)

    # -- DDL

    @rule(session=SESSIONS)
    def add_column(self, session: int) -> None:
        state = self.now(session)
        name = f"C{next(self.names)}"
        self.define(session, f"ALTER TABLE dbo.T ADD {name} int NULL", (*state.columns, name))

    @rule(session=SESSIONS)
    def drop_column(self, session: int) -> None:
        state = self.now(session)
        extra = [name for name in state.columns if name.startswith("C")]
        if extra:
            left = tuple(name for name in state.columns if name != extra[0])
            self.define(session, f"ALTER TABLE dbo.T DROP COLUMN {extra[0]}", left)

    @rule(session=SESSIONS)
    def widen(self, session: int) -> None:
        """V takes longer text; the change tables follow when they are scanned."""
        state = self.now(session)
        self.define(session, f"ALTER TABLE dbo.T ALTER COLUMN V nvarchar({20 + next(self.names)}) NULL", state.columns)

    @rule(session=SESSIONS)
    def truncate(self, session: int) -> None:
        if self.instances:
            self.write(session, "TRUNCATE TABLE dbo.T", None)

    def define(self, session: int, sql: str, columns: tuple[str, ...]) -> None:
        error = self.run(session, sql)
        if error == 1222:
            assert [other for other in self.open if other != session], sql
            return
        assert error == 0, (error, sql)
        state = self.state(session).copy()
        state.columns = columns
        state.rows = {n: {name: row.get(name) for name in columns} for n, row in state.rows.items()}
        self.settle(session, state, sql)

    # -- capture

    @precondition(ready)
    @rule(letters=st.lists(st.sampled_from("UVB"), unique=True))
    def enable(self, letters: list[str]) -> None:
        if len(self.instances) == 2:
            return
        columns = tuple(c for c in self.committed.columns if c[0] in [*letters, "I", "C"])
        name = f"i{next(self.names)}"
        error = self.run(
            0,
            "EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = N'T', @role_name = NULL, "
            f"@capture_instance = N'{name}', @supports_net_changes = 0, @captured_column_list = N'{', '.join(columns)}'",
        )
        assert error == 0, error
        self.instances.append(Instance(name, columns))

    @precondition(lambda self: self.ready() and len(self.instances) == 2)
    @rule(which=st.sampled_from([0, 1]))
    def disable(self, which: int) -> None:
        self.scan()
        gone = self.instances.pop(which)
        assert self.run(0, f"EXEC sys.sp_cdc_disable_table N'dbo', N'T', N'{gone.name}'") == 0

    @precondition(ready)
    @rule()
    def scan(self) -> None:
        assert self.run(0, "EXEC sys.sp_cdc_scan") == 0
        for instance in self.instances:
            assert self.held(instance) == [
                [sorted(command, key=repr) for command in transaction] for transaction in instance.transactions
            ], instance
            told = self.rows(
                f"SELECT h.ddl_command FROM cdc.ddl_history AS h JOIN cdc.change_tables AS t ON t.object_id = h.object_id "
                f"WHERE t.capture_instance = N'{instance.name}' ORDER BY h.ddl_lsn"
            )
            assert sorted(text for (text,) in told) == sorted(instance.ddl)
        assert self.rows("SELECT COUNT(*) FROM cdc.lsn_time_mapping WHERE tran_id <> 0x00") == [(self.entries,)]

    def held(self, instance: Instance) -> list[list[list[Image]]]:
        """What the change table holds: transactions of commands of rows."""
        columns = "".join(f", [{name}]" for name in instance.columns)
        found = self.rows(
            f"SELECT [__$start_lsn], [__$command_id], [__$seqval], [__$operation], [__$update_mask]{columns} "
            f"FROM cdc.[{instance.name}_CT] ORDER BY 1, 2, 3, 4"
        )
        assert all(row[2] < row[0] for row in found)
        updates = [(row[0], row[2]) for row in found if row[3] in (3, 4)]
        assert updates[::2] == updates[1::2]
        return [
            [
                sorted(((row[3], row[4], tuple(row[5:])) for row in command), key=repr)
                for _, command in groupby(transaction, lambda row: row[1])
            ]
            for _, transaction in groupby(found, lambda row: row[0])
        ]

    def teardown(self) -> None:
        for session in list(self.open):
            self.end(session, commit=session != 1)
        try:
            self.scan()
            kept = {row[0]: row for row in self.rows("SELECT ID, U, V, Bio FROM dbo.T")}
            assert kept == {n: tuple(row[c] for c in ("ID", "U", "V", "Bio")) for n, row in self.committed.rows.items()}
        finally:
            self.run(0, "EXEC sys.sp_cdc_disable_db")
            for session, connection in enumerate(self.connections):
                self.run(session, "USE master")  # a closed connection is in use until the server has seen it
                connection.close()
            with pymssql.connect(**self.options) as admin, admin.cursor() as cursor:
                cursor.execute(f"DROP DATABASE {self.database}")


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    engine = build_engine(users={"sa": "test-Password-1"}, capture_interval=3600)
    with SqlServerEmulator(engine) as server:
        yield server.port
    engine.close()


def run(port: int, examples: int, steps: int) -> None:
    class Machine(Histories):
        pass

    Machine.port = port
    checks = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=examples, stateful_step_count=steps, deadline=None, suppress_health_check=checks, database=None
        ),
    )


def test_the_change_tables_of_50_random_histories_hold_what_the_model_says(port: int) -> None:
    run(port, examples=50, steps=25)


@pytest.mark.soak
def test_the_change_tables_of_many_long_histories_hold_what_the_model_says(port: int) -> None:
    run(port, examples=1500, steps=80)
