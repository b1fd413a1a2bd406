"""The events about transactions: which there are, with the counts that the change tables have, in pages of any size."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from common.errors import ConnectionLost, TransientError
from common.names import TRANSACTIONS, TableName
from emulators.sqlserver.faults.catalogue import ChangeTableLocked
from emulators.sqlserver.server import SqlServerEmulator
from ingester.change import Change, Operation
from ingester.position import Position
from ingester.source import CaptureInstance, PageQuery, ProbeRequest
from ingester.sqlserver.connection import Connection
from ingester.sqlserver.position import LogPosition, Lsn, in_the_log
from ingester.sqlserver.sql.changes import Statement
from ingester.sqlserver.transactions.log import TransactionLog
from ingester.sqlserver.transactions.source import TransactionSource
from ingester.window import gap
from tests.contracts.source.conftest import Places
from tests.contracts.source.test_source import PERSONS, Place

ORDERS, HEAP, OTHER = TableName("sales", "Orders"), TableName("dbo", "Heap"), TableName("dbo", "Other")
CHANGE_TABLES = {PERSONS: "dbo_Persons_CT", ORDERS: "sales_Orders_CT", HEAP: "dbo_Heap_CT", OTHER: "dbo_Other_CT"}


@pytest.fixture
def place(places: Places) -> Place:
    """dbo.Persons, sales.Orders, dbo.Heap (without a key) and dbo.Other, all under CDC."""
    found = places()
    found.execute("CREATE SCHEMA sales")
    found.execute("CREATE TABLE sales.Orders (ID INT PRIMARY KEY, Total INT NULL)")
    found.execute("CREATE TABLE dbo.Heap (A INT NULL)")
    found.execute("CREATE TABLE dbo.Other (ID INT PRIMARY KEY)")
    for table in (ORDERS, HEAP, OTHER):
        found.enable(table.schema, table.table)
    return found


def source(place: Place, *tables: TableName) -> TransactionSource:
    return TransactionSource(place.connection, lambda: tables)


def log_of(reader: TransactionSource) -> CaptureInstance:
    [found] = reader.states([TRANSACTIONS])[TRANSACTIONS].instances
    return found


def upto(reader: TransactionSource, log: CaptureInstance) -> Position:
    found = reader.probe([ProbeRequest(log, None)]).upto
    assert found is not None
    return found


def read(
    reader: TransactionSource, log: CaptureInstance, rows: int = 100, after: Position | None = None
) -> list[Change]:
    at, last, found = after or log.start, upto(reader, log), list[Change]()
    while at < last:
        page = reader.page(PageQuery(log, at, last, rows))
        assert page.end is not None
        assert page.end > at or (page.full and not page.changes), "a large transaction is still being counted"
        found, at = found + list(page.changes), page.end
    return found


def work(place: Place, number: int, seed: int = 7) -> None:
    """So many random transactions of several statements over the four tables."""
    chance = random.Random(seed)
    for at in range(number):
        statements = [
            f"INSERT INTO dbo.Persons (ID) VALUES ({at * 10}), ({at * 10 + 1})",
            f"UPDATE dbo.Persons SET Name = N'n{at}' WHERE ID % 3 = {at % 3}",
            f"UPDATE dbo.Persons SET ID = ID + 100000 WHERE ID = {at * 10 - 10}",
            f"INSERT INTO sales.Orders (ID, Total) VALUES ({at}, 1)",
            f"UPDATE sales.Orders SET Total = {at}",
            f"INSERT INTO dbo.Heap (A) VALUES ({at}), ({at})",
            f"DELETE FROM dbo.Heap WHERE A = {at - 1}",
            f"INSERT INTO dbo.Other (ID) VALUES ({at})",
        ]
        some = chance.sample(statements, chance.randint(1, 5))
        place.execute(f"BEGIN TRAN; {'; '.join(some)}; {chance.choice(['COMMIT', 'COMMIT', 'COMMIT', 'ROLLBACK'])}")
        if at % 4 == 0:
            place.scan()
    place.scan()


def counted(place: Place, *tables: TableName) -> dict[str, dict[str, int]]:
    """By hand: the changes of each transaction in the change tables, by LSN and table."""
    found: dict[str, Counter[str]] = {}
    for table in tables:
        place._cursor.execute(f"SELECT [__$start_lsn] FROM cdc.{CHANGE_TABLES[table]} WHERE [__$operation] <> 3")
        for (lsn,) in place._cursor.fetchall():
            found.setdefault(bytes(lsn).hex(), Counter())[table.key] += 1
    return {lsn: dict(found[lsn]) for lsn in sorted(found)}


def said(events: Sequence[Change]) -> dict[str, dict[str, int]]:
    """What the events say, each transaction's two following each other."""
    assert len(events) % 2 == 0
    found: dict[str, dict[str, int]] = {}
    for begin, end in zip(events[::2], events[1::2], strict=True):
        assert begin.transaction is not None
        assert end.transaction is not None
        assert (begin.operation, end.operation) == (Operation.BEGIN, Operation.END)
        assert (begin.transaction["Status"], end.transaction["Status"]) == ("BEGIN", "END")
        assert {**begin.transaction, "Status": "END"} == end.transaction
        assert begin.position < end.position
        assert begin.commit_time == end.commit_time is not None
        counts = {one["Table"]: one["Count"] for one in end.transaction["Tables"]}
        assert sum(counts.values()) == end.transaction["EventCount"] > 0
        found[end.transaction["Id"]] = counts
    assert len(found) * 2 == len(events)
    assert list(found) == sorted(found)
    return found


