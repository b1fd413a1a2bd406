"""The locks and the database are asked at once."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from common.errors import DStreamError
from common.names import TableName
from common.unread import Unread
from ingester.commands import status
from ingester.commands.stores import LocksSeen
from ingester.operating.moving import Held

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
    [table] = status.tables_seen(SimpleNamespace(), [PERSONS], unread)  # type: ignore[arg-type]
    assert (table.table, table.held) == ("dbo.Persons", Held.UNKNOWN)
    assert unread == [Unread("owners", "no answer", "look at it")]
