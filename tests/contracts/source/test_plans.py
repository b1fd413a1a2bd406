"""What a question costs the server: the index is sought, plans are found again, and a quiet database is asked next to nothing.

The emulator's SQLite tells how it would read its change tables, whose index is that of SQL Server's. A real server, where
DSTREAM_TEST_SQLSERVER names one, is asked for its plans.
"""

from __future__ import annotations

import os
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from pydantic import SecretStr

from common.names import TRANSACTIONS, TableName
from common.sqladdress import SqlAddress
from dstream.emulators import Login
from emulators.sqlserver.engine.server_engine import SqlEngine
from emulators.sqlserver.server import SqlServerEmulator
from emulators.sqlserver.tsql.planning.plans import Plan
from ingester.position import Position
from ingester.source import PageQuery, Part, ProbeRequest
from ingester.sqlserver.change_table import ChangeTable
from ingester.sqlserver.connection import Connection
from ingester.sqlserver.counting.steps import step
from ingester.sqlserver.literals import type_of
from ingester.sqlserver.pairing import Tally
from ingester.sqlserver.position import LogPosition, Lsn, in_the_log
from ingester.sqlserver.source import SqlServerSource
from ingester.sqlserver.sql import changes as queries
from ingester.sqlserver.sql import finding as queries_of_finding
from ingester.sqlserver.sql import newer as queries_of_newer
from ingester.sqlserver.sql import parts as queries_of_parts
from ingester.sqlserver.sql import transactions as queries_of_transactions
from ingester.sqlserver.sql.changes import P, Statement
from ingester.sqlserver.sql.literal import literal
from ingester.sqlserver.transactions.source import TransactionSource
from tests.contracts.source.conftest import Places
from tests.contracts.source.test_source import PERSONS, Place
from tests.worlds.databases import drop

REAL = os.environ.get("DSTREAM_TEST_SQLSERVER", "").strip()
_LSN = Lsn(bytes(9) + b"\x05")
_UPTO = LogPosition.end_of(Lsn(bytes(9) + b"\xff"))
STARTS = {
    "before a transaction": LogPosition.before(_LSN),
    "after a transaction": LogPosition.end_of(_LSN),
    "within a transaction": LogPosition(_LSN, 7, bytes(10), 2),
    "after what an older server captured": LogPosition(_LSN, 0, bytes(10), 2),
    "before what an older server captured": LogPosition(_LSN, -1, bytes(10), 2),
}
_SEEK_IN_SQLITE = re.compile(r"SEARCH \w+ USING (COVERING )?INDEX i\d+_1 \(__\$start_lsn>\?")


def probe(instance: ChangeTable, start: LogPosition) -> Statement:
    rows = queries.window(start, None, instance.has_command_id)
    return queries.pending(0, instance, rows, _UPTO.lsn)


def page(instance: ChangeTable, start: LogPosition) -> Statement:
    return queries.page(queries.RowsQuery(instance, ["ct.[ID]"], start, _UPTO, 5))


def stride(instance: ChangeTable, start: LogPosition) -> Statement:
    return queries_of_parts.stride(instance, start=start, upto=_UPTO, rows=5)


def part(instance: ChangeTable, start: LogPosition) -> Statement:
    one = Part(1, 0, 2, ("ID",), 100)
    return queries_of_parts.page(queries.RowsQuery(instance, ["ct.[ID]"], start, _UPTO, 5), one)


def numbered_part(instance: ChangeTable, start: LogPosition) -> Statement:
    one = Part(1, 0, 2, ("ID",), 100)
    return queries_of_parts.page(queries.RowsQuery(instance, ["ct.[ID]"], start, _UPTO, 5, numbered=True), one)


def changes_of_transactions(instance: ChangeTable, start: LogPosition) -> Statement:
    return queries_of_transactions.counts(0, instance.change_table, start.lsn, _UPTO.lsn, 5)


