"""A change table that somebody holds exclusively, as the capture of a large transaction does: it stops itself alone, for as long."""

from __future__ import annotations

import pytest

from common.errors import ConnectionLost, TransientError
from common.names import TableName
from emulators.sqlserver.faults import ChangeTableLocked
from emulators.sqlserver.server import SqlServerEmulator
from ingester.lsn import Position
from ingester.source import ProbeRequest
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
        assert probe.locked == {f"dbo_{name}" for name in held}
        assert probe.answers.keys() == {request.instance.name for request in requests} - probe.locked
        assert all(answer.pending for answer in probe.answers.values())
    for fault in faults:
        fault.__exit__(None, None, None)
    probe = place.source.probe(requests)
    assert probe.locked == frozenset()
    assert len(probe.answers) == 5
    assert all(answer.pending for answer in probe.answers.values())
    assert place.connection.rows("SELECT @@SPID, @@LOCK_TIMEOUT") == [(session[0][0], 10_000)]


def test_what_a_held_table_was_is_not_taken_for_empty(server: SqlServerEmulator, place: Place) -> None:
    instance = place.source.states([TABLES[0]])[TABLES[0]].instances[0]
    with server.inject(ChangeTableLocked("dbo_T0_CT")):
        assert place.source.probe([ProbeRequest(instance, None)]).answers == {}
    assert place.source.probe([ProbeRequest(instance, None)]).answers["dbo_T0"].pending


def test_a_page_of_a_held_table_fails_for_now_and_its_connection_is_kept(
    server: SqlServerEmulator, place: Place
) -> None:
    instance = place.instance(TABLES[0])
    start, upto = Position.before(instance.start_lsn), Position.end_of(place.read(table=TABLES[1])[-1].position.lsn)
    session = place.connection.rows("SELECT @@SPID")
    place.connection.result_sets("SET LOCK_TIMEOUT 20")
    with server.inject(ChangeTableLocked("dbo_T0_CT")), pytest.raises(TransientError, match="error 1222") as refused:
        place.source.page(instance, after=start, upto=upto, rows=5)
    assert not isinstance(refused.value, ConnectionLost)
    assert place.connection.rows("SELECT @@SPID") == session
    upto = Position.end_of(place.read(table=TABLES[0])[-1].position.lsn)
    assert len(place.source.page(instance, after=start, upto=upto, rows=5).changes) == 1


def test_another_error_of_a_look_is_told_as_it_is(place: Place) -> None:
    """The table is gone, say; only a lock is waited out."""
    instances = [place.source.states([table])[table].instances[0] for table in (TABLES[0], PERSONS)]
    place.execute("EXEC sys.sp_cdc_disable_table N'dbo', N'T0', N'all'")
    probe = place.source.probe([ProbeRequest(instance, None) for instance in instances])
    assert (probe.answers, probe.stale) == ({}, True)
