"""The ways to Service Bus and to SQL Server fall mute under a live ingester, and are well again: every table must move again, and it must say so.

A connection that fell mute stays so: nothing but a deadline of the ingester's own ends it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from dstream.demo.schema import TABLES
from dstream.demo.workload import Pace
from tests.worlds.tcp_relay import Silence, TcpRelay, Way
from tests.worlds.world import Ingester, World, good, wait_until

_FOR_EVER = 100_000
_BUS, _SQL = 90.0, 300.0
"""Seconds from the moment the way is well to that at which all that had been committed has arrived: generous, for a machine that does other work.

To Service Bus nothing takes longer than 20 s. A question to SQL Server may take two minutes; behind it another may have begun that is mute, too.
"""


@dataclass
class Led:
    """An ingester that is led to both servers through relays, with a workload that goes on."""

    world: World
    ingester: Ingester
    bus: TcpRelay
    sql: TcpRelay

    def recovers(self, relay: TcpRelay, silence: Silence, *, drop: bool, bound: float) -> None:
        """`relay` falls mute; when something has been withheld, it is well for all who connect from then on. `drop`: who is connected is cut."""
        began, before = time.time(), relay.fell_mute
        relay.mute(silence)
        if drop:
            relay.drop()
        wait_until(lambda: relay.fell_mute > before, "something is withheld", 60)
        relay.speak()
        wanted = self.world.ledger.counts()
        wait_until(lambda: self.world.delivered(wanted), "every table moves again", bound)
        name, heard = self.ingester.name, self.world.heard()
        own = [word for word in heard.words if word.at >= began and word.who == name]
        said = [word for word in own if any(heard.tells(word, table, name) for table in TABLES)]
        print(f"{time.time() - began:6.1f} s {silence}, drop {drop}", *said[:4], sep="\n    ", flush=True)
        assert said, self.ingester.tail(40)


@contextmanager
def led(folder: Path) -> Iterator[Led]:
    """In step; judged at the end."""
    with (
        World(folder, pace=Pace(20 * _FOR_EVER, _FOR_EVER, large=0)) as world,
        TcpRelay(world.servicebus.port) as bus,
        TcpRelay(world.sqlserver.port) as sql,
    ):
        world.workload.start()
        ingester = world.start_ingester(bus_port=bus.port, sql_port=sql.port)
        wait_until(lambda: len(world.offsets()) == len(TABLES), "every table is read", 90)
        yield Led(world, ingester, bus, sql)
        world.workload.stop()
        world.workload.join()
        verdict = world.verdict(_SQL)
        print((said := world.heard()).summary(still := world.stillness()), flush=True)
        assert good(verdict)
        assert said.silences(still) == []
        assert ingester.stop() == 0, ingester.tail()


@pytest.mark.timeout(300)
def test_a_way_to_service_bus_that_accepts_and_says_nothing_holds_tables_up_for_a_while_only(tmp_path: Path) -> None:
    with led(tmp_path) as made:
        made.recovers(made.bus, Silence(), drop=True, bound=_BUS)


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("drop", [False, True], ids=["connected", "new"])
@pytest.mark.parametrize("way", [Way.FORTH, Way.BACK, Way.BOTH])
@pytest.mark.parametrize("server", ["servicebus", "sqlserver"])
def test_a_way_that_falls_mute_at_any_octet_holds_tables_up_for_a_while_only(
    tmp_path: Path, server: str, way: Way, drop: bool
) -> None:
    with led(tmp_path) as made:
        relay, bound = (made.bus, _BUS) if server == "servicebus" else (made.sql, _SQL)
        for after in (0, 8, 60, 400, 3000):
            made.recovers(relay, Silence(way, after), drop=drop, bound=bound)
