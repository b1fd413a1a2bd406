"""Every statement that the product sends is T-SQL by Microsoft's own parser: the emulator reads more than SQL Server does in places.

What is sent is recorded from the wire while the real adapters and the demo's workload do all that they can do. Syntax only.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pydantic import SecretStr

from common.errors import LeaseLost, TransientError
from common.names import TRANSACTIONS, TableName
from common.sqladdress import SqlAddress
from dstream import emulators as local
from dstream.demo import schema, show
from dstream.demo.ledger import Ledger
from dstream.demo.order_desk import OrderDesk
from dstream.demo.type_bench import TypeBench
from dstream.emulators import Login
from emulators.sqlserver.build import build_engine
from emulators.sqlserver.server import SqlServerEmulator
from ingester.offsets import Claim, Move
from ingester.operating.offset_desk import LagRequest, MoveOrder
from ingester.source import CapturedColumn, PageQuery, Part, ProbeRequest
from ingester.sqlserver.change_table import ChangeTable, change_table
from ingester.sqlserver.connection import Connection
from ingester.sqlserver.literals import in_its_scope, rendered
from ingester.sqlserver.offsets import SqlServerOffsets
from ingester.sqlserver.operating.desk import SqlServerDesk
from ingester.sqlserver.operating.finding import SqlServerFinder
from ingester.sqlserver.operating.pauses import SqlServerPauses
from ingester.sqlserver.position import LogPosition, Lsn, in_the_log
from ingester.sqlserver.source import SqlServerSource
from ingester.sqlserver.sql import changes as queries
from ingester.sqlserver.sql import finding as queries_of_finding
from ingester.sqlserver.sql import newer as queries_of_newer
from ingester.sqlserver.sql import operating
from ingester.sqlserver.sql import transactions as queries_of_transactions
from ingester.sqlserver.transactions.source import TransactionSource
from tests.conftest import PASSWORD, USER
from tests.scriptdom.conftest import Parse

_INCORRECT_SYNTAX = 46010

_ODD = TableName("a]b", "it's 100%s [odd]")
_OLD_OFFSETS = "CREATE TABLE cdc_offsets (table_name NVARCHAR(255) PRIMARY KEY, last_lsn VARBINARY(10))"


_CALLED = re.compile(r"EXEC sys\.sp_executesql N'((?:[^']|'')*)'")


def _inner(texts: list[str]) -> list[str]:
    """What was handed to sp_executesql: a string to the parser of the batch around it."""
    called = [found.replace("''", "'") for text in texts for found in _CALLED.findall(text)]
    return [*called, *_inner(called)] if called else []


@dataclass
class Recording:
    """What went over the wire, and which of ingester.queries' functions made some of it."""

    texts: list[str] = field(default_factory=list)
    called: set[str] = field(default_factory=set)

    def wraps(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*arguments: Any, **named: Any) -> Any:
            self.called.add(name)
            return function(*arguments, **named)

        return noted


def _functions() -> dict[str, Callable[..., Any]]:
    return {
        name: function
        for name, function in inspect.getmembers(queries, inspect.isfunction)
        if function.__module__ == queries.__name__ and not name.startswith("_")
    }


@pytest.fixture(scope="module")
def recording() -> Recording:
    """One engine behind two ports: the product's is recorded, the test's own is not."""
    made = Recording()
    engine = build_engine(users={USER: PASSWORD}, databases=["recorded", "demo", "shop"], capture_interval=3600)
    with (
        pytest.MonkeyPatch.context() as patch,
        SqlServerEmulator(engine, statement_log=made.texts.append) as recorded,
        SqlServerEmulator(engine) as silent,
    ):
        for name, function in _functions().items():
            patch.setattr(queries, name, made.wraps(name, function))
        ours = Login("127.0.0.1", silent.port, USER, PASSWORD, "recorded")
        _ingest(ours, recorded.port)
        _demonstrate(replace(ours, port=recorded.port, database="demo"), ours)
        local._create_shop(replace(ours, port=recorded.port, database="shop"))
    engine.close()
    return made


def _connect(login: Login, port: int) -> Connection:
    return Connection(SqlAddress(login.host, port, None, login.database, login.user, SecretStr(login.password)))