def window_of_newer(instance: ChangeTable, start: LogPosition) -> Statement:
    return queries_of_newer.window_end(instance, start, 5)


def any_newer(instance: ChangeTable, start: LogPosition) -> Statement:
    return queries_of_newer.any_after(instance, start)


def newer(instance: ChangeTable, start: LogPosition) -> Statement:
    asked = queries_of_newer.Asked(_LSN.value, 1, bytes(10), 4)
    return queries_of_newer.newer(instance, [asked], start, 5, start)


def named(instance: ChangeTable, start: LogPosition) -> Statement:
    asked = queries_of_newer.Asked(_LSN.value, 1, bytes(10), 4)
    return queries_of_newer.named(instance, [asked], start, 5, start)


Asked = Callable[[ChangeTable, LogPosition], Statement]
QUESTIONS = pytest.mark.parametrize(
    "ask",
    [probe, page, stride, part, numbered_part, changes_of_transactions, window_of_newer, any_newer],
    ids=lambda f: f.__name__,
)
BEGINNINGS = pytest.mark.parametrize("start", STARTS.values(), ids=STARTS)


@QUESTIONS
@BEGINNINGS
@pytest.mark.parametrize("command_ids", [True, False], ids=["with command ids", "without"])
def test_a_change_table_is_sought_by_its_index(
    places: Places, engine: SqlEngine, ask: Asked, start: LogPosition, command_ids: bool
) -> None:
    place = places(command_ids=command_ids)
    instance, known = place.instance(), set(engine.plans._plans)
    place.connection.result_sets(*ask(instance, start))
    made = [plan for key, (plan, _) in engine.plans._plans.items() if key not in known]
    looked = _ways_through(engine, place.login.database, "dbo_Persons_CT", made)
    assert looked
    assert all(_SEEK_IN_SQLITE.search(way) for way in looked), looked


@pytest.mark.parametrize("ask", [page, part, numbered_part], ids=lambda f: f.__name__)
def test_commit_times_are_sought_and_never_scanned(places: Places, engine: SqlEngine, ask: Asked) -> None:
    """cdc.lsn_time_mapping has the transactions of all tables."""
    place = places()
    instance, known = place.instance(), set(engine.plans._plans)
    place.connection.result_sets(*ask(instance, STARTS["within a transaction"]))
    made = [plan for key, (plan, _) in engine.plans._plans.items() if key not in known]
    [looked] = _ways_through(engine, place.login.database, "lsn_time_mapping", made)
    assert re.fullmatch(r"SEARCH \w+ USING INDEX \w+ \(start_lsn=\?\)", looked), looked


@pytest.mark.parametrize("command_ids", [True, False], ids=["with command ids", "without"])
def test_rows_are_looked_for_by_the_index_in_both_directions(
    places: Places, engine: SqlEngine, command_ids: bool
) -> None:
    """Newer changes of asked ones: their rows are sought by LSN, the window by its beginning. A row's changes by key: from a position backwards."""
    place = places(command_ids=command_ids)
    instance, start = place.instance(), STARTS["within a transaction"]
    key = [(queries_of_newer.sorted_key(instance)[0], "1")]
    for statement in (
        newer(instance, start),
        named(instance, start),
        queries_of_finding.window_start(instance, start, 5),
        queries_of_finding.of_key(instance, key, start, 5),
    ):
        known = set(engine.plans._plans)
        place.connection.result_sets(*statement)
        made = [plan for key_, (plan, _) in engine.plans._plans.items() if key_ not in known]
        looked = _ways_through(engine, place.login.database, "dbo_Persons_CT", made)
        assert looked
        assert all(re.search(r"USING (COVERING )?INDEX i\d+_1 \(__\$start_lsn[<>=]", way) for way in looked), looked