@pytest.mark.parametrize("rows", [1, 2, 5, 1000])
def test_each_transaction_with_changes_of_the_tables_has_two_events_with_its_counts(place: Place, rows: int) -> None:
    work(place, 15)
    reader = source(place, PERSONS, ORDERS, HEAP)
    expected = counted(place, PERSONS, ORDERS, HEAP)
    assert len(expected) > 5
    assert expected != counted(place, *CHANGE_TABLES)
    assert said(read(reader, log_of(reader), rows)) == expected
    assert read(reader, log_of(reader), rows) == read(reader, log_of(reader), 1000), (
        "the same events whatever the pages"
    )


def test_a_reader_goes_on_between_the_two_events(place: Place) -> None:
    work(place, 5)
    reader = source(place, PERSONS, ORDERS, HEAP, OTHER)
    log = log_of(reader)
    whole = read(reader, log)
    for at, event in enumerate(whole):
        again = LogPosition(*_parts(event.position))
        assert read(reader, log, 3, again) == whole[at + 1 :]
        assert reader.probe([ProbeRequest(log, again)]).answers[log.name].pending == (at + 1 < len(whole))


def _parts(position: Position) -> tuple[Lsn, int, bytes, int]:
    """As an offset stores a position."""
    found = in_the_log(position)
    return found.lsn, found.command_id, found.seqval, found.operation


def test_the_counts_are_those_of_the_changes_that_the_tables_are_read_to(place: Place) -> None:
    work(place, 12)
    reader = source(place, PERSONS, ORDERS, HEAP)
    places: Counter[tuple[str, str]] = Counter()
    for table in (PERSONS, ORDERS, HEAP):
        [instance] = reader.states([table])[table].instances
        at, last = instance.start, upto(reader, instance)
        while True:
            page = reader.page(PageQuery(instance, at, last, 3))
            for change in page.changes:
                assert change.transaction is not None
                places[change.transaction["Id"], table.key] += 1
                assert change.transaction["TableOrder"] == places[change.transaction["Id"], table.key]
            if page.end is None or not page.full:
                break
            at = page.end
    events = said(read(reader, log_of(reader)))
    assert places == {(lsn, table): count for lsn, counts in events.items() for table, count in counts.items()}


def test_transactions_of_other_tables_are_passed_over_and_the_offset_moves(place: Place) -> None:
    reader = source(place, PERSONS)
    place.execute("INSERT INTO dbo.Other (ID) VALUES (1)")
    place.scan()
    log = log_of(reader)
    last = upto(reader, log)
    page = reader.page(PageQuery(log, log.start, last, 10))
    assert (list(page.changes), page.end, page.full) == ([], last, False)
    assert not reader.probe([ProbeRequest(log, last)]).answers[log.name].pending


