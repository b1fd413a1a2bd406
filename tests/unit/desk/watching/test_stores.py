"""What one question of the console tells another."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest

from desk.status import Stages
from desk.watching import stores
from desk.watching.stores import Stores


@pytest.mark.parametrize(("positions", "used"), [((None, None), False), ((None, "0000"), True)])
def test_a_queue_that_is_missing_once_a_table_has_an_offset_was_deleted(
    monkeypatch: pytest.MonkeyPatch, positions: tuple[str | None, ...], used: bool
) -> None:
    told: list[bool] = []
    seen = [SimpleNamespace(position=position) for position in positions]
    monkeypatch.setattr(stores, "tables_of", lambda *asked: (seen, None))
    monkeypatch.setattr(stores, "queue_of", lambda *asked, used: told.append(used))
    kept = Stores(cast(Stages, SimpleNamespace(ingester=None, router=None)), threading.Event())
    unread: list[Any] = []
    kept.queue(unread)
    kept.tables(unread)
    kept.queue(unread)
    assert told == [False, used]