@pytest.mark.parametrize("command_ids", [True, False], ids=["with command ids", "without"])
def test_a_step_of_a_count_seeks_where_it_begins_and_ends(places: Places, engine: SqlEngine, command_ids: bool) -> None:
    """By the parts of the clustered index behind the LSN: a transaction may be most of a change table, and one command most of it."""
    place = places(command_ids=command_ids)
    instance, last = place.instance(), LogPosition.end_of(_LSN)
    start, first, same, other = (
        LogPosition(_LSN, command, bytes([seqval]) * 10, 2)
        for command, seqval in ([(-1, 0), (5, 1), (5, 2), (9, 3)] if command_ids else [(-1, 0), (0, 1), (0, 2), (0, 3)])
    )
    for begin, end, sought in zip(
        (start, start, first, first, first), (last, same, same, other, last), _SOUGHT[command_ids], strict=True
    ):
        engine.plans._plans.clear()
        step(place.connection, instance, Tally(begin, 0), end)
        made = [plan for plan, _ in engine.plans._plans.values()]
        ways = _ways_through(engine, place.login.database, "dbo_Persons_CT", made)
        assert {_RANGE.findall(way)[0] for way in ways} == sought, (begin, end)


_RANGE = re.compile(r"SEARCH \w+ USING (?:COVERING )?INDEX i\d+_1 \((.*)\)")
_ALL = "__$start_lsn=?"
_COMMAND = f"{_ALL} AND __$command_id"
_SOUGHT = {
    True: (
        {_ALL},
        {f"{_COMMAND}=?", f"{_COMMAND}<?", f"{_COMMAND}=? AND __$seqval<?"},
        {f"{_COMMAND}=? AND __$seqval>? AND __$seqval<?"},
        {f"{_COMMAND}=? AND __$seqval>?", f"{_COMMAND}>? AND __$command_id<?", f"{_COMMAND}=? AND __$seqval<?"},
        {f"{_COMMAND}=? AND __$seqval>?", f"{_COMMAND}>?"},
    ),
    False: (
        {_ALL},
        {f"{_ALL} AND __$seqval<?"},
        {f"{_ALL} AND __$seqval>? AND __$seqval<?"},
        {f"{_ALL} AND __$seqval>? AND __$seqval<?"},
        {f"{_ALL} AND __$seqval>?"},
    ),
}
"""Of each of the pairs, what its ranges are sought by."""


def _ways_through(engine: SqlEngine, database: str, table: str, plans: list[Plan]) -> list[str]:
    """How SQLite goes through `table` for each of `plans` that reads it."""
    stored = engine.find(database)
    assert stored is not None
    entry = stored.catalog.find("cdc", table)
    assert entry is not None
    named, link = f'"t{entry.table.object_id}"', stored.open_link()
    found = []
    for plan in [plan for plan in plans if named in plan.sql]:
        calls = re.findall(rf"{named} AS (\w+)", plan.sql)
        steps = link.execute(f"EXPLAIN QUERY PLAN {plan.sql}", [None] * len(plan.parameters)).fetchall()
        found += [step for *_, step in steps if step.split()[1] in calls]
    stored.close_link(link)
    return found


# plans are found again

_TEXT, _VALUE = r"N'((?:[^']|'')*)'", r"(?:N'(?:[^']|'')*'|0x[0-9a-f]*|-?\d+|NULL|@\w+ OUTPUT)"
_CALL = re.compile(rf"EXEC sys\.sp_executesql {_TEXT}(?:, {_TEXT}(?:, {_VALUE})*)?")
_LITERAL = re.compile(r"0x(?!0[01]0*\b)[0-9a-fA-F]{2,}")
"""Beside the marks in front of joined columns, and the zeros of a NULL."""


@contextmanager
def recorded(
    engine: SqlEngine, login: Login, source_of: Callable[..., SqlServerSource] = SqlServerSource, **options: Any
) -> Iterator[tuple[SqlServerSource, list[str]]]:
    """A source through a port of its own, and what is sent there, from its first question on."""
    sent: list[str] = []
    with SqlServerEmulator(engine, statement_log=sent.append) as server:
        address = SqlAddress("127.0.0.1", server.port, None, login.database, login.user, SecretStr(login.password))
        source = source_of(Connection(address), **options)
        yield source, sent
        source.close()


