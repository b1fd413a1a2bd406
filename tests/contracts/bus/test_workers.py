"""`dstream router` as processes on an emulated namespace: what dies, who notices, and that nothing is lost, doubled or out of order."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from azure.servicebus import ServiceBusClient

from common.message import Message
from emulators.servicebus.server import ServiceBusEmulator
from tests.contracts.bus.test_router import PERSONS, change, put, read

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="finds processes in /proc")

CONFIG = """
ingester {{
  db_type = "sqlserver"
  server_name = "srv"
  database = "db"
  db_connection_string = "Server=localhost;Database=db;User Id=u;Password=pass"
  queue {{
    name = "ingest-queue"
    ordering = "key"
    connection_string = "{bus}"
  }}
  locks {{
    type = "azure_blob"
    connection_string = "DefaultEndpointsProtocol=http;AccountName=a;AccountKey=a2V5;BlobEndpoint=http://127.0.0.1:1/a"
    container_name = "locks"
  }}
  tables = ["Persons"]
}}
router {{
  workers = {workers}
  sessions = 2
  provision = "{provision}"
  source {{
    connection_string = "{bus}"
    management_endpoint = "{management}"
  }}
  output {{
    connection_string = "{bus}"
    management_endpoint = "{management}"
  }}
}}
"""


class Router:
    """The command, its log, and its workers."""

    def __init__(
        self,
        folder: Path,
        emulator: ServiceBusEmulator,
        *,
        workers: int = 2,
        provision: str = "create",
        change: Callable[[str], str] = lambda text: text,
    ) -> None:
        """`change`: of the configuration, before it is written."""
        config = folder / "dstream.hcl"
        management = f"http://127.0.0.1:{emulator.http_port}"
        text = CONFIG.format(
            bus=emulator.connection_string, management=management, workers=workers, provision=provision
        )
        config.write_text(change(text))
        self.log = folder / "router.log"
        with self.log.open("wb") as log:
            command = [sys.executable, "-m", "dstream", "router", "--config", str(config)]
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    @property
    def said(self) -> str:
        return self.log.read_text()

    def workers(self) -> list[int]:
        pid = self.process.pid
        found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return [int(each) for each in found if running(int(each))]

    def wait(self, seconds: float = 60) -> int:
        return self.process.wait(seconds)


def running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def eventually(condition: Callable[[], bool], router: Router, seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, router.said
        time.sleep(0.05)


def begun(router: Router, times: int = 2) -> Callable[[], bool]:
    return lambda: router.said.count("router started") >= times


Start = Callable[..., Router]


@pytest.fixture
def start(tmp_path: Path, emulator: ServiceBusEmulator) -> Iterator[Start]:
    started: list[Router] = []

    def begin(*, workers: int = 2, provision: str = "create") -> Router:
        started.append(Router(tmp_path, emulator, workers=workers, provision=provision))
        return started[-1]

    yield begin
    for router in started:
        router.process.kill()
        router.process.wait()


def lanes(emulator: ServiceBusEmulator, count: int) -> dict[str | None, list[str | None]]:
    found: dict[str | None, list[str | None]] = {}
    for each in read(emulator, PERSONS, count):
        found.setdefault(each.session_id, []).append(each.message_id)
    return found


def load(count: int, sessions: int) -> tuple[list[Message], dict[str | None, list[str | None]]]:
    """Messages, and what a subscriber must see of them, by session."""
    messages = [change(PERSONS, number, f"persons/{number % sessions}") for number in range(count)]
    return messages, {
        f"persons/{lane}": [f"{PERSONS}-{number}" for number in range(lane, count, sessions)]
        for lane in range(sessions)
    }


def unrouted(emulator: ServiceBusEmulator) -> int:
    return emulator.admin.get("ingest-queue").counts.active


def test_two_workers_route_everything_once_and_in_order_and_sigterm_ends_them_with_0(
    emulator: ServiceBusEmulator, start: Start
) -> None:
    router = start()
    eventually(begun(router), router)
    assert len(router.workers()) == 2
    made = [line for line in router.said.splitlines() if "entity created" in line]
    assert len(made) == 3
    assert not any("worker=" in line for line in made), "the parent alone provisions"
    messages, expected = load(400, 6)
    put(emulator, messages)
    assert {*re.findall(r"worker=(\d)", router.said)} == {"1", "2"}
    eventually(lambda: unrouted(emulator) == 0, router)
    workers = router.workers()
    router.process.terminate()
    assert router.wait() == 0
    assert not any(map(running, workers))
    assert router.said.count("router stopped") == 2
    assert lanes(emulator, 400) == expected


Trouble = tuple[signal.Signals, str]
DIES = signal.SIGKILL, "worker died; starting it again"
STANDS_STILL = signal.SIGSTOP, "worker hangs; killing it and starting it again"


def after(troubles: Sequence[Trouble], emulator: ServiceBusEmulator, start: Start) -> Router:
    """A router that has ended, each of whose first workers had its trouble, one after the other, in the middle of messages: none is lost,
    doubled or out of order."""
    messages, expected = load(600, 6)
    put(emulator, messages[:300])
    router = start()
    eventually(begun(router), router, 90)
    first = router.workers()
    for number, (how, _) in enumerate(troubles):
        os.kill(first[number], how)
        put(emulator, messages[300 + 150 * number : 450 + 150 * number])
        eventually(begun(router, 3 + number), router, 120)
    put(emulator, messages[300 + 150 * len(troubles) :])
    eventually(lambda: unrouted(emulator) == 0, router, 120)
    assert not {*first[: len(troubles)]} & {*router.workers()}
    router.process.terminate()
    assert router.wait() == 0
    for trouble in troubles:
        assert router.said.count(trouble[1]) == troubles.count(trouble)
    assert lanes(emulator, 600) == expected
    return router


def test_a_worker_that_stands_still_is_replaced_and_nothing_is_lost_or_out_of_order(
    emulator: ServiceBusEmulator, start: Start
) -> None:
    """Behind one that dies."""
    assert "it has reported nothing for" in after([DIES, STANDS_STILL], emulator, start).said


def test_workers_of_a_killed_parent_stop_by_themselves_and_leave_nothing_locked(
    emulator: ServiceBusEmulator, start: Start
) -> None:
    put(emulator, load(1_000, 4)[0])
    router = start()
    eventually(begun(router), router)
    workers = router.workers()
    assert len(workers) == 2
    router.process.kill()
    router.wait()
    eventually(lambda: not any(map(running, workers)), router)
    assert router.said.count("the parent is gone") == 2
    with ServiceBusClient.from_connection_string(emulator.connection_string) as client:
        for lane in range(4):  # a session that is still somebody's would be refused
            with client.get_queue_receiver("ingest-queue", session_id=f"persons/{lane}", max_wait_time=2):
                pass


def test_a_second_signal_ends_all_at_once(emulator: ServiceBusEmulator, start: Start) -> None:
    router = start()
    eventually(begun(router), router)
    workers = router.workers()
    os.kill(workers[0], signal.SIGSTOP)  # would hold up an orderly end
    router.process.terminate()
    eventually(lambda: router.said.count("router stopped") == 1, router)
    router.process.terminate()
    assert router.wait(60) == 128 + signal.SIGTERM
    os.kill(workers[0], signal.SIGCONT)
    eventually(lambda: not any(map(running, workers)), router)


def test_a_worker_that_does_not_stop_is_killed_and_the_status_is_1(emulator: ServiceBusEmulator, start: Start) -> None:
    router = start()
    eventually(begun(router), router)
    workers = router.workers()
    os.kill(workers[1], signal.SIGSTOP)
    began = time.monotonic()
    router.process.terminate()
    assert router.wait() == 1
    assert time.monotonic() - began < 45, "20 s, on a machine that is busy"
    assert "worker did not stop cleanly" in router.said
    assert not any(map(running, workers))


@pytest.mark.parametrize("workers", [1, 2])
def test_a_missing_queue_is_said_once_however_many_workers_there_are(
    emulator: ServiceBusEmulator, start: Start, workers: int
) -> None:
    router = start(workers=workers, provision="none")
    assert router.wait() == 1
    lines = [line for line in router.said.splitlines() if line.startswith("dstream: ") and "hint" not in line]
    assert len(lines) == 1, router.said


def test_a_queue_deleted_while_it_runs_ends_the_router_with_1_and_one_reason(
    emulator: ServiceBusEmulator, start: Start
) -> None:
    router = start()
    eventually(begun(router), router)
    emulator.admin.delete("ingest-queue")
    assert router.wait() == 1
    assert sum(line.startswith("dstream: ") and "ingest-queue" in line for line in router.said.splitlines()) == 1
    assert "When a queue was deleted" in router.said, "what was in it is gone"


def test_a_router_beside_another_takes_sessions_over_and_gives_them_back_in_order(
    emulator: ServiceBusEmulator, start: Start, tmp_path: Path
) -> None:
    messages, expected = load(1_500, 12)
    put(emulator, messages[:500])
    one = start(workers=1)
    eventually(begun(one, 1), one)
    (tmp_path / "second").mkdir()
    other = Router(tmp_path / "second", emulator, workers=2)
    try:
        put(emulator, messages[500:1_000])
        eventually(begun(other), other)
        put(emulator, messages[1_000:])
        one.process.terminate()
        assert one.wait() == 0
        eventually(lambda: unrouted(emulator) == 0, other)
    finally:
        other.process.terminate()
        assert other.wait() == 0
    assert lanes(emulator, 1_500) == expected
