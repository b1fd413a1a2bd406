"""Writers, the capture job and readers at once, through the engine: nothing is lost, a transaction has one LSN, and rows and their
entry of lsn_time_mapping appear together."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from emulators.sqlserver.build import build_engine
from emulators.sqlserver.results import Engine, ErrorMessage, LoginRequest, ResultSet, Session, SqlError, Value

WRITERS = 4
TRANSACTIONS = 25
ROWS = 3


@pytest.fixture
def engine() -> Iterator[Engine]:
    made = build_engine(users={"sa": "secret"}, databases=["demo"], capture_interval=0.01)
    yield made
    made.close()


def run(session: Session, sql: str) -> list[Sequence[Value]]:
    """The rows of a batch's last result set. Raises SqlError for an error of any kind."""
    rows: list[Sequence[Value]] = []
    for event in session.batch(sql, {}, lambda: False):
        if isinstance(event, ErrorMessage):
            raise SqlError(event.number, event.message)
        if isinstance(event, ResultSet):
            rows = list(event.rows)
    return rows


def login(engine: Engine) -> Session:
    return engine.login(LoginRequest("sa", "secret", "demo"))


def write(engine: Engine, writer: int) -> None:
    """Each transaction inserts rows into both tables, in statements of their own."""
    session = login(engine)
    try:
        for number in range(TRANSACTIONS):
            tag = writer * TRANSACTIONS + number
            statements = [
                f"INSERT INTO dbo.{t} VALUES ({tag * ROWS + row}, {tag})" for row in range(ROWS) for t in "AB"
            ]
            run(session, "BEGIN TRAN; " + "; ".join(statements) + "; COMMIT")
    finally:
        session.close()


def read(engine: Engine, table: str, done: threading.Event) -> list[Sequence[Value]]:
    """Follow the change table window by window, never looking below the last maximum again, as a consumer does."""
    session = login(engine)
    seen: list[Sequence[Value]] = []
    low = bytes(10)
    try:
        while True:
            finished = done.is_set()
            ((high,),) = run(session, "SELECT sys.fn_cdc_get_max_lsn()")
            if isinstance(high, bytes) and high > low:
                seen += run(
                    session,
                    f"SELECT [__$start_lsn], ID, Tag FROM cdc.dbo_{table}_CT WHERE [__$start_lsn] > 0x{low.hex()} "
                    f"AND [__$start_lsn] <= 0x{high.hex()} ORDER BY [__$start_lsn], [__$command_id], [__$seqval]",
                )
                low = high
            elif finished:
                return seen
            done.wait(0.005)
    finally:
        session.close()


def watch(engine: Engine, done: threading.Event) -> int:
    """How often a change row was to be seen without its entry of lsn_time_mapping."""
    session = login(engine)
    orphans = 0
    try:
        while not done.wait(0.005):
            ((count,),) = run(
                session,
                "SELECT COUNT(*) FROM cdc.dbo_A_CT AS ct WHERE NOT EXISTS "
                "(SELECT 1 FROM cdc.lsn_time_mapping AS tm WHERE tm.start_lsn = ct.[__$start_lsn])",
            )
            assert isinstance(count, int)
            orphans += count
        return orphans
    finally:
        session.close()


def test_nothing_is_lost_between_writers_capture_and_readers(engine: Engine) -> None:
    session = login(engine)
    run(session, "EXEC sys.sp_cdc_enable_db")
    for table in "AB":
        run(session, f"CREATE TABLE dbo.{table} (ID int NOT NULL PRIMARY KEY, Tag int NOT NULL)")
        run(session, f"EXEC sys.sp_cdc_enable_table N'dbo', N'{table}', @role_name = NULL")
    done = threading.Event()
    with ThreadPoolExecutor(WRITERS + 3) as pool:
        readers = [pool.submit(read, engine, table, done) for table in "AB"]
        watcher = pool.submit(watch, engine, done)
        try:
            for writer in [pool.submit(write, engine, number) for number in range(WRITERS)]:
                writer.result()
            run(session, "EXEC sys.sp_cdc_scan")
        finally:
            done.set()
        results = [reader.result() for reader in readers]
        assert watcher.result() == 0
    session.close()
    for rows in results:
        assert sorted(row[1] for row in rows) == list(range(WRITERS * TRANSACTIONS * ROWS))  # type: ignore[type-var]
        assert Counter(row[0] for row in rows).most_common(1)[0][1] == ROWS
        assert len({(row[0], row[2]) for row in rows}) == WRITERS * TRANSACTIONS
        assert [row[0] for row in rows] == sorted(row[0] for row in rows)  # type: ignore[type-var]
    assert {(row[0], row[2]) for row in results[0]} == {(row[0], row[2]) for row in results[1]}
