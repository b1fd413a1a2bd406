"""The console's view of real stores, without any stage."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from desk.status import Stages, read
from desk.watching.making import watching_of
from dstream.config import load_both
from dstream.rendering.status import status_lines
from ingester.commands import kept as kept_stores
from ingester.commands.kept import Kept
from ingester.sqlserver.login.opening import Login
from tests.contracts.operating.conftest import PERSONS, Desk
from tests.worlds.tcp_relay import TcpRelay


def _until(right: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not right():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_the_console_sees_tables_what_waits_and_what_is_wrong(desk: Desk) -> None:
    desk.place.make_queue()
    desk.insert(1, 2)
    ingester, router = load_both(desk.config(), os.environ)
    with watching_of(Stages(ingester, router), look_every=0.2) as watching:
        _until(
            lambda: len(watching.tables()) == 1 and bool(watching.entities()) and watching.overview().queue is not None
        )
        [table] = watching.tables()
        assert (table.table, table.state, table.lock, table.pause) == ("dbo.Persons", "nobody", "free", None)
        assert table.lag is not None
        assert (table.lag.changes, table.capture_instance) == (2, "dbo_Persons")
        assert (table.retention_seconds or 0) > 0
        assert (table.topic or "").endswith(".persons.events")
        _until(lambda: watching.entities()[0].active == 0)
        overview = watching.overview()
        assert (overview.database, overview.changes_waiting) == (desk.place.login.database, 2)
        [nobody] = [each for each in overview.troubles if each.alert == "DStreamTableWithoutOwner"]
        assert nobody.table == "dbo.Persons"
        desk.insert(3)
        _until(lambda: (lag := watching.tables()[0].lag) is not None and lag.changes == 3)


def test_a_subscription_that_was_deleted_is_critical_and_never_empty(desk: Desk) -> None:
    desk.place.make_queue()
    config = desk.config()
    ingester, router = load_both(config, os.environ)
    [topic] = [stream.destination for stream in router.streams["default"].values()]
    desk.place.admin.create_topic(topic)
    with watching_of(Stages(ingester, router), look_every=0.2) as watching:
        _until(lambda: any(each.severity == "critical" and topic in each.what for each in watching.overview().troubles))
        [trouble] = [each for each in watching.overview().troubles if topic in each.what]
        assert trouble.cause == f"topic {topic} has no subscription sub1: what is sent to it is thrown away"
        [entity] = [each for each in watching.entities() if each.entity == trouble.entity]
        assert (entity.subscription, entity.active, entity.dead_letters) == ("sub1", None, None)
    found = read(Stages(ingester, router), threading.Event())
    assert f"problem: {trouble.cause}" in "\n".join(status_lines(found))
    desk.place.admin.delete_topic(topic)


@pytest.fixture
def logins(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The ports of all logins to SQL Server, as they are made."""
    made, opened = list[int](), Login.open

    def noted(login: Login, *, proven: bool) -> Any:
        made.append(login._address.port or 0)
        return opened(login, proven=proven)

    monkeypatch.setattr(Login, "open", noted)
    return made


def test_looks_that_follow_each_other_log_in_once(desk: Desk, logins: list[int]) -> None:
    desk.place.make_queue()
    ingester, router = load_both(desk.config(), os.environ)
    looks = list[int]()
    with watching_of(Stages(ingester, router), look_every=0.05) as watching:
        _until(lambda: len(watching.tables()) == 1)
        asked = len(logins)
        for _ in range(6):
            looks.append(watching.changed(looks[-1] if looks else 0, wait=60))
            watching.soon()
        _until(lambda: len(watching.history(None).lag_seconds) > 0)
    assert len(set(looks)) == 6
    assert asked <= len(logins) <= 3  # of the tables, of their locks, and of capture


def _kept(desk: Desk, port: int) -> Kept:
    desk.place.settings["port"] = port
    ingester, _ = load_both(desk.config(), os.environ)
    return Kept(ingester)


def _epoch(kept: Kept) -> int | None:
    with kept.database() as database:
        row = database.desk.stored().get(PERSONS.key)
    return None if row is None else row.epoch


@pytest.fixture
def relay(desk: Desk) -> Iterator[TcpRelay]:
    with TcpRelay(desk.place.login.port) as relay:
        yield relay


def test_a_connection_that_was_lost_between_two_looks_is_opened_again_within_the_look(
    desk: Desk, relay: TcpRelay, logins: list[int]
) -> None:
    with desk.owner(), closing(_kept(desk, relay.port)) as kept:
        logins.clear()
        for _ in range(3):
            assert _epoch(kept) == 1
            assert kept.locks_seen([PERSONS]).held == {PERSONS}
        assert logins == [relay.port] * 2
        relay.drop()
        assert _epoch(kept) == 1
        assert kept.locks_seen([PERSONS]).held == {PERSONS}
        assert logins == [relay.port] * 4


def test_a_server_that_fell_mute_between_two_looks_holds_up_none_for_long(
    desk: Desk, relay: TcpRelay, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_stores, "_ANSWER_SECONDS", 0.5)
    with desk.owner(), closing(_kept(desk, relay.port)) as kept:
        assert _epoch(kept) == 1
        relay.mute()
        relay.speak()
        assert _epoch(kept) == 1  # over another connection, which is not mute


def test_closing_waits_for_no_look(desk: Desk) -> None:
    kept = _kept(desk, desk.place.login.port)
    with kept.database() as database:
        assert database.desk.stored() == {}
        done = threading.Thread(target=kept.close)
        done.start()
        done.join(30)
        assert not done.is_alive()
        assert database.desk.stored() == {}  # the look goes on
    assert kept._connection._connection is None


def test_nothing_that_another_look_set_holds_for_the_next_one(desk: Desk) -> None:
    """Short waits for locks stay in a session."""
    with closing(_kept(desk, desk.place.login.port)) as kept:
        with kept.database() as database:
            database.pauses.paused()
            assert kept._connection.rows("SELECT @@LOCK_TIMEOUT") == [(1000,)]
        with kept.database():
            assert kept._connection.rows("SELECT @@LOCK_TIMEOUT") == [(10000,)]