def _ingest(ours: Login, port: int) -> None:
    with ours.connect() as client, client.cursor() as cursor:
        cursor.execute("CREATE SCHEMA [a]]b]")
        cursor.execute("CREATE TABLE [a]]b].[it's 100%s [odd]]] ([key] INT PRIMARY KEY, [sel]]ect] NVARCHAR(9))")
        cursor.execute(f"CREATE TABLE dbo.Everything ({schema.EVERYTHING_COLUMNS})")
        cursor.execute("EXEC sys.sp_cdc_enable_db")
        for name, table in [("a]b", "it''s 100%s [odd]"), ("dbo", "Everything")]:
            cursor.execute(f"EXEC sys.sp_cdc_enable_table N'{name}', N'{table}', @role_name = NULL")
        _look_early(SqlServerSource(_connect(ours, port)))
        _ask_as_of_an_older_server(_connect(ours, port))
        cursor.execute("INSERT INTO [a]]b].[it's 100%s [odd]]] VALUES (1, N'a'), (2, NULL)")
        cursor.execute("UPDATE [a]]b].[it's 100%s [odd]]] SET [sel]]ect] = N'b'")
        cursor.execute("INSERT INTO dbo.Everything (Id, Version) VALUES (1, 1)")
        cursor.execute("EXEC sys.sp_cdc_scan")
        options: list[dict[str, Any]] = [{}, {"before_images": True}, {"decimals_as_numbers": True}]
        for chosen in (
            *options,
            {"query_mode": "function"},
            {"page_bytes": 1},
            {"query_mode": "function", "page_bytes": 1},
        ):
            _read(SqlServerSource(_connect(ours, port), **chosen))
        _read_transactions(TransactionSource(_connect(ours, port), lambda: [_ODD, TableName("dbo", "Everything")]))
        _keep_offsets(SqlServerOffsets(_connect(ours, port)))
        _operate(_connect(ours, port))
        cursor.execute("DROP TABLE dbo.cdc_offsets")
        cursor.execute(_OLD_OFFSETS)
        _keep_offsets(SqlServerOffsets(_connect(ours, port)))


def _ask_as_of_an_older_server(connection: Connection) -> None:
    """One that does not tell its time zone."""
    connection.rows(queries.OFFSET_NOW)
    connection.close()


def _look_early(source: SqlServerSource) -> None:
    """Before the first capture the server does not tell how far it has come."""
    instance = source.states([_ODD])[_ODD].instances[0]
    assert source.probe([ProbeRequest(instance, None)]).upto is None
    source.close()


def _read(source: SqlServerSource) -> None:
    tables = [_ODD, TableName("dbo", "Everything"), TableName("dbo", "Missing")]
    instances = [i for state in source.states(tables).values() for i in state.instances]
    assert len(instances) == 2
    instances += [
        replace(change_table(i), has_command_id=False) for i in instances
    ]  # as in a database that was never upgraded
    source.probe([])
    probe = source.probe([ProbeRequest(i, None) for i in instances])
    assert probe.upto is not None
    source.probe([ProbeRequest(instances[0], probe.upto, probe.upto)])
    assert source.states(tables, {_ODD: "another table"})[_ODD].moment
    source.passed(probe.upto, "2026-01-02T03:04:05.678")
    for instance in instances:
        start = instance.start
        for upto in (probe.upto, LogPosition.before(in_the_log(probe.upto).lsn)):
            source.page(PageQuery(instance, after=start, upto=upto, rows=3))
    with pytest.raises(TransientError, match="no longer exists"):
        source.page(PageQuery(replace(instances[0], name="nobody"), after=start, upto=upto, rows=3))
    source.close()


def _read_transactions(source: TransactionSource) -> None:
    """Places from inside a transaction on, in parts as well, and the events."""
    states = source.states([_ODD, TRANSACTIONS])
    for [instance] in (states[_ODD].instances, states[TRANSACTIONS].instances):
        upto = source.probe([ProbeRequest(instance, None)]).upto
        assert upto is not None
        first = source.page(PageQuery(instance, instance.start, upto, rows=1)).changes[0].position
        assert source.probe([ProbeRequest(instance, first)]).answers[instance.name].pending
        assert source.page(PageQuery(instance, first, upto, rows=3)).changes
        if columns := source.shared_by(instance, "key"):
            source.page(PageQuery(instance, upto, upto, rows=3))
            assert source.page(PageQuery(instance, first, upto, rows=3, part=Part(1, 0, 1, columns, 5))).changes
    source.close()


def _keep_offsets(offsets: SqlServerOffsets) -> None:
    offsets.ensure()
    first, second = (LogPosition.end_of(Lsn(bytes(9) + bytes([n]))) for n in (1, 2))
    assert offsets.claim(_ODD, 1).position is None
    assert offsets.claim(TableName("dbo", "Everything"), 1).position is None
    offsets.commit(_ODD, 1, seen=None, position=first)
    offsets.commit(_ODD, 1, seen=first, position=second)
    everything = TableName("dbo", "Everything")
    offsets.claim_many([Claim(_ODD, 2, "its object"), Claim(everything, 2)])
    offsets.move_many([Move(_ODD, 2, second, LogPosition.end_of(second.lsn)), Move(everything, 2, None, second)])
    again = offsets.claim(everything, 3, "its object")
    for epoch, seen in ((3, again.position), (4, None)):
        with suppress(LeaseLost):
            offsets.go_over(everything, epoch, seen=seen, left="its object", source="another", start=first)
    offsets.close()


