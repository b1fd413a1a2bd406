"""Both stages as processes, real Spark, real drivers, on the emulators; then the same messages damaged on purpose."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

import dstream.demo.pipeline
from common.names import TableName
from dstream.demo.pipeline import Pipeline
from dstream.demo.processes import write_config
from dstream.demo.schema import CUSTOMERS, EVERYTHING, ORDERS, TABLES
from dstream.demo.verdict import Received, Verdict, judge
from dstream.demo.workload import Pace
from tests.worlds.dump import end, tree, write_stacks

CHANGES = 1500


@dataclass(frozen=True)
class Finished:
    """A pipeline whose workload has ended, whose messages have arrived, and whose services have been asked to stop: how they ended."""

    pipeline: Pipeline
    ingester: int
    router: int


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Finished]:
    lean = partial(write_config, tasks=2, routing="workers = 1")
    folder = tmp_path_factory.mktemp("pipeline")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dstream.demo.pipeline, "write_config", lean)
        yield from _ended(folder)


def _ended(folder: Path) -> Iterator[Finished]:
    with Pipeline(folder, pace=Pace(changes=CHANGES, seconds=4)) as pipeline:
        pipeline.workload.start()
        pipeline.workload.join()
        pipeline.settle(90)
        yield Finished(pipeline, pipeline.ingester.stop(), pipeline.router.stop())


@pytest.fixture(scope="module")
def finished(ended: Finished) -> Pipeline:
    return ended.pipeline


def damaged(pipeline: Pipeline, received: Mapping[TableName, Sequence[Received]]) -> Verdict:
    return judge(pipeline.ledger, received, TABLES)


def counts(verdict: Verdict) -> dict[str, int]:
    return {count: verdict.total(count) for count in ("lost", "duplicated", "out_of_order", "wrong")}


@pytest.mark.timeout(300)
def test_every_committed_change_arrives_once_in_order_with_its_values(finished: Pipeline) -> None:
    verdict = finished.verdict()
    examples = [example for table in verdict.tables.values() for example in table.examples]
    assert counts(verdict) == {"lost": 0, "duplicated": 0, "out_of_order": 0, "wrong": 0}, examples
    assert verdict.total("committed") >= CHANGES
    assert all(table.committed for table in verdict.tables.values())


def test_a_dropped_message_is_noticed(finished: Pipeline) -> None:
    received = dict(finished.subscriber.received())
    received[ORDERS] = [*received[ORDERS][:7], *received[ORDERS][8:]]
    assert counts(damaged(finished, received)) == {"lost": 1, "duplicated": 0, "out_of_order": 0, "wrong": 0}


def test_two_swapped_messages_are_noticed(finished: Pipeline) -> None:
    received = dict(finished.subscriber.received())
    found = list(received[EVERYTHING])
    found[3], found[4] = found[4], found[3]
    received[EVERYTHING] = found
    assert counts(damaged(finished, received))["out_of_order"] == 1


def test_an_altered_value_is_noticed(finished: Pipeline) -> None:
    received = dict(finished.subscriber.received())
    found = list(received[CUSTOMERS])
    found[5] = Received(re.sub(rb'"Balance":"[^"]*"', b'"Balance":"7.77"', found[5].body), "", found[5].at)
    received[CUSTOMERS] = found
    assert counts(damaged(finished, received)) == {"lost": 0, "duplicated": 0, "out_of_order": 0, "wrong": 1}


def test_messages_carry_what_filters_and_duplicate_detection_need(finished: Pipeline) -> None:
    message = finished.subscriber.received()[ORDERS][0]
    metadata = json.loads(message.body)["metadata"]
    assert metadata["EventID"] == message.message_id
    assert metadata["Destination"] == "localhost.demo.sales.orders.events"
    assert re.fullmatch(r"[0-9a-f]{20}", metadata["LSN"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", metadata["CommitTime"])


def test_the_logs_of_normal_operation_are_quiet(finished: Pipeline) -> None:
    for service in (finished.ingester, finished.router):
        text = service.log.read_text()
        assert "Traceback" not in text, text
        assert "WARN" not in text.upper(), text
        assert len(text.splitlines()) < 30, text


def test_no_secret_is_logged(finished: Pipeline) -> None:
    for service in (finished.ingester, finished.router):
        text = service.log.read_text()
        assert "DStream-local-1" not in text
        assert "SharedAccessKey=" not in text


def test_sigterm_ends_both_services_with_status_0(ended: Finished) -> None:
    assert (ended.ingester, ended.router) == (0, 0), ended.pipeline.ingester.tail() + ended.pipeline.router.tail()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="finds processes in /proc")
@pytest.mark.timeout(400)
def test_the_demo_command_ends_by_itself_with_status_0_and_a_verdict(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "dstream", "demo", "--seconds", "2", "--changes", "600"]
    said, errors = tmp_path / "stdout", tmp_path / "stderr"
    with said.open("wb") as out, errors.open("wb") as err:
        demo = subprocess.Popen(command, stdout=out, stderr=err, env={**os.environ, "TMPDIR": str(tmp_path)})
    try:
        status = demo.wait(300)
    except subprocess.TimeoutExpired:
        pytest.fail(f"the demo does not end:\n{_state(demo.pid, tmp_path)}\n{said.read_text()}\n{errors.read_text()}")
    finally:
        if demo.poll() is None:
            demo.kill()
            demo.wait()
    assert status == 0, said.read_text() + errors.read_text()
    assert "Every committed change arrived once, in order, with its values." in said.read_text()
    assert errors.read_text() == ""


def _state(demo: int, folder: Path) -> str:
    """What runs, the stacks of what is Python, and the ends of the logs of both services."""
    running = [f"{pid} {command[:200]}" for pid, command in _family(demo).items()]
    asked = write_stacks(tree(demo))
    logs = [f"{log}:\n{end(log)}" for log in sorted(folder.rglob("*.log"))]
    return "\n".join([*running, f"stacks of {asked}", *logs])


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="finds processes in /proc")
@pytest.mark.timeout(300)
def test_a_demo_that_is_killed_leaves_neither_emulator_nor_router_nor_jvm_behind() -> None:
    command = [sys.executable, "-m", "dstream", "demo", "--seconds", "300"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as demo:
        try:
            _until(lambda: any("java" in name for name in _family(demo.pid).values()), 120)
            family = _family(demo.pid)
        finally:
            demo.kill()
    assert len(family) >= 5
    _until(lambda: not any(_runs(pid) for pid in family), 90)


def _family(pid: int) -> dict[int, str]:
    """The command lines of the descendants of a process, by their ids."""
    found: dict[int, str] = {}
    for child in tree(pid):
        if child != pid:
            with suppress(OSError):
                found[child] = Path(f"/proc/{child}/cmdline").read_text().replace("\0", " ")
    return found


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def _until(condition: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)
