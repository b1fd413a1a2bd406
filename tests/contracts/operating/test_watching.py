"""The console's view of real stores, without any stage."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from desk.status import Stages
from desk.watching.making import watching_of
from dstream.config import load_both
from tests.contracts.operating.conftest import Desk


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