def _operate(connection: Connection) -> None:
    """What a person asks of the offsets, and does to them."""
    source, desk = SqlServerSource(connection), SqlServerDesk(connection)
    [instance] = source.states([_ODD])[_ODD].instances
    captured = desk.captured()
    assert captured is not None
    for one in (instance, replace(change_table(instance), has_command_id=False)):
        assert desk.count(one, one.start, captured, 10).changes
        assert desk.lags([LagRequest(_ODD, one, one.start, captured)], 10)
    assert desk.position_at(datetime(2020, 1, 1, tzinfo=UTC))
    SqlServerFinder(connection, source, desk).commit_time(in_the_log(captured))
    for epoch in (desk.stored()[_ODD.key].epoch, None):
        desk.move(MoveOrder(_ODD, epoch, instance.start, "its object", "why"))
    assert desk.moves(_ODD, 5)
    assert desk.moves(None, 5)
    connection.rows(in_its_scope(operating.stored(owners=False, times=False)))
    pauses = SqlServerPauses(connection)
    assert pauses.pause(_ODD, "why")
    assert pauses.paused()
    assert pauses.resume(_ODD, None)
    assert pauses.ended(_ODD.key.lower()) is not None
    desk.close()


def _demonstrate(login: Login, ours: Login) -> None:
    """Every kind of transaction of the demo, and the counter beside it."""
    schema.create(login)
    desk, bench = OrderDesk(login, Ledger(), 1), TypeBench(login, Ledger(), 1)
    desk.new_customers(5)
    for kind in (desk.place_order, desk.place_order, desk.place_order, desk.new_status, desk.change_mind):
        kind()
    for kind in (desk.move_customer, desk.renumber_line, desk.shift_lines, desk.cancel_order, bench.insert):
        kind()
    for kind in (bench.insert, bench.insert, bench.update, bench.update, bench.delete):
        kind()
    for shop in (desk, bench):
        shop.close()
    with replace(ours, database=login.database).connect() as client:
        client.cursor().execute("CREATE TABLE dbo.cdc_offsets (table_name NVARCHAR(255), last_lsn BINARY(10))")
    counter = show.Ingested(cast(Any, SimpleNamespace(emulators=SimpleNamespace(login=login))))
    assert set(counter.counts()) == set(schema.TABLES)
    counter.close()


def test_every_statement_that_was_sent_is_t_sql(recording: Recording, parse: Parse) -> None:
    texts = dict.fromkeys([*recording.texts, *_inner(recording.texts)])
    assert len(texts) > 60
    refused = {text: complaints for text in texts if (complaints := parse(text))}
    assert refused == {}


_LSN = Lsn(bytes(9) + b"\x01")
_POSITIONS = [
    LogPosition.before(_LSN),
    LogPosition.end_of(_LSN),
    *(LogPosition(_LSN, n, bytes(10), 2) for n in (-1, 0, 7)),
]


_TABLE = ChangeTable("it's odd]%s", _ODD, _POSITIONS[0], (), change_table="odd]%s_CT")


@pytest.mark.parametrize("has_command_id", [True, False])
@pytest.mark.parametrize("start", _POSITIONS, ids=str)
def test_looking_for_newer_changes_is_t_sql(parse: Parse, start: LogPosition, has_command_id: bool) -> None:
    keys = tuple(CapturedColumn(name, "int", at, key_ordinal=at) for at, name in enumerate(("it's", "odd]%s"), 1))
    table = replace(_TABLE, columns=keys, has_command_id=has_command_id)
    asked = [queries_of_newer.Asked(_LSN.value, 1, bytes(10), 4)]
    unknown = [queries_of_newer.Asked(_LSN.value, -1, bytes(10), 4)]
    for text, values in (
        queries_of_newer.rows_asked(table, asked * 2),
        queries_of_newer.rows_asked(table, asked + unknown),
        queries_of_newer.named(table, unknown, start, 5, start),
        queries_of_newer.rows_asked(_TABLE, asked),
        queries_of_newer.window_end(table, start, 5),
        queries_of_newer.newer(table, asked * 3, start, 5, start),
        queries_of_newer.named(table, asked * 3, start, 5, start),
        queries_of_newer.any_after(table, start),
        queries_of_newer.low_watermark(table),
    ):
        assert parse(rendered(text, values)) == []
        assert parse(_declared(text)) == []


