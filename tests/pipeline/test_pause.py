"""A table is paused: it stands, over a kill and with another owner, the others go on, and nothing is lost."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from pydantic import SecretStr

from common.sqladdress import SqlAddress
from dstream.demo.schema import CUSTOMERS, TABLES
from dstream.demo.workload import Pace
from ingester.sqlserver.connection import Connection
from ingester.sqlserver.operating.pauses import SqlServerPauses
from tests.worlds.tenures import has
from tests.worlds.world import World, good, wait_until

KEYS = {table.key for table in TABLES}


def pauses(world: World) -> SqlServerPauses:
    login = world.login
    address = SqlAddress(login.host, login.port, None, login.database, login.user, SecretStr(login.password))
    return SqlServerPauses(Connection(address))


@pytest.mark.timeout(400)
def test_a_paused_table_stands_over_a_kill_and_goes_on_where_it_stopped(tmp_path: Path) -> None:
    with (
        World(tmp_path, locks='type = "sqlserver"', pace=Pace(600, 4, large=0)) as world,
        closing(pauses(world)) as store,
    ):
        assert store.pause(CUSTOMERS, "a test")
        world.workload.start()
        first = world.start_ingester()
        world.workload.join()
        committed = world.ledger.counts()
        others = [table for table in TABLES if table != CUSTOMERS]
        wait_until(
            lambda: all(world.subscriber.counts()[each] >= committed[each] for each in others), "the others arrive", 120
        )
        first.kill_tree()
        second = world.start_ingester()
        wait_until(lambda: has(second) == KEYS, "the second has all tables", 120)
        wait_until(lambda: "table paused" in second.log.read_text(), "the second has noticed the pause")
        assert world.subscriber.counts()[CUSTOMERS] == 0 < committed[CUSTOMERS]
        assert store.resume(CUSTOMERS, None)
        assert good(world.verdict(120))
