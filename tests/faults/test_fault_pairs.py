"""Each fault of both emulators, alone and two at a time, in one pipeline that stays up under a live workload: the verdict is the same.

For every case the faults are in force until all have struck and a little longer, then taken away; then everything that was committed has to
arrive within a bound. Values, order and repetitions are judged by a subscriber at the end, from the first change on.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from itertools import combinations
from pathlib import Path

import pytest

from common.names import TableName
from dstream.demo.subscriber import Subscriber
from dstream.demo.workload import Pace, Workload
from dstream.emulators import Login
from emulators.servicebus.description import EntityMissing, QueueDescription
from emulators.servicebus.server import ServiceBusEmulator
from emulators.sqlserver.faults.catalogue import QueryThatHangs
from emulators.sqlserver.server import SqlServerEmulator
from tests.azurite.server import Azurite, connection_string, missing
from tests.worlds.fault_cases import CASES, NAMES, OURS, Case
from tests.worlds.ports import free_port
from tests.worlds.world import World, good, wait_until

_CHANGES_A_SECOND = 40
_FOR_EVER = 100_000
_FORCE = 0.5
"""Seconds that faults are in force when all have struck."""
_STRIKE = 20.0
"""Seconds within which each must have struck."""
RECOVERY = 45.0
"""Seconds within which everything that was committed has arrived after the last fault is over: generous, for a machine that does other work."""
STOP = 40.0
"""Seconds that an ingester may take to stop, although SQL Server hangs: 20 on a machine that has the time."""
_LOCK = timedelta(seconds=5)
_SECRETS = ("test-Password-1", "SAS_KEY_VALUE")


class _Clock:
    """Wall clock of the Service Bus emulator, which a case moves past the locks of connections that are gone."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def __call__(self) -> float:
        return time.time() + self.ahead


class _Bus(ServiceBusEmulator):
    """With the ingest queue there already, so that its locks are short."""

    def start(self) -> None:
        super().start()
        self.admin.create(
            "ingest-queue",
            QueueDescription(lock_duration=_LOCK, requires_session=True, requires_duplicate_detection=True),
        )


@dataclass
class Told:
    """A case that was played. `recovery`: seconds from the end of its faults until all that had been committed then has arrived."""

    name: str
    began: float
    recovery: float