def prepared(sent: list[str]) -> set[tuple[str, str]]:
    """The (text, types) that SQL Server makes plans of: what is handed to sp_executesql, and each statement that stands outside of it."""
    found: set[tuple[str, str]] = set()
    for text in sent:
        outside = [part.strip() for part in _CALL.sub("", text).split(";\n")]
        found |= {*_CALL.findall(text), *((part, "") for part in outside if part)}
    return found


def test_the_number_of_texts_does_not_grow_with_transactions(places: Places, engine: SqlEngine) -> None:
    """Places and events from all positions of pages of different sizes."""
    place = places()
    with recorded(engine, place.login, TransactionSource, tables=lambda: [PERSONS]) as (source, sent):
        texts: list[int] = []
        offsets: dict[TableName, Position] = {}
        for turn in range(30):
            place.execute(f"INSERT INTO dbo.Persons (ID) VALUES ({4 * turn}), ({4 * turn + 1}), ({4 * turn + 2})")
            place.scan()
            _pass(source, [PERSONS, TRANSACTIONS], offsets, rows=turn % 4 + 1)
            texts.append(len(prepared(sent)))
    assert texts[-1] == texts[15] < 40, sorted(prepared(sent))


@pytest.mark.parametrize("mode", ["direct", "function"])
def test_the_number_of_texts_does_not_grow_with_time(places: Places, engine: SqlEngine, mode: str) -> None:
    """Changes come, pages of different sizes end anywhere, the log moves on; the same few plans serve all of it."""
    place = places()
    tables = [TableName("dbo", f"T{number}") for number in range(3)]
    for table in tables:
        place.execute(f"CREATE TABLE {table.quoted} (ID INT PRIMARY KEY, Name NVARCHAR(9))")
        place.enable(table=table.table)
    with recorded(engine, place.login, query_mode=mode) as (source, sent):
        texts: list[int] = []
        offsets: dict[TableName, Position] = {}
        for turn in range(40):
            for table in tables[: turn % 3 + 1]:
                place.execute(f"INSERT INTO {table.quoted} VALUES ({4 * turn}, N'a'), ({4 * turn + 1}, N'b')")
            place.scan()
            _pass(source, tables, offsets, rows=turn % 3 + 1)
            texts.append(len(prepared(sent)))
    assert texts[-1] == texts[19] < 40, sorted(prepared(sent))
    assert all(types for text, types in prepared(sent) if "TRY" in text or "IF " in text), "flow outside the calls"
    assert not any(_LITERAL.search(text) for text, _ in prepared(sent) if "__$start_lsn" in text and mode == "direct")


def _pass(source: SqlServerSource, tables: list[TableName], offsets: dict[TableName, Position], rows: int) -> None:
    instances = {table: state.instances[0] for table, state in source.states(tables).items()}
    requests = [ProbeRequest(instances[table], offsets.get(table)) for table in tables]
    probe = source.probe(requests)
    assert probe.upto is not None
    for table, request in zip(tables, requests, strict=True):
        start = request.after or request.instance.start
        if probe.answers[request.instance.name].pending:
            page = source.page(PageQuery(request.instance, after=start, upto=probe.upto, rows=rows))
            offsets[table] = page.end or start
        else:
            offsets[table] = probe.upto


