"""Tables whose names are changed while they are under CDC: the loop, the reader and the offsets over a server, without Spark and a bus."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable

import pytest
from pydantic import SecretStr
from structlog.testing import capture_logs

from common.clock import steady, unix
from common.names import TableName
from common.sqladdress import SqlAddress
from ingester.driver.history.parts import Stored
from ingester.driver.lease_keeper import LeaseKeeper
from ingester.driver.loop import Loop
from ingester.driver.loop_settings import LoopSettings
from ingester.driver.schedule import Rhythm
from ingester.local.locks import LocalLocks
from ingester.position import Position
from ingester.sqlserver.connection import Connection
from ingester.sqlserver.offsets import SqlServerOffsets
from ingester.sqlserver.source import SqlServerSource
from ingester.task.drain import Drain
from ingester.watch.stats import IngesterStats
from tests.contracts.source.conftest import Places
from tests.contracts.source.test_source import Place
from tests.fakes.history import FakeSnapshots
from tests.fakes.ingester import FakeSender, ThreadExecutor, encoder
from tests.fakes.rows import FakeRows

SWAP = TableName("dbo", "swap")
_PATIENCE = 30.0


class Run:
    """An ingester's loop over `place`, with a queue in memory, in a thread of its own while its context is open."""

    def __init__(self, place: Place, sender: FakeSender, *, skip_gaps: bool = False) -> None:
        login = place.login
        address = SqlAddress(login.host, login.port, None, login.database, login.user, SecretStr(login.password))
        self._connections = [Connection(address) for _ in range(3)]
        driver, moves, reads = self._connections
        self.stop = threading.Event()
        offsets = SqlServerOffsets(driver)
        offsets.ensure()
        drain = Drain(SqlServerSource(reads), SqlServerOffsets(moves), sender, encoder(), unix)
        self.leases = LeaseKeeper(LocalLocks(unix), clock=steady, places=())
        self.loop = Loop(
            LoopSettings({SWAP: Rhythm(0.05, 0.1)}, {SWAP: "swap"}, 3, 10, 0.0, skip_gaps),
            source=SqlServerSource(driver),
            offsets=offsets,
            stored=Stored(FakeRows, FakeSnapshots(lambda: 0.0), lambda look: look()),
            leases=self.leases,
            executor=ThreadExecutor(drain),
            stats=IngesterStats([SWAP], clock=steady),
            stop=self.stop,
            clock=steady,
            now=unix,
            chance=lambda: 0.0,
        )
        self._thread = threading.Thread(target=self.loop.run, daemon=True)

    @property
    def ended(self) -> bool:
        return not self._thread.is_alive()

    def until(self, reached: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _PATIENCE
        while not reached():
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def __enter__(self) -> Run:
        self.leases.start()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        self._thread.join(_PATIENCE)
        for connection in self._connections:
            connection.close()


class Stage:
    """dbo.swap and dbo.stage under CDC, each row one number, and what of dbo.swap was sent."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.sender = FakeSender()
        self.asked: list[Position] = []
        for name in ("swap", "stage"):
            self.made(name)

    def made(self, name: str) -> None:
        self.place.execute(f"CREATE TABLE dbo.{name} (ID INT PRIMARY KEY)")
        self.place.enable(table=name, capture_instance=f"{name} {time.monotonic_ns()}")

    def put(self, name: str, *numbers: int, captured: bool = True) -> None:
        for number in numbers:
            self.place.execute(f"INSERT INTO dbo.{name} VALUES ({number})")
        if captured:
            self.place.scan()

    def rename(self, name: str, to: str) -> None:
        self.place.execute(f"EXEC sp_rename N'dbo.{name}', N'{to}'")

    def swap(self) -> None:
        self.rename("swap", "swap_old")
        self.rename("stage", "swap")

    def passed(self) -> None:
        """Something was committed after what went before, and captured."""
        self.place.execute(
            "WAITFOR DELAY '00:00:00.020'; INSERT INTO dbo.Persons (ID) SELECT 1 + COUNT(*) FROM dbo.Persons"
        )
        self.place.scan()

    def looks(self) -> int:
        """How often somebody has asked whether capture has come past a rename."""
        return len(self.asked)

    def sent(self) -> list[int]:
        return [json.loads(message.body)["data"]["ID"] for message in self.sender.sent]

    def names(self) -> set[str]:
        return {json.loads(message.body)["metadata"]["TableName"] for message in self.sender.sent}

    def _reached(self, number: int) -> bool:
        if self.asked and len(self.sent()) < number:
            self.asked.clear()
            self.passed()
        return len(self.sent()) >= number

    def read(self, *numbers: int) -> None:
        """Run an ingester until these have been sent and no others."""
        with Run(self.place, self.sender) as run:
            run.until(lambda: self._reached(len(numbers)))
        assert self.sent() == list(numbers)


@pytest.fixture
def stage(places: Places, monkeypatch: pytest.MonkeyPatch) -> Stage:
    monkeypatch.setattr("ingester.driver.catalog_news._CATALOG_SECONDS", 0.0)
    made, passed = Stage(places()), SqlServerSource.passed

    def asked(source: SqlServerSource, position: Position, moment: str) -> bool:
        made.asked.append(position)
        return passed(source, position, moment)

    monkeypatch.setattr(SqlServerSource, "passed", asked)
    return made


def test_a_swap_while_no_ingester_runs_loses_no_change_of_either(stage: Stage) -> None:
    stage.put("swap", 1)
    stage.read(1)
    stage.put("stage", 11)
    stage.put("swap", 2, captured=False)
    stage.swap()
    stage.put("swap", 12)
    stage.read(1, 2, 11, 12)
    assert stage.names() == {"swap"}


def test_a_change_that_is_captured_after_the_rename_was_seen_is_not_left_behind(stage: Stage) -> None:
    stage.put("swap", 1)
    with Run(stage.place, stage.sender) as run:
        run.until(lambda: stage.sent() == [1])
        stage.put("stage", 11)
        with capture_logs() as logs:
            stage.put("swap", 2, captured=False)
            stage.swap()
            run.until(lambda: any("is another one now" in entry["event"] for entry in logs))
        run.until(lambda: stage.looks() > 3)
        assert stage.sent() == [1]
        stage.passed()
        run.until(lambda: len(stage.sent()) == 3)
    assert stage.sent() == [1, 2, 11]


def test_two_swaps_in_a_row_send_what_each_of_the_tables_left(stage: Stage) -> None:
    """The usual way to load a table: the two exchange their names, again and again."""
    stage.put("swap", 1)
    stage.read(1)
    stage.put("stage", 11)
    stage.put("swap", 2)
    stage.swap()
    stage.read(1, 2, 11)
    stage.rename("swap_old", "stage")
    stage.put("stage", 3)
    stage.put("swap", 12)
    stage.swap()
    stage.put("swap", 4)
    stage.read(1, 2, 11, 12, 3, 4)


def test_a_name_that_comes_back_before_anybody_looked_changes_nothing(stage: Stage) -> None:
    stage.put("swap", 1)
    stage.read(1)
    stage.rename("swap", "other")
    stage.put("other", 2)
    stage.rename("other", "swap")
    stage.put("swap", 3)
    stage.read(1, 2, 3)


def test_a_table_that_lost_its_name_to_nobody_is_waited_for_and_read_on_when_it_is_back(stage: Stage) -> None:
    stage.put("swap", 1)
    stage.read(1)
    stage.rename("swap", "away")
    with capture_logs() as logs, Run(stage.place, stage.sender) as run:
        run.until(lambda: any("does not exist" in entry["event"] for entry in logs))
    stage.put("away", 2)
    stage.rename("away", "swap")
    stage.put("swap", 3)
    stage.read(1, 2, 3)


def test_a_table_that_loses_its_name_while_it_is_read_is_told_by_the_new_one(stage: Stage) -> None:
    stage.put("swap", 1)
    with capture_logs() as logs, Run(stage.place, stage.sender) as run:
        run.until(lambda: bool(stage.sender.sent))
        stage.rename("swap", "away")
        run.until(lambda: any("is now named dbo.away" in entry["event"] for entry in logs))
    assert [entry["log_level"] for entry in logs if "is now named" in entry["event"]] == ["error"]


@pytest.mark.parametrize("skip_gaps", [False, True])
def test_a_table_that_was_dropped_and_made_again_is_a_gap_and_is_told(stage: Stage, skip_gaps: bool) -> None:
    stage.put("swap", 1)
    stage.read(1)
    stage.put("swap", 2)
    stage.place.execute("DROP TABLE dbo.swap")
    stage.made("swap")
    stage.put("swap", 3)
    with capture_logs() as logs, Run(stage.place, stage.sender, skip_gaps=skip_gaps) as run:
        run.until(lambda: stage.sent() == [1, 3] if skip_gaps else run.ended)
    told, *end = [entry for entry in logs if entry["log_level"] in ("warning", "error")]
    assert [entry["event"] for entry in end] == ([] if skip_gaps else ["every table has stopped, ending"])
    assert "changes may be lost" in (told["what"] if skip_gaps else told["error"])
    if not skip_gaps:
        stage.place.execute(
            told["error"][told["error"].index("DELETE FROM") : told["error"].index(" for a first start")]
        )
        stage.read(1, 3)
