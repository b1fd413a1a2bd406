"""When a worker that died or hangs is started again; what it is to be a worker's parent otherwise, tests/contracts/bus/test_workers.py knows."""

from __future__ import annotations

import signal
import sys
import threading
import time

import pytest
from pydantic import SecretStr
from structlog.testing import capture_logs

from common.errors import PermanentError, TransientError
from common.names import TableName
from common.retry import Backoff
from common.servicebus.settings import ServiceBusSettings
from router.health import Reports
from router.outputs.azure_service_bus.settings import ServiceBusOutput
from router.settings import RouterSettings
from router.supervisor import BLINK, FIRST_WORD_SECONDS, STEADY, Reported, Workers
from router.tally import Tally

STRING = SecretStr("Endpoint=sb://x;SharedAccessKeyName=n;SharedAccessKey=hunter2-hunter2")
SETTINGS = RouterSettings(
    source=ServiceBusSettings(connection_string=STRING),
    output=ServiceBusOutput(connection_string=STRING),
    queue_name="ingest-queue",
    ordering="table",
    topics={"a.b.c.events": TableName("dbo", "C")},
    workers=2,
)


def test_a_worker_is_started_again_at_once_then_after_pauses_by_chance_and_at_once_after_a_steady_life(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[int] = []

    def delay(self: Backoff, attempt: int, chance: object = None) -> float:
        asked.append(attempt)
        return 0.25 * self.ceiling(attempt)

    monkeypatch.setattr(Backoff, "delay", delay)
    now = 1000.0
    workers = Workers(SETTINGS, backoff=Backoff(first=4.0, longest=8.0), clock=lambda: now)
    workers._begun = True
    worker, other = workers._workers
    worker.settings = SETTINGS
    pauses = []
    with capture_logs() as logs:
        for lived in (STEADY, 1.0, 1.0, 1.0, STEADY):
            worker.began, now = now, now + lived
            workers._mourn(worker, -9)
            pauses.append(worker.again_at - now)
    assert pauses == [0.0, 1.0, 2.0, 2.0, 0.0]
    assert asked == [1, 2, 3]
    assert [(entry["event"], entry["restart_in_seconds"]) for entry in logs] == [
        ("worker died; starting it again", pause) for pause in pauses
    ]
    assert other.again_at == 0.0


STAND_IN = """
import pickle, sys, time
from router.tally import STUCK_SECONDS, Tally
from router.supervisor import Started, Reported

def say(word):
    pickle.dump(word, sys.stdout.buffer)
    sys.stdout.flush()

stuck = pickle.load(sys.stdin.buffer).number == 1
now = 0.0
tally = Tally(clock=lambda: now)
tally.turned()
say(Started())
while stuck and now <= STUCK_SECONDS:
    now += 1
    tally.figures()
while True:
    say(Reported(tally.figures()))
    time.sleep(0.1)
"""
"""A worker of which a slot stands still, if it is the first."""


def test_a_worker_with_a_slot_that_stands_still_is_killed_and_started_again_with_one_line() -> None:
    reports = Reports()
    workers = Workers(SETTINGS, reports=reports, command=[sys.executable, "-c", STAND_IN], grace=0.5)
    stop, seen = threading.Event(), set[int]()

    def watch() -> None:
        deadline = time.monotonic() + 120
        while len(seen) < 3 and time.monotonic() < deadline:
            seen.update(workers.pids)
            time.sleep(0.05)
        stop.set()

    with capture_logs() as logs:
        watcher = threading.Thread(target=watch)
        watcher.start()
        workers.run(stop)
        watcher.join()
    told = [entry for entry in logs if entry["log_level"] == "error" and "hangs" in entry["event"]]
    assert told, logs
    assert {(entry["worker"], entry["reason"]) for entry in told} == {(1, "MainThread has not turned for 241 s")}
    assert not [entry for entry in logs if "died" in entry["event"]]
    assert len(seen) >= 3


PROVEN = """
import pickle, sys
from common.errors import PermanentError, TransientError
from router.supervisor import Failed, Started

def say(word):
    pickle.dump(word, sys.stdout.buffer)
    sys.stdout.flush()

order = pickle.load(sys.stdin.buffer)
if order.proven:
    say(Failed(PermanentError("it knows")))
else:
    say(Started())
"""
"""A worker that routes and dies; the next one says whether it was told that one has routed."""


def test_a_worker_that_is_started_again_knows_that_the_rights_were_there() -> None:
    workers = Workers(SETTINGS, command=[sys.executable, "-c", PROVEN], backoff=Backoff(first=0.01, longest=0.01))
    with capture_logs(), pytest.raises(PermanentError, match="it knows"):
        workers.run(threading.Event())


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


class Process:
    """One that runs until it is killed, and says nothing by itself."""

    pid = 1
    stdin = stdout = None

    def __init__(self) -> None:
        self.signals: list[int] = []

    def poll(self) -> int | None:
        return -9 if signal.SIGKILL in self.signals else None

    def wait(self, timeout: float | None = None) -> int:
        return -9

    def send_signal(self, number: int) -> None:
        self.signals.append(number)

    def kill(self) -> None:
        self.signals.append(signal.SIGKILL)


def watched(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> tuple[Workers, Process]:
    """A parent of one silent worker, whose looks the test takes."""
    workers, process = Workers(SETTINGS, clock=clock), Process()
    workers._workers = workers._workers[:1]
    workers._workers[0].process = process  # type: ignore[assignment]

    def buried(worker: object) -> int:
        workers._workers[0].process = None
        return -9

    monkeypatch.setattr(workers, "_buried", buried)
    monkeypatch.setattr(workers, "_start", lambda worker: None)
    return workers, process


def looks(workers: Workers, clock: Clock, seconds: float) -> None:
    for _ in range(int(seconds / BLINK)):
        clock.now += BLINK
        workers._look()


def test_a_worker_that_falls_silent_is_replaced_after_three_words_that_did_not_come(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock()
    workers, process = watched(clock, monkeypatch)
    workers._begun = True
    worker = workers._workers[0]
    worker.heard(Reported(Tally().figures()))
    looks(workers, clock, 14)
    worker.heard(Reported(Tally().figures()))
    looks(workers, clock, 15)
    assert process.signals == []
    with capture_logs() as logs:
        looks(workers, clock, 1)
    assert process.signals == [signal.SIGUSR1, signal.SIGKILL]
    assert [entry["reason"] for entry in logs] == ["it has reported nothing for 16 s"]


def test_a_worker_that_is_killed_as_the_router_starts_is_started_again_and_not_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock()
    workers, process = watched(clock, monkeypatch)
    worker = workers._workers[0]
    worker.began = clock.now
    process.kill()
    with capture_logs() as logs:
        for _ in range(2):
            worker.process = process  # type: ignore[assignment]
            workers._look()
        worker.process = process  # type: ignore[assignment]
        with pytest.raises(PermanentError, match="worker 1 ended with status -9 and reported nothing"):
            workers._look()
    assert [entry["event"] for entry in logs] == ["worker died; starting it again"] * 2


def test_a_parent_that_stood_still_itself_blames_no_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    workers, process = watched(clock, monkeypatch)
    workers._workers[0].heard(Reported(Tally().figures()))
    clock.now += 3600
    workers._look()
    assert process.signals == []


def test_a_start_without_a_word_ends_the_first_start_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    workers, process = watched(clock, monkeypatch)
    looks(workers, clock, FIRST_WORD_SECONDS)
    assert process.signals == []
    with pytest.raises(TransientError, match="worker 1 hangs: it has reported nothing for 121 s"):
        looks(workers, clock, 1)