def test_a_quiet_database_is_asked_once_however_many_tables_there_are(places: Places, engine: SqlEngine) -> None:
    place = places()
    place.execute("INSERT INTO dbo.Persons (ID) VALUES (1)")
    place.scan()
    with recorded(engine, place.login) as (source, sent):
        instance = source.states([PERSONS])[PERSONS].instances[0]
        first = source.probe([ProbeRequest(instance, None)])
        assert first.upto is not None
        idle = [ProbeRequest(instance, first.upto)] * 1000
        del sent[:]
        assert not source.probe(idle).answers[instance.name].pending
        assert len(sent) == 2
        for _ in range(5):
            del sent[:]
            assert not source.probe(idle).answers[instance.name].pending
            assert len(sent) == 1
            assert "cdc].[dbo_Persons_CT" not in sent[0]
            assert sent[0].count("SELECT") == 4  # one of them where the max LSN is locked, one behind every batch
        place.execute("INSERT INTO dbo.Persons (ID) VALUES (2)")
        place.scan()
        assert source.probe(idle).answers[instance.name].pending


def test_a_table_that_was_found_empty_is_looked_at_again_when_that_says_nothing_of_what_is_asked(
    places: Places, engine: SqlEngine
) -> None:
    """For an earlier offset, as after a lock was lost; for another border; and when it was not empty."""
    place = places()
    for number in (1, 2):
        place.execute(f"INSERT INTO dbo.Persons (ID) VALUES ({number})")
        place.scan()
    first, second = (in_the_log(change.position) for change in place.read())
    with recorded(engine, place.login) as (source, sent):
        instance = source.states([PERSONS])[PERSONS].instances[0]

        def pending(after: Position | None, before: Position | None = None) -> bool:
            return source.probe([ProbeRequest(instance, after, before)]).answers[instance.name].pending

        assert pending(first)
        assert not pending(second)
        assert pending(first)
        assert pending(None)
        assert not pending(first, LogPosition.before(second.lsn))
        assert pending(first)
        assert not pending(second)
        del sent[:]
        assert not pending(LogPosition.end_of(second.lsn))
        assert len(sent) == 1


def test_cleanup_that_passes_a_table_known_to_be_empty_is_no_gap_and_is_seen_with_the_next_capture(
    places: Places, engine: SqlEngine
) -> None:
    """Nothing was left to remove. Once capture has found something, the low watermark is read again, after the rows."""
    place = places()
    place.execute("INSERT INTO dbo.Persons (ID) VALUES (1)")
    place.scan()
    place.execute("CREATE TABLE dbo.Other (ID INT PRIMARY KEY)")
    place.enable(table="Other")
    # Of transactions with one commit time cleanup takes the first for its low watermark.
    place.execute("WAITFOR DELAY '00:00:00.010'; INSERT INTO dbo.Other VALUES (1)")
    place.scan()
    with recorded(engine, place.login) as (source, sent):
        instance = source.states([PERSONS])[PERSONS].instances[0]
        request = ProbeRequest(instance, place.read()[-1].position)
        lows = [source.probe([request]).answers[instance.name].low_watermark]
        place.execute(
            "DECLARE @to binary(10) = sys.fn_cdc_get_max_lsn(); EXEC sys.sp_cdc_cleanup_change_table N'dbo_Persons', @to"
        )
        del sent[:]
        lows.append(source.probe([request]).answers[instance.name].low_watermark)
        assert len(sent) == 1
        place.execute("INSERT INTO dbo.Other VALUES (2)")
        place.scan()
        lows.append(source.probe([request]).answers[instance.name].low_watermark)
    before, quiet, after = (low for low in lows if low is not None)
    assert request.after is not None
    assert before == quiet <= request.after < after


def test_a_table_that_was_not_empty_is_told_its_gap_in_a_quiet_log(places: Places, engine: SqlEngine) -> None:
    """Cleanup may pass an offset while capture finds nothing."""
    place = places()
    for number in (1, 2):
        # Of transactions with one commit time cleanup takes the first for its low watermark.
        place.execute(f"WAITFOR DELAY '00:00:00.010'; INSERT INTO dbo.Persons (ID) VALUES ({number})")
        place.scan()
    first, _ = place.read()
    with recorded(engine, place.login) as (source, _):
        instance = source.states([PERSONS])[PERSONS].instances[0]
        request = ProbeRequest(instance, first.position)
        assert source.probe([request]).answers[instance.name].pending
        place.execute(
            "DECLARE @to binary(10) = sys.fn_cdc_get_max_lsn(); EXEC sys.sp_cdc_cleanup_change_table N'dbo_Persons', @to"
        )
        low = source.probe([request]).answers[instance.name].low_watermark
    assert low is not None
    assert first.position < low


