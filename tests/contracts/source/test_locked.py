"""A change table that somebody holds exclusively, as the capture of a large transaction does: it stops itself alone, for as long."""

from __future__ import annotations

from dataclasses import replace

import pytest

from common.errors import ConnectionLost, TransientError
from common.names import TableName
from emulators.sqlserver.faults.catalogue import ChangeTableLocked, LockTimeout, LogTimesLocked
from emulators.sqlserver.server import SqlServerEmulator
from ingester.source import PageQuery, Probe, ProbeRequest
from ingester.sqlserver.position import LogPosition, in_the_log
from tests.contracts.source.conftest import Places
from tests.contracts.source.test_source import PERSONS, Place

TABLES = [TableName("dbo", f"T{number}") for number in range(5)]


@pytest.fixture
def place(places: Places) -> Place:
    """Five tables with a change each."""
    made = places()
    for table in TABLES:
        made.execute(f"CREATE TABLE {table.quoted} (ID INT PRIMARY KEY)")
        made.enable(table=table.table)
        made.execute(f"INSERT INTO {table.quoted} VALUES (1)")
    made.scan()
    return made


@pytest.mark.parametrize("held", [("T2",), ("T0", "T4"), tuple(table.table for table in TABLES)])
def test_the_others_are_looked_at_at_once_and_the_held_ones_when_they_are_free(
    server: SqlServerEmulator, place: Place, held: tuple[str, ...]
) -> None:
    states = place.source.states(TABLES)
    requests = [ProbeRequest(states[table].instances[0], None) for table in TABLES]
    session = place.connection.rows("SELECT @@SPID")
    faults = [server.inject(ChangeTableLocked(f"dbo_{name}_CT")) for name in held]
    for fault in faults:
        fault.__enter__()
    for _ in range(2):
        probe = place.source.probe(requests)
        assert probe.locked == {f"dbo_{name}": f"cdc.dbo_{name}_CT" for name in held}
        assert probe.answers.keys() == {request.instance.name for request in requests} - probe.locked.keys()
        assert all(answer.pending for answer in probe.answers.values())
    for fault in faults:
        fault.__exit__(None, None, None)
    probe = place.source.probe(requests)
    assert probe.locked == {}
    assert len(probe.answers) == 5
    assert all(answer.pending for answer in probe.answers.values())
    assert place.connection.rows("SELECT @@SPID, @@LOCK_TIMEOUT") == [(session[0][0], 10_000)]