def test_a_table_counts_from_its_first_captured_transaction_and_the_newer_of_two_instances_takes_over(
    place: Place,
) -> None:
    work(place, 4)
    place.execute("ALTER TABLE sales.Orders ADD Note INT NULL")
    place.enable("sales", "Orders", capture_instance="orders2")
    place.execute("CREATE TABLE dbo.Late (ID INT PRIMARY KEY)")
    place.enable("dbo", "Late")
    place.execute(
        "BEGIN TRAN; INSERT INTO sales.Orders (ID, Note) VALUES (700, 1), (701, 1); INSERT INTO dbo.Late VALUES (1); COMMIT"
    )
    place.scan()
    reader = source(place, ORDERS, TableName("dbo", "Late"))
    log = log_of(reader)
    assert isinstance(log, TransactionLog)
    assert [(one.name, one.end is None) for one in log.counted] == [
        ("dbo_Late", True),
        ("sales_Orders", False),
        ("orders2", True),
    ]
    events = said(read(reader, log))
    assert list(events.values())[-1] == {"dbo.Late": 1, "sales.Orders": 2}
    assert {lsn: c["sales.Orders"] for lsn, c in events.items()} == {
        lsn: c["sales.Orders"] for lsn, c in counted(place, ORDERS).items()
    }


def test_what_cleanup_removed_before_it_was_counted_is_a_gap(place: Place) -> None:
    work(place, 6)
    reader = source(place, PERSONS, ORDERS)
    log = log_of(reader)
    last = upto(reader, log)
    lsns = list(counted(place, PERSONS, ORDERS))
    for table in CHANGE_TABLES.values():
        place.execute(
            f"EXEC sys.sp_cdc_cleanup_change_table @capture_instance = N'{table[:-3]}', @low_water_mark = 0x{lsns[-1]}"
        )
    page = reader.page(PageQuery(log, log.start, last, 10))
    assert gap(log.start, page.low_watermark) is not None
    assert gap(log.start, reader.probe([ProbeRequest(log, log.start)]).answers[log.name].low_watermark) is not None
    assert log_of(reader).start == page.low_watermark


def test_without_a_table_under_cdc_there_is_nothing_to_read_yet(place: Place) -> None:
    reader = source(place, TableName("dbo", "Missing"))
    state = reader.states([TRANSACTIONS])[TRANSACTIONS]
    assert (state.exists, state.instances, state.database_has_cdc) == (True, (), True)
    assert "no configured table is under CDC" in str(reader.hints.absence(TRANSACTIONS, state))


def test_one_task_reads_the_events_whatever_the_order(place: Place) -> None:
    reader = source(place, PERSONS)
    assert reader.shared_by(log_of(reader), "none") == reader.shared_by(log_of(reader), "key") == ()


def test_without_the_option_the_source_is_the_plain_one(place: Place) -> None:
    from ingester.sqlserver.source import SqlServerSource
    from ingester.sqlserver.transactions.source import sql_server_source

    plain = sql_server_source(Connection(Place.address_of(place.login)), transactions=False)
    assert type(plain) is SqlServerSource


class Counting(Connection):
    """Notes the largest count that one answer holds of a change table."""

    most = 0

    def batch(self, statements: Sequence[Statement], *, within: float | None = None) -> list[list[tuple[Any, ...]]]:
        sets = super().batch(statements, within=within)
        counts = [row for rows in sets for row in rows if len(row) in (3, 5) and isinstance(row[0], int)]
        found: Counter[int] = Counter()
        for row in counts:
            found[row[0]] += row[2] if len(row) == 3 else row[1]
        self.most = max(self.most, *found.values(), 0)
        return sets