def test_a_thousand_tables_that_have_to_be_looked_at_are_one_question_of_bounded_size(
    places: Places, engine: SqlEngine
) -> None:
    place = places()
    place.execute("INSERT INTO dbo.Persons (ID) VALUES (1)")
    place.scan()
    with recorded(engine, place.login) as (source, sent):
        instance = source.states([PERSONS])[PERSONS].instances[0]
        del sent[:]
        source.probe([ProbeRequest(instance, instance.start)] * 1000)
    assert len(sent) == 2
    assert len(sent[1]) < 700_000


# a real server

_PLAN = "{http://schemas.microsoft.com/sqlserver/2004/07/showplan}"


if REAL:  # one suite more where a server is given: only a real one has plans

    @pytest.fixture(scope="module")
    def real() -> Iterator[Place]:
        parts = urlsplit(REAL)
        name = f"dstream_plans_{os.getpid()}"
        login = Login(
            parts.hostname or "",
            parts.port or 1433,
            unquote(parts.username or ""),
            unquote(parts.password or ""),
            "master",
        )
        with login.connect() as client, client.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE {name}")
            place = Place(replace(login, database=name))
            place.enable()
            place.execute(
                "INSERT INTO dbo.Persons (ID) SELECT TOP (5000) ROW_NUMBER() OVER (ORDER BY (SELECT 1)) FROM sys.all_objects"
            )
            place.execute("UPDATE dbo.Persons SET Name = N'a'")
            place.execute("EXEC sys.sp_cdc_stop_job")
            place.scan()
            yield place
            place.execute("EXEC sys.sp_cdc_disable_db")
            place.close()
            drop(cursor, name)

    @QUESTIONS
    @BEGINNINGS
    def test_a_real_server_seeks_in_the_clustered_index(real: Place, ask: Asked, start: LogPosition) -> None:
        """https://learn.microsoft.com/sql/t-sql/statements/set-showplan-xml-transact-sql"""
        text, values = ask(real.instance(), start)
        declared = "".join(
            f"DECLARE @p{at} {type_of(value)} = {literal(value)};\n" for at, value in enumerate(values, 1)
        )
        for number in range(1, len(values) + 1):
            text = text.replace(P, f"@p{number}", 1)
        real.execute("SET SHOWPLAN_XML ON")
        try:
            plans = real.answers(declared + text)
        finally:
            real.execute("SET SHOWPLAN_XML OFF")
        steps = [step for plan in plans for step in _through(ET.fromstring(plan), "dbo_Persons_CT")]
        assert steps
        assert all(kind == "Clustered Index Seek" and "__$start_lsn" in sought for kind, sought in steps), steps


def _through(plan: ET.Element, table: str) -> list[tuple[str, frozenset[str]]]:
    """How a plan goes through `table`: the operator, and the columns that it seeks by."""
    found = []
    for operator in plan.iter(f"{_PLAN}RelOp"):
        for scan in operator.findall(f"{_PLAN}IndexScan") + operator.findall(f"{_PLAN}TableScan"):
            if any(each.get("Table") == f"[{table}]" for each in scan.findall(f"{_PLAN}Object")):
                columns = scan.findall(f".//{_PLAN}SeekPredicates//{_PLAN}RangeColumns/{_PLAN}ColumnReference")
                found.append((operator.get("PhysicalOp") or "", frozenset(c.get("Column") or "" for c in columns)))
    return found
