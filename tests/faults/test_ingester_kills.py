"""Two ingesters under a live workload, one killed again and again at every point of its work: the subscribers must not know.

And the ingest queue hardly: what one death makes arrive there again is at most a page of each table.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest

from dstream.demo.workload import Pace
from tests.azurite.server import Azurite, connection_string, missing
from tests.worlds.deaths import AT_BLOBS, IN_DATABASE, Killer, Point
from tests.worlds.mutes import Mutes
from tests.worlds.mutes import told as told_of
from tests.worlds.world import World, good, wait_until

PAGE_ROWS = 50
_CHANGES_A_SECOND = 40
_FOR_EVER = 100_000
"""Seconds; the workload is stopped when the last ingester has been killed."""
_LOCKS = {
    "sqlserver": 'type = "sqlserver"',
    "local": 'type = "local"',
    "azure_blob": f'type = "azure_blob"\nlease = "15s"\nconnection_string = "{connection_string(0)}"'.replace(
        ":0/", ':{{ env("DSTREAM_TEST_BLOB_PORT") }}/'
    ),
}
_MOST_WAIT = 120.0
"""Seconds until more arrives after a kill."""
_MOST_WAIT_MUTE = 300.0
"""The same among mute peers: a question to SQL Server may take two minutes before it counts as hung, and another begin behind it."""
_MUTE = 0.5
"""Of so many kills a way of a living ingester falls mute before the next."""
WORKING = (Point.READ, Point.SENDING, Point.UNANSWERED, Point.SENT, Point.COMMITTED)
"""Points that the only ingester comes to again and again, whatever its locks."""

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="finds the processes in /proc")


@dataclass
class Campaign:
    """A kill at each of `deaths`, one after the other, each as soon as something has arrived since the one before.

    None: at a random instant. `azurite`: the port of the one that holds the `azure_blob` locks. `mute`: peers fall mute in between.
    With `local` locks there is one ingester at a time, else two.
    """

    folder: Path
    deaths: Sequence[Point | None]
    seed: int
    locks: str = "sqlserver"
    azurite: int | None = None
    mute: bool = False
    gave_up: list[str] = field(default_factory=list)
    """The ends of the logs of those that ended by themselves, which they may where a peer says nothing for long."""

    def __post_init__(self) -> None:
        self._random = Random(self.seed)
        self._at_once = 1 if self.locks == "local" else 2

    def run(self) -> Killer:
        """To its verdict. Raises AssertionError, after a dump, when anything is lost, repeated, out of order or wrong, or nothing moves."""
        pace = Pace(_CHANGES_A_SECOND * _FOR_EVER, _FOR_EVER, large=0)
        more = f"page_rows = {PAGE_ROWS}"
        world = World(self.folder, pace=pace, locks=_LOCKS[self.locks], more=more, router_by_relay=self.mute)
        with world, Killer(world, azurite_port=self.azurite) as killer, Mutes(Random(self.seed)) as mutes:
            if self.azurite is not None:
                world.blob_connection_string = connection_string(self.azurite)
            world.workload.start()
            for number, point in enumerate(self.deaths):
                self._complete(killer)
                self._await_more(world, killer, number)
                if self.mute and self._random.random() < _MUTE:
                    self._fall_mute(world, killer, mutes)
                self._kill(killer, point)
            if not killer.living:
                killer.start_ingester()
            world.workload.stop()
            world.workload.join()
            mutes.end()
            wait_until(lambda: self._delivered(world, killer), "everything has arrived", _MOST_WAIT_MUTE)
            verdict = world.verdict(0)
            relays = [relay for ways in killer.ways.values() for relay in ways.values()]
            print(told(killer, verdict.total("committed")), flush=True)
            if self.mute:
                print(told_of(mutes, [*relays, world.router_relay]), *self.gave_up, sep="\n", flush=True)
            print((said := world.heard()).summary(still := world.stillness()), flush=True)
            assert good(verdict)
            assert said.silences(still) == []
            assert self._mourned(killer) is False
            assert [ingester.stop() for ingester in killer.living] == [0] * len(killer.living)
        if not self.mute:
            assert max(map(len, killer.redelivery.again.values()), default=0) <= PAGE_ROWS
        return killer

    def _complete(self, killer: Killer) -> None:
        self._mourned(killer)
        while len(killer.living) < self._at_once:
            killer.start_ingester()

    def _await_more(self, world: World, killer: Killer, number: int) -> None:
        arrived = sum(world.subscriber.counts().values())

        def more() -> bool:
            if self._mourned(killer):
                self._complete(killer)
            return sum(world.subscriber.counts().values()) > arrived

        wait_until(more, f"more after {number} kills", _MOST_WAIT_MUTE if self.mute else _MOST_WAIT)

    def _delivered(self, world: World, killer: Killer) -> bool:
        if self._mourned(killer) and not killer.living:
            killer.start_ingester()
        return world.delivered()

    def _mourned(self, killer: Killer) -> bool:
        """Whether an ingester has ended by itself: only where peers are mute may it, and in order."""
        ended = killer.bury()
        for ingester in ended:
            assert self.mute, f"{ingester.name} ended by itself:\n{ingester.tail()}"
            assert ingester.died() == 1, ingester.tail()
            assert "Traceback" not in ingester.tail(30), ingester.tail(30)
            self.gave_up.append(f"{ingester.name} ended with 1: {ingester.tail(2)}")
        return bool(ended)

    def _fall_mute(self, world: World, killer: Killer, mutes: Mutes) -> None:
        victim = self._random.choice(["router", *(each.name for each in killer.living)])
        ways = {"the router": world.router_relay} if victim == "router" else killer.ways[victim]
        print(f"{len(killer.kills):4} kills, {victim}: {mutes.strike(ways)}", flush=True)

    def _kill(self, killer: Killer, point: Point | None) -> None:
        whole = self._random.random() < 0.5
        if point is None:
            time.sleep(self._random.uniform(0, 6))
            if killer.living:
                killer.kill_now(self._random.choice(killer.living), whole=whole)
            return
        patience = _MOST_WAIT_MUTE if self.mute else _MOST_WAIT
        killer.kill_at(point, whole=whole, timeout=patience, meanwhile=lambda: self._complete(killer))


def told(killer: Killer, committed: int) -> str:
    """What came of it, for the measurements."""
    points = Counter(kill.point.value if kill.point else "at a random instant" for kill in killer.kills)
    again = {kill: len(found) for kill, found in killer.redelivery.again.items()}
    lines = [f"{len(killer.kills)} kills, {sum(kill.whole for kill in killer.kills)} of them with JVM and workers"]
    lines += [f"{count:5} {point}" for point, count in sorted(points.items())]
    killed = {name for name, _ in again} & {kill.victim.name for kill in killer.kills}
    lines.append(f"{committed} changes, {sum(again.values())} of them sent again after {len(killed)} of the kills")
    lines.append(f"at most {max(again.values(), default=0)} a table and kill")
    return "\n".join(lines)


def shuffled(points: Sequence[Point], kills: int, seed: int) -> list[Point | None]:
    """So many deaths: each of the points as often as the others, and a quarter at random instants."""
    found: list[Point | None] = [points[number % len(points)] if number % 4 else None for number in range(kills)]
    Random(seed).shuffle(found)
    return found


@pytest.mark.timeout(300)
def test_kills_lose_nothing_and_send_at_most_a_page_again(tmp_path: Path) -> None:
    killer = Campaign(tmp_path, [Point.SENDING, Point.SENT, Point.RAISED], seed=1).run()
    # what was sent and not committed has to arrive again
    assert killer.redelivery.again


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("mute", [False, True], ids=["speaking", "mute"])
@pytest.mark.parametrize("locks", _LOCKS)
def test_kills_of_ingesters(tmp_path: Path, locks: str, mute: bool, kills: int, seed: int) -> None:
    points = {"sqlserver": IN_DATABASE, "local": WORKING, "azure_blob": (*AT_BLOBS, *WORKING)}[locks]
    with ExitStack() as opened:
        port = None
        if locks == "azure_blob":
            if reason := missing():
                pytest.skip(reason)
            port = opened.enter_context(Azurite()).port
        Campaign(tmp_path, shuffled(points, kills, seed), seed=seed, locks=locks, azurite=port, mute=mute).run()