class Pipeline(World):
    """A world whose application has a SQL Server of its own, and whose subscriber comes when all is over.

    `azurite`: the port of the one that holds `azure_blob` locks.
    """

    def __init__(self, folder: Path, locks: str = "local", *, azurite: int | None = None) -> None:
        blobs = connection_string(azurite) if azurite is not None else None
        more = "" if blobs is None else f'\nlease = "15s"\nconnection_string = "{blobs}"'
        super().__init__(folder, pace=Pace(1, 1), locks=f'type = "{locks}"{more}')
        self.blob_connection_string = blobs
        self.clock = _Clock()
        self.servicebus.stop()
        self.servicebus = _Bus(clock=self.clock, port=free_port(), http_port=free_port())
        self._door = SqlServerEmulator(self._engine)
        self.told: list[Told] = []

    def __enter__(self) -> Pipeline:
        super().__enter__()
        self.subscriber.stop()
        self._door.start()
        login = Login(self.login.host, self._door.port, self.login.user, self.login.password, self.login.database)
        self.workload = Workload(login, self.ledger, Pace(_CHANGES_A_SECOND * _FOR_EVER, _FOR_EVER, large=0), seed=5)
        self.start_ingester()
        self.workload.start()
        return self

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)  # type: ignore[arg-type]
        self._door.stop()

    def plays(self, cases: Sequence[Sequence[Case]]) -> None:
        """All of these, one after the other, and the verdict."""
        wait_until(self.begun, "the first changes arrive", 90)
        for each in cases:
            self.played(each)
        self.finished()
        print(self.summary(), flush=True)

    def committed(self) -> int:
        """Changes so far."""
        return sum(self.ledger.counts().values())

    def arrived(self) -> int:
        """Messages that wait in the subscriptions."""
        return sum(self.waiting(table) for table in self.topics)

    def waiting(self, table: TableName) -> int:
        """Those of one table."""
        return self.servicebus.admin.get(f"{self.topics[table]}/subscriptions/sub1").counts.active

    def brought(self, wanted: Mapping[TableName, int]) -> bool:
        """Whether so many of each table wait there."""
        return all(self.waiting(table) >= count for table, count in wanted.items())

    def played(self, cases: Sequence[Case]) -> None:
        """Put these faults in force together, take them away, and wait until nothing is missing. Raises AssertionError with their names."""
        name = " + ".join(str(case) for case in cases)
        began = time.time()
        before = self.committed()

        def unfinished() -> bool:
            """More is missing than is always on its way."""
            return self.committed() > before + 10 and self.arrived() < self.committed() - 5

        with ExitStack() as stack:
            for case in sorted(cases, key=CASES.index):
                struck = stack.enter_context(case.inject(self, unfinished))
                wait_until(struck, f"{name}: {case} strikes", _STRIKE)
            time.sleep(_FORCE)
        if any(case.severs for case in cases):
            self.clock.ahead += _LOCK.total_seconds() + 1
        ended, wanted = time.monotonic(), self.ledger.counts()
        patience = RECOVERY + sum(case.patience for case in cases)
        wait_until(lambda: self.brought(wanted), f"{name}: {wanted}", patience)
        self.clock.ahead = 0.0  # or a client would take a lock to last as much longer
        self.told.append(Told(name, began, time.monotonic() - ended))
        print(f"{len(self.told):4} {self.told[-1].recovery:5.1f} s {name}", flush=True)
        self.looked_after(name)

    def looked_after(self, name: str) -> None:
        """Both services run, and their logs are clean."""
        for service in (*self.ingesters, self.router):
            assert service.died() is None, f"{name}: {service.stage} ended:\n{service.tail()}"
            text = service.log.read_text(errors="replace")
            assert "Traceback" not in text, f"{name}: {service.tail(60)}"
            assert not any(secret in text for secret in _SECRETS), name
        assert self.workload.error is None, f"{name}: {self.workload.error}"

    def finished(self) -> None:
        """The workload's end, and the verdict over everything."""
        self.workload.stop()
        self.workload.join()
        wait_until(lambda: self.brought(self.ledger.counts()), "everything", RECOVERY)
        time.sleep(2)  # what comes twice comes now
        assert self.arrived() == self.committed()
        self.subscriber = Subscriber(self.servicebus.connection_string, self.topics)
        self.subscriber.start()
        self._opened.callback(self.subscriber.stop)
        assert good(self.verdict())
        assert self.router.stop() == 0

    def stopped(self) -> float:
        """Seconds that the ingester took to end in order."""
        began = time.monotonic()
        [ingester] = self.ingesters
        assert ingester.stop(60) == 0, ingester.tail()
        self.looked_after("stop")
        return time.monotonic() - began

    def summary(self) -> str:
        """What came of it, for the measurements."""
        times = sorted(told.recovery for told in self.told)
        slowest = sorted(self.told, key=lambda told: -told.recovery)[:5]
        lines = [f"{len(times)} cases, {self.committed()} changes; recovery: median {times[len(times) // 2]:.1f} s"]
        return "\n".join(lines + [f"{told.recovery:6.1f} s {told.name}" for told in slowest])

    def begun(self) -> bool:
        """Whether it is up and in step."""
        self.looked_after("start")
        try:
            return self.arrived() > 40
        except EntityMissing:  # the router has not made its topics yet
            return False


PAIRS = list(combinations(CASES, 2))
"""Every two faults; those of one emulator too."""


@pytest.mark.parametrize("side", NAMES)
def test_every_fault_there_is_has_a_case(side: str) -> None:
    assert {case.name for case in CASES if case.side == side} == NAMES[side]


@pytest.mark.timeout(300)
def test_every_quick_fault_beside_another_changes_nothing_and_a_hanging_server_holds_up_no_stop(tmp_path: Path) -> None:
    """What falls mute is found out by a deadline and is not quick: test_mute.py and the long forms have it."""
    quick = [case for case in CASES if not case.patience and case.name != "mute"]
    random.Random(11).shuffle(quick)
    with Pipeline(tmp_path) as pipeline:
        pipeline.plays([quick[at : at + 2] for at in range(0, len(quick), 2)])
        hang = QueryThatHangs(1000, OURS)
        with pipeline.sqlserver.inject(hang):
            assert hang.hanging.wait(30)
            assert pipeline.stopped() < STOP


@contextmanager
def pipeline_of(folder: Path, locks: str) -> Iterator[Pipeline]:
    """One whose locks are of this kind."""
    with ExitStack() as opened:
        port = None
        if locks == "azure_blob":
            if reason := missing():
                pytest.skip(reason)
            port = opened.enter_context(Azurite()).port
        yield opened.enter_context(Pipeline(folder, locks, azurite=port))


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("locks", ["local", "sqlserver", "azure_blob"])
def test_every_fault_alone_changes_nothing(tmp_path: Path, locks: str) -> None:
    with pipeline_of(tmp_path, locks) as pipeline:
        pipeline.plays([(case,) for case in CASES])
        pipeline.stopped()


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("locks", ["local", "sqlserver", "azure_blob"])
def test_every_pair_of_faults_changes_nothing(tmp_path: Path, pairs: int, seed: int, locks: str) -> None:
    chosen = list(PAIRS)
    random.Random(seed).shuffle(chosen)
    with pipeline_of(tmp_path, locks) as pipeline:
        pipeline.plays(chosen[: pairs or None])
        pipeline.stopped()