@pytest.mark.parametrize("at_once", [1, 2, 4, 5])
def test_thousands_of_tables_are_asked_about_in_several_round_trips(
    server: SqlServerEmulator, place: Place, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr("ingester.sqlserver.probe._A_BATCH", at_once)
    first = place.source.probe(_requests(place))
    assert [answer.pending for answer in first.answers.values()] == [True] * 5
    assert first.upto is not None
    place.execute("INSERT INTO dbo.T1 VALUES (2); INSERT INTO dbo.T4 VALUES (2)")
    place.scan()
    requests = [replace(request, after=first.upto) for request in _requests(place)]
    with server.inject(ChangeTableLocked("dbo_T2_CT")):
        probe = place.source.probe(requests)
    assert probe.locked == {"dbo_T2": "cdc.dbo_T2_CT"}
    assert {name: answer.pending for name, answer in probe.answers.items()} == {
        "dbo_T0": False,
        "dbo_T1": True,
        "dbo_T3": False,
        "dbo_T4": True,
    }
    again = place.source.probe(requests)
    assert {name for name, answer in again.answers.items() if answer.pending} == {"dbo_T1", "dbo_T4"}
    assert len(again.answers) == 5
    last = place.source.probe([replace(request, after=again.upto) for request in requests])
    assert [answer.pending for answer in last.answers.values()] == [False] * 5


def _requests(place: Place) -> list[ProbeRequest]:
    states = place.source.states(TABLES)
    return [ProbeRequest(states[table].instances[0], None) for table in TABLES]


def test_what_a_held_table_was_is_not_taken_for_empty(server: SqlServerEmulator, place: Place) -> None:
    instance = place.source.states([TABLES[0]])[TABLES[0]].instances[0]
    with server.inject(ChangeTableLocked("dbo_T0_CT")):
        assert place.source.probe([ProbeRequest(instance, None)]).answers == {}
    assert place.source.probe([ProbeRequest(instance, None)]).answers["dbo_T0"].pending


def test_a_page_of_a_held_table_fails_for_now_and_its_connection_is_kept(
    server: SqlServerEmulator, place: Place
) -> None:
    instance = place.instance(TABLES[0])
    start, upto = instance.start, LogPosition.end_of(in_the_log(place.read(table=TABLES[1])[-1].position).lsn)
    session = place.connection.rows("SELECT @@SPID")
    place.connection.result_sets("SET LOCK_TIMEOUT 20")
    with server.inject(ChangeTableLocked("dbo_T0_CT")), pytest.raises(TransientError, match="error 1222") as refused:
        place.source.page(PageQuery(instance, after=start, upto=upto, rows=5))
    assert not isinstance(refused.value, ConnectionLost)
    assert place.connection.rows("SELECT @@SPID") == session
    upto = LogPosition.end_of(in_the_log(place.read(table=TABLES[0])[-1].position).lsn)
    assert len(place.source.page(PageQuery(instance, after=start, upto=upto, rows=5)).changes) == 1


def test_another_error_of_a_look_is_told_as_it_is(place: Place) -> None:
    """The table is gone, say; only a lock is waited out."""
    instances = [place.source.states([table])[table].instances[0] for table in (TABLES[0], PERSONS)]
    place.execute("EXEC sys.sp_cdc_disable_table N'dbo', N'T0', N'all'")
    probe = place.source.probe([ProbeRequest(instance, None) for instance in instances])
    assert (probe.answers, probe.stale) == ({}, True)
    assert place.connection.rows("SELECT @@LOCK_TIMEOUT") == [(10_000,)]


@pytest.mark.parametrize("mode", ["direct", "function"])
def test_a_session_waits_as_long_as_before_after_a_probe_that_an_error_ended(places: Places, mode: str) -> None:
    place = places(query_mode=mode)
    instance = place.instance()
    session = place.connection.rows("SELECT @@SPID")
    place.execute("INSERT INTO dbo.Persons (ID) VALUES (1)")
    place.scan()
    place.execute("EXEC sys.sp_cdc_disable_table N'dbo', N'Persons', N'all'")
    assert place.source.probe([ProbeRequest(instance, None)]).stale  # an error 208, and what it means
    assert place.connection.rows("SELECT @@SPID, @@LOCK_TIMEOUT") == [(session[0][0], 10_000)]


def test_what_was_captured_before_is_read_while_capture_holds_the_logs_end(
    server: SqlServerEmulator, place: Place
) -> None:
    states = place.source.states(TABLES)
    requests = [ProbeRequest(states[table].instances[0], None) for table in TABLES]
    before = place.source.probe(requests)
    with server.inject(LogTimesLocked()):
        for _ in range(2):
            probe = place.source.probe(requests)
            assert (probe.capture_holds, probe.upto) == (True, before.upto)
            assert probe.answers == before.answers
    place.execute("INSERT INTO dbo.T0 VALUES (2)")
    place.scan()
    probe = place.source.probe(requests)
    assert not probe.capture_holds
    assert probe.upto is not None
    assert before.upto is None or probe.upto > before.upto
    assert place.connection.rows("SELECT @@LOCK_TIMEOUT") == [(10_000,)]


def test_nothing_is_said_of_any_table_where_capture_held_the_logs_end_from_the_first(
    server: SqlServerEmulator, place: Place
) -> None:
    states = place.source.states(TABLES)
    requests = [ProbeRequest(states[table].instances[0], None) for table in TABLES]
    with server.inject(LogTimesLocked()):
        assert place.source.probe(requests) == Probe(None, {}, capture_holds=True)
    assert len(place.source.probe(requests).answers) == 5


def test_a_table_whose_description_is_locked_keeps_the_catalog_for_now_and_no_probe(
    server: SqlServerEmulator, place: Place
) -> None:
    requests = [ProbeRequest(place.source.states(TABLES)[table].instances[0], None) for table in TABLES]
    session = place.connection.rows("SELECT @@SPID")
    with server.inject(LockTimeout(100, "OBJECT_ID|OBJECT_NAME|sys.tables|sys.columns")):
        with pytest.raises(TransientError, match="error 1222") as refused:
            place.source.states(TABLES)
        assert len(place.source.probe(requests).answers) == 5
    assert not isinstance(refused.value, ConnectionLost)
    assert len(place.source.states(TABLES)) == 5
    assert place.connection.rows("SELECT @@SPID, @@LOCK_TIMEOUT") == [(session[0][0], 10_000)]
