"""The locks and the database are asked at once."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from common.errors import DStreamError
from common.names import TableName
from common.unread import Unread
from ingester.commands import status
from ingester.commands.stores import LocksSeen
from ingester.operating.moving import Held
from ingester.operating.offset_desk import StoredOffset
from ingester.settings import OnGap, TableSettings
from ingester.source import TableState
from ingester.sqlserver.hints import HINTS
from tests.fakes.ingester import instance, position

PERSONS = TableName("dbo", "Persons")


def test_locks_that_cannot_be_seen_do_not_hold_up_the_database(monkeypatch: pytest.MonkeyPatch) -> None:
    both = threading.Barrier(2)

    def locks(*_: object) -> LocksSeen:
        both.wait(60)
        return LocksSeen(unknown=DStreamError("no answer", hint="look at it"))

    @contextmanager
    def database(_: object) -> Iterator[Any]:
        yield SimpleNamespace(source=SimpleNamespace(hints=None), desk=SimpleNamespace(words=str))

    def facts(*_: object, lags: bool) -> status.Facts:
        both.wait(60)
        return status.Facts()

    monkeypatch.setattr(status, "locks_seen", locks)
    monkeypatch.setattr(status, "database", database)
    monkeypatch.setattr(status, "_facts", facts)
    unread: list[Unread] = []
    configured = TableSettings(PERSONS, timedelta(seconds=1), timedelta(seconds=1))
    settings: Any = SimpleNamespace(schedule=[configured], locks=None)
    [table] = status.tables_seen(settings, [PERSONS], unread)
    assert (table.table, table.held) == ("dbo.Persons", Held.UNKNOWN)
    assert unread == [Unread("owners", "no answer", "look at it")]


@pytest.mark.parametrize(
    ("on_gap", "then"),
    [
        ("fail", "run dstream offsets set dbo.Persons --earliest --skip"),
        ("skip", "goes on by itself at the low watermark"),
        ("snapshot", "goes on by itself with a gap event and a snapshot"),
    ],
)
def test_a_gap_has_the_hint_that_fits_what_the_ingester_does(on_gap: OnGap, then: str) -> None:
    """Moving the offset would lose the gap event and the snapshot."""
    found = instance(start=5)
    facts = status.Facts({PERSONS.key: StoredOffset(position(3), 1)}, {PERSONS: TableState(True, (found,))})
    told = status.judged(PERSONS, facts, LocksSeen(), HINTS, str, on_gap=on_gap).problem or ""
    assert "changes were lost" in told
    assert then in told
    assert ("offsets set" in told) is (on_gap == "fail")


@pytest.mark.parametrize(
    ("local", "command"), [(False, "--earliest --skip and"), (True, "--earliest --skip --take and")]
)
def test_with_local_locks_the_hint_says_that_the_move_has_to_take_the_table(local: bool, command: str) -> None:
    facts = status.Facts({PERSONS.key: StoredOffset(position(3), 1)}, {PERSONS: TableState(True, (instance(start=5),))})
    told = status.judged(PERSONS, facts, LocksSeen(), HINTS, str, on_gap="fail", local=local).problem or ""
    assert f"run dstream offsets set dbo.Persons {command} restart the ingester" in told