@pytest.mark.parametrize("command_ids", [True, False], ids=["with command ids", "without"])
@pytest.mark.parametrize("step", [1, 2, 3, 7, 20])
def test_no_question_counts_more_than_a_step_and_the_counts_are_the_same(
    places: Places, step: int, command_ids: bool
) -> None:
    """However many pages it takes; some of them only go on counting."""
    place = places(command_ids=command_ids)
    place.execute("CREATE TABLE dbo.Heap (A INT NULL)")
    place.enable("dbo", "Heap")
    rows = ", ".join(f"({number})" for number in range(25))
    for statements in (
        "INSERT INTO dbo.Persons (ID) VALUES (100)",
        f"INSERT INTO dbo.Persons (ID) VALUES {rows}",
        f"INSERT INTO dbo.Heap VALUES {rows}; INSERT INTO dbo.Persons (ID) VALUES (101), (102), (103); DELETE FROM dbo.Heap",
        "INSERT INTO dbo.Heap VALUES (1)",
        "UPDATE dbo.Persons SET Name = N'a'; UPDATE dbo.Persons SET Name = N'b' WHERE ID % 2 = 0",
        "DELETE FROM dbo.Persons WHERE ID > 100",
    ):
        place.execute(f"BEGIN TRAN; {statements}; COMMIT")
    place.scan()
    connection = Counting(Place.address_of(place.login))
    reader = TransactionSource(connection, lambda: (PERSONS, HEAP), step=step)
    log, last = log_of(reader), upto(source(place, PERSONS, HEAP), log_of(reader))
    events, at, empty = list[Change](), log.start, 0
    while at < last:
        page = reader.page(PageQuery(log, at, last, 100))
        assert page.end is not None
        assert page.full or page.end == last
        if page.end == at:
            assert not page.changes
            empty += 1
        events, at = events + list(page.changes), page.end
    assert said(events) == counted(place, PERSONS, HEAP)
    assert events == read(source(place, PERSONS, HEAP), log)
    assert connection.most <= step
    assert empty or step > 3
    connection.close()


def test_pages_have_fewer_transactions_where_these_are_large_and_more_again_behind_them(place: Place) -> None:
    rows = ", ".join(f"({number})" for number in range(8))
    for _ in range(6):
        place.execute(f"INSERT INTO dbo.Heap VALUES {rows}")
    for number in range(20):
        place.execute(f"INSERT INTO dbo.Heap VALUES ({number})")
    place.scan()
    reader = TransactionSource(place.connection, lambda: (HEAP,), step=20)
    log = log_of(reader)
    at, last, found = log.start, upto(reader, log), list[int]()
    while at < last:
        page = reader.page(PageQuery(log, at, last, 1000))
        assert page.end is not None
        at = page.end
        found.append(len(page.changes) // 2)
    assert found == [2, 2, 4, 8, 10], "two of eight changes each are within twenty"


def test_a_table_that_is_dropped_from_the_count_does_not_stay_in_one_that_is_under_way(place: Place) -> None:
    rows = ", ".join(f"({number})" for number in range(30))
    place.execute(f"BEGIN TRAN; INSERT INTO dbo.Heap VALUES {rows}; INSERT INTO dbo.Other VALUES {rows}; COMMIT")
    place.scan()
    configured = [HEAP, OTHER]
    reader = TransactionSource(place.connection, lambda: configured, step=3)
    log = log_of(reader)
    last = upto(reader, log)
    assert reader.page(PageQuery(log, log.start, last, 10)).end == log.start
    configured.remove(OTHER)
    assert list(said(read(reader, log_of(reader))).values()) == [{"dbo.Heap": 30}]


@pytest.mark.parametrize("step", [3, 50_000], ids=["alone", "with others"])
def test_a_change_table_that_another_session_holds_is_named_at_once_and_the_session_waits_as_before(
    server: SqlServerEmulator, place: Place, step: int
) -> None:
    work(place, 6)
    reader = TransactionSource(place.connection, lambda: (PERSONS, ORDERS, HEAP), step=step)
    log = log_of(reader)
    last, session = upto(reader, log), place.connection.rows("SELECT @@SPID, @@LOCK_TIMEOUT")
    with (
        server.inject(ChangeTableLocked("sales_Orders_CT")),
        pytest.raises(TransientError, match=r"locked cdc\.sales_Orders_CT \(") as refused,
    ):
        read(reader, log)
    assert not isinstance(refused.value, ConnectionLost)
    assert "READ_COMMITTED_SNAPSHOT" in str(refused.value.hint)
    assert place.connection.rows("SELECT @@SPID, @@LOCK_TIMEOUT") == session == [(session[0][0], 10_000)]
    assert upto(reader, log) == last
    assert said(read(reader, log)) == counted(place, PERSONS, ORDERS, HEAP)