@pytest.mark.parametrize("has_command_id", [True, False])
def test_looking_for_a_row_is_t_sql(parse: Parse, has_command_id: bool) -> None:
    types = ("int", "nvarchar", "datetime", "varbinary", "decimal")
    declared = ("int", "nvarchar(5)", "datetime", "varbinary(8)", "decimal(9,4)")
    keys = [
        CapturedColumn(f"it's]{at}", kind, at, key_ordinal=at, declared=whole)
        for at, (kind, whole) in enumerate(zip(types, declared, strict=True), 1)
    ]
    table = replace(_TABLE, columns=tuple(keys), has_command_id=has_command_id)
    asked = [(column, "x'; --") for column in keys]
    found = [
        queries_of_finding.window_start(table, _POSITIONS[-1], 5),
        queries_of_finding.of_key(table, asked, _POSITIONS[-1], 5),
        *(check for column in keys if (check := queries_of_finding.fits(column, "1")) is not None),
        (queries.COMMITTED, (bytes(10),)),
    ]
    for text, values in found:
        assert "x'; --" not in text
        assert parse(rendered(text, values)) == []
        assert parse(_declared(text)) == []


@pytest.mark.parametrize("has_command_id", [True, False])
@pytest.mark.parametrize("start", _POSITIONS, ids=str)
@pytest.mark.parametrize("upto", _POSITIONS[:2], ids=str)
def test_a_page_is_t_sql_wherever_it_begins(
    parse: Parse, start: LogPosition, upto: LogPosition, has_command_id: bool
) -> None:
    table = replace(_TABLE, has_command_id=has_command_id)
    text, values = queries.page(queries.RowsQuery(table, ["[a]"], start, upto, 5))
    assert parse(rendered(text, values)) == []
    assert parse(_declared(text)) == []


@pytest.mark.parametrize("has_command_id", [True, False])
@pytest.mark.parametrize("start", _POSITIONS, ids=str)
@pytest.mark.parametrize("upto", _POSITIONS[1:], ids=str)
def test_a_step_of_a_count_is_t_sql_wherever_it_begins_and_ends(
    parse: Parse, start: LogPosition, upto: LogPosition, has_command_id: bool
) -> None:
    table = replace(_TABLE, has_command_id=has_command_id)
    for within in queries_of_transactions.ranges(start, upto, has_command_id=has_command_id):
        text, values = queries_of_transactions.step(0, table, _LSN, within, 5)
        assert parse(rendered(text, values)) == []
        assert parse(_declared(text)) == []


@pytest.mark.parametrize("start", _POSITIONS[:2], ids=str)
@pytest.mark.parametrize("upto", _POSITIONS[:2], ids=str)
def test_a_page_of_the_function_is_t_sql(parse: Parse, start: LogPosition, upto: LogPosition) -> None:
    text, values = queries.function_page(queries.RowsQuery(_TABLE, ["[a]"], start, upto, 5))
    assert parse(rendered(text, values)) == []
    assert parse(_declared(text)) == []


def _declared(text: str) -> str:
    return text.replace(queries.P, "@p")


def test_the_recording_holds_every_question_of_the_ingester(recording: Recording) -> None:
    """A new question must be asked here too, or nobody would have shown it to the parser."""
    assert recording.called == set(_functions())
    for name, text in inspect.getmembers(queries, lambda member: isinstance(member, str)):
        if name.isupper() and not name.startswith("_") and name != "P":
            pieces = text.split(queries.P)
            texts = [*recording.texts, *_inner(recording.texts)]
            assert any(all(piece in sent for piece in pieces) for sent in texts), name


@pytest.mark.parametrize(
    ("planted", "near"), [("SELECT * FROM t LIMIT 5", "LIMIT 5"), ("SELECT 1; SELECT a || FROM t", "| FROM t")]
)
def test_a_statement_of_another_dialect_is_refused_with_its_place(parse: Parse, planted: str, near: str) -> None:
    (complaint,) = parse(planted)
    assert (complaint.number, planted[complaint.column - 1 :]) == (_INCORRECT_SYNTAX, near)


def test_a_text_with_line_ends_and_other_alphabets_reaches_the_parser_whole(parse: Parse) -> None:
    assert parse("SELECT N'žluťoučký\n🐎' AS [列]\n;") == []
    assert [c.line for c in parse("SELECT 1\n\nSELECT FROM t")] == [3]
