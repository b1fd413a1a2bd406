"""The ingester's database goes offline, and then has somebody else as its single user: nothing is lost, and log and health page have the cause."""

from __future__ import annotations

import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Self

import pytest

from dstream.demo.workload import Pace
from tests.worlds.servers import PausingWorkload
from tests.worlds.world import DATABASE, Ingester, World, good, wait_until

_PATIENCE = 120.0
_CAUSE = "error 4060: Cannot open database"
_REMEDY = "that the database is online and not in single-user mode"

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="finds the processes in /proc")


class AwayWorld(World):
    """A world whose workload can be halted, and finds its database again."""

    workload: PausingWorkload

    def __enter__(self) -> Self:
        super().__enter__()
        self.workload = PausingWorkload(self.login, self, self._pace, seed=self._seed)
        self._opened.callback(self.workload.stop)
        return self

    @contextmanager
    def away(self, *, single_user: bool) -> Iterator[None]:
        """The database is offline as long as the block lasts, or this is its single user."""
        away, back = ("SINGLE_USER", "MULTI_USER") if single_user else ("OFFLINE", "ONLINE")
        with (
            self.workload.halted(),
            replace(self.login, database="master").connect() as master,
            master.cursor() as cursor,
        ):
            if single_user:
                cursor.execute(f"USE {DATABASE}")
            cursor.execute(f"ALTER DATABASE {DATABASE} SET {away} WITH ROLLBACK IMMEDIATE")
            yield
            cursor.execute(f"ALTER DATABASE {DATABASE} SET {back}")

    def more_arrives(self) -> None:
        before = sum(self.subscriber.counts().values())
        wait_until(lambda: sum(self.subscriber.counts().values()) > before, "more arrives", _PATIENCE)


def readiness(ingester: Ingester) -> tuple[int, str]:
    """The page's status and text; (0, "") before there is one."""
    try:
        with urllib.request.urlopen(f"http://{ingester.health}/readyz", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError:
        return 0, ""


def told(ingester: Ingester) -> int:
    """How many lines of its log have the cause."""
    return sum(_CAUSE in line for line in ingester.log.read_text().splitlines())


def knows(ingester: Ingester) -> bool:
    status, text = readiness(ingester)
    return status == 503 and _CAUSE in text and _REMEDY in text


@pytest.mark.timeout(600)
def test_a_database_that_goes_away_comes_back_and_nothing_is_lost(tmp_path: Path) -> None:
    with AwayWorld(tmp_path, pace=Pace(100_000, 2_500, large=0)) as world:
        world.workload.start()
        ingester = world.start_ingester()
        for single_user in (False, True):
            world.more_arrives()
            before = told(ingester)
            with world.away(single_user=single_user):
                wait_until(lambda: knows(ingester), "the health page has cause and remedy", _PATIENCE)
                wait_until(lambda: told(ingester) > before, "the log has it", _PATIENCE)  # noqa: B023
            wait_until(lambda: readiness(ingester)[0] == 200, "it is ready again", _PATIENCE)
        world.more_arrives()
        world.workload.stop()
        world.workload.join()
        assert good(world.verdict(_PATIENCE))
        assert told(ingester) < 20, "a line an event, not a try"
        lines = ingester.log.read_text().splitlines()
        assert [line for line in lines if _CAUSE in line and _REMEDY not in line] == []
        assert "Traceback" not in "\n".join(lines)
        assert ingester.stop() == 0, ingester.tail()
