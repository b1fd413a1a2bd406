"""What both halves of wiring hand on of the settings: to the driver's own source, and to those in Spark's workers."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from common.clock import SteadyTime, UnixTime
from common.observability.spans import Spans
from ingester import app as wiring
from ingester import worker
from ingester.history.rows import BaseTable
from ingester.history.snapshot import Chunk
from ingester.slices import Slice, SliceResult, Trouble
from ingester.source import Part
from ingester.sqlserver.position import LogPosition
from ingester.task.read_chunk import ChunkDrain
from ingester.task.traced import TracedChunks
from ingester.worker import BEGIN_SECONDS
from ingester.worker_settings import WorkerSettings
from tests.fakes.ingester import ORDERS, PERSONS, instance, lsn, position
from tests.unit.ingester.driver.test_reload import settings


class Seen(Exception):
    """Raised by the recorder in place of a source."""

    def __init__(self, connection: Any, **options: Any) -> None:
        super().__init__(options)
        self.options = options


def recorder(connection: Any, **options: Any) -> Any:
    raise Seen(connection, **options)


@pytest.mark.parametrize("mode", ["direct", "function"])
def test_the_driver_and_the_workers_read_in_the_mode_that_is_configured(
    monkeypatch: pytest.MonkeyPatch, mode: str, tmp_path: Path
) -> None:
    monkeypatch.setattr(wiring, "sql_server_source", recorder)
    monkeypatch.setattr(worker, "sql_server_source", recorder)
    configured = settings("Persons", query_mode=mode)
    with pytest.raises(Seen) as driver:
        wiring.run(configured, threading.Event())
    with pytest.raises(Seen) as task:
        worker.Worker(WorkerSettings.of(configured), (tmp_path / "stopping").exists)._take()
    assert (driver.value.options["query_mode"], task.value.options["query_mode"]) == (mode, mode)


def test_the_workers_source_makes_values_as_configured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(worker, "sql_server_source", recorder)
    with pytest.raises(Seen) as task:
        worker.Worker(
            WorkerSettings.of(settings("Persons", before_images=True, decimals="number")),
            (tmp_path / "stopping").exists,
        )._take()
    assert task.value.options == {
        "before_images": True,
        "decimals_as_numbers": True,
        "query_mode": "direct",
        "transactions": False,
    }


def test_the_driver_and_the_workers_read_transactions_where_they_are_configured(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(wiring, "sql_server_source", recorder)
    monkeypatch.setattr(worker, "sql_server_source", recorder)
    configured = settings("Persons", "Items", transactions=True)
    with pytest.raises(Seen) as driver:
        wiring.run(configured, threading.Event())
    with pytest.raises(Seen) as task:
        worker.Worker(WorkerSettings.of(configured), (tmp_path / "stopping").exists)._take()
    assert driver.value.options["transactions"] is task.value.options["transactions"] is True
    assert driver.value.options["tables"]() == list(configured.tables)


def test_a_worker_hears_of_a_stop_that_was_asked_for_while_its_slice_runs(tmp_path: Path) -> None:
    mark = tmp_path / "stopping"
    bench = worker.Worker(WorkerSettings.of(settings("Persons")), mark.exists)._take()
    assert bench.drain.stopping() is False
    mark.touch()
    assert bench.drain.stopping() is True
    bench.close()


def test_a_result_brings_the_time_of_day_that_the_worker_took_it_for(tmp_path: Path) -> None:
    one = Slice(
        PERSONS, instance(), LogPosition.before(lsn(1)), LogPosition.end_of(lsn(1)), 1, 2, 1.0, sent_at=UnixTime(5.0)
    )
    before = time.time()
    bench = worker.Worker(WorkerSettings.of(settings("Persons")), (tmp_path / "stopping").exists)
    bench._drained = lambda todo: SliceResult(todo.table, None)  # type: ignore[method-assign]  # nothing is read
    [result] = bench.run([one])
    assert result.clock is not None
    assert (result.clock.host, result.clock.sent_at) == (socket.gethostname(), 5.0)
    assert before <= result.clock.begun_at <= result.clock.ended_at <= time.time()


def test_the_drivers_connection_hears_of_the_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that hangs must not hold it up."""
    heard: list[Any] = []

    def connection(address: object, *, stop: threading.Event) -> _Closing:
        heard.append(stop)
        return _Closing()

    monkeypatch.setattr(wiring, "Connection", connection)
    monkeypatch.setattr(wiring, "sql_server_source", recorder)
    stop = threading.Event()
    with pytest.raises(Seen):
        wiring.run(settings("Persons"), stop)
    assert set(heard) == {stop}


class _Closing:
    def close(self) -> None:
        """Nothing was opened."""


def test_benches_that_are_not_used_for_a_minute_are_closed_and_the_others_stay(tmp_path: Path) -> None:
    now = 0.0
    staff = worker.Worker(
        WorkerSettings.of(settings("Persons")), (tmp_path / "stopping").exists, clock=lambda: SteadyTime(now)
    )
    benches = [staff._take() for _ in range(3)]
    for bench in benches:
        staff._put_back(bench)
    now = 30.0
    staff._put_back(staff._take())
    now = 60.0
    staff._put_back(staff._take())
    assert staff._idle == [benches[2]]


def test_chunks_have_connections_of_their_own_from_the_first_one_on_and_share_the_rest_of_the_bench(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    opened: list[object] = []
    closed: list[object] = []

    class Noted:
        def __init__(self, address: object, *, proven: bool) -> None:
            opened.append(self)

        def close(self) -> None:
            closed.append(self)

    def run(self: ChunkDrain, todo: Slice, chunk: Chunk) -> SliceResult:
        assert self.parts is bench.drain
        return SliceResult(todo.table, None, chunk=chunk.id)

    monkeypatch.setattr(worker, "Connection", Noted)
    monkeypatch.setattr(ChunkDrain, "run", run)
    bench = worker.Worker(WorkerSettings.of(settings("Persons")), (tmp_path / "stopping").exists)._take()
    assert len(opened) == 2
    at = LogPosition.end_of(lsn(1))
    chunk = Chunk("a", BaseTable(instance(), ("ID",), 1), 3, 10)
    one = Slice(PERSONS, instance(), at, at, 1, 2, 1.0, chunk=chunk)
    assert [bench.run(one).chunk, bench.run(one).chunk] == [("a", 3), ("a", 3)]
    assert len(opened) == 4
    bench.close()
    for thread in [thread for thread in threading.enumerate() if thread.name.startswith(("rows-ahead", "read-ahead"))]:
        thread.join(10)
    assert set(closed) == set(opened)


class _Recording:
    def __init__(self) -> None:
        self.asked: list[str] = []

    def load(self, table: object, epoch: int, source: object = None) -> None:
        self.asked.append("load")

    def commit(self, table: object, epoch: int, *, seen: object, position: object) -> None:
        self.asked.append("commit")


def test_offsets_have_a_connection_of_their_own_only_while_the_source_reads_ahead() -> None:
    beside, own, busy = _Recording(), _Recording(), False
    offsets = worker.OffsetsBeside(beside, own, lambda: busy)
    offsets.load(PERSONS, 1)
    busy = True
    offsets.commit(PERSONS, 1, seen=None, position=position(1))
    busy = False
    offsets.commit(PERSONS, 1, seen=None, position=position(2))
    assert (beside.asked, own.asked) == (["load", "commit"], ["commit"])


class _Telling:
    """A driver within reach, or out of it."""

    def __init__(self, *, reached: bool) -> None:
        self.reached, self.told = reached, 0
        self.host, self.port, self.elsewhere = "driver", 1, False

    def tell(self, result: object) -> bool:
        self.told += 1
        if not self.reached:
            raise TimeoutError("no answer")
        return True


@pytest.mark.parametrize(("reached", "told"), [(True, 6), (False, 1)])
def test_all_but_the_last_result_are_told_early_and_a_driver_out_of_reach_is_tried_once_for_all_bundles(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, reached: bool, told: int
) -> None:
    staff = worker.Worker(WorkerSettings.of(settings("Persons")), (tmp_path / "stopping").exists)
    monkeypatch.setattr(staff, "_run", lambda todo, begun: SliceResult(todo, None))
    driver: Any = _Telling(reached=reached)
    bundle: Any = [PERSONS, ORDERS, PERSONS, ORDERS]
    first, second = staff.run(bundle, driver), staff.run(bundle, driver)
    assert (len(first), len(second), driver.told) == (4, 4, told)
    said = [result.unreached for result in (*first, *second) if result.unreached is not None]
    assert [why.partition(" cannot ")[2] for why in said] == ([] if reached else ["reach driver:1: no answer"])


def todo(part: Part | None = None) -> Slice:
    ends = LogPosition.before(lsn(1)), LogPosition.end_of(lsn(1))
    return Slice(PERSONS, instance(), *ends, 1, 2, 1.0, lease_seconds=0.5, part=part)


class _Elsewhere(_Telling):
    """A driver on another machine, that gives slices this time as they begin; None: they must not."""

    def __init__(self, lease_seconds: float | None, *, stopping: bool = False) -> None:
        super().__init__(reached=True)
        self.elsewhere, self.lease_seconds, self.stopping = True, lease_seconds, stopping

    def begin(self, bundle: Sequence[Slice]) -> list[Slice] | None:
        seconds = self.lease_seconds
        return None if seconds is None else [replace(one, lease_seconds=seconds) for one in bundle]

    def stops(self) -> bool:
        return self.stopping


def test_slices_that_waited_for_an_executor_have_the_time_that_they_have_as_they_begin_less_what_passes_until_then(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    now = 0.0
    staff = worker.Worker(
        WorkerSettings.of(settings("Persons")), (tmp_path / "stopping").exists, clock=lambda: SteadyTime(now)
    )
    driver: Any = _Elsewhere(30.0)
    given: list[float | None] = []

    def drained(one: Slice) -> SliceResult:
        nonlocal now
        given.append(one.lease_seconds)
        now += 4.0
        return SliceResult(one.table, None)

    monkeypatch.setattr(staff, "_drained", drained)
    staff._threads = ThreadPoolExecutor(1)
    staff.run([todo()], driver)
    staff.run([todo(), todo()], driver)
    assert given == [30.0, 30.0, 26.0]


def test_slices_that_come_to_a_worker_as_the_driver_stops_are_not_begun_and_a_part_does_not_count_as_read(
    tmp_path: Path,
) -> None:
    staff = worker.Worker(WorkerSettings.of(settings("Persons")), (tmp_path / "stopping").exists)
    staff._drained = lambda todo: pytest.fail("it began")  # type: ignore[method-assign]
    driver: Any = _Elsewhere(None)
    whole, part = staff.run([todo(), todo(Part(1, 0, 2, ("ID",), 9))], driver)
    assert (whole.more, whole.trouble) == (True, None)
    assert part.trouble is Trouble.EXPIRED


def test_a_single_slice_elsewhere_hears_of_a_stop(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    staff = worker.Worker(WorkerSettings.of(settings("Persons")), (tmp_path / "stopping").exists)
    driver: Any = _Elsewhere(30.0, stopping=True)

    def drained(one: Slice) -> SliceResult:
        deadline = time.monotonic() + 60
        while not staff._stops():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        return SliceResult(one.table, None)

    monkeypatch.setattr(staff, "_drained", drained)
    assert staff.run([todo()], driver)[0].trouble is None


class _OutOfReach(_Elsewhere):
    """A driver on another machine that does not answer."""

    def __init__(self) -> None:
        super().__init__(30.0)

    def begin(self, bundle: Sequence[Slice]) -> list[Slice] | None:
        raise TimeoutError("no answer")


@pytest.mark.parametrize(("waited", "begins"), [(BEGIN_SECONDS - 30, True), (BEGIN_SECONDS + 30, False)])
def test_a_slice_that_waited_long_begins_only_if_the_driver_can_be_asked_for_its_shape(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, waited: float, begins: bool
) -> None:
    staff = worker.Worker(WorkerSettings.of(settings("Persons")), (tmp_path / "stopping").exists)
    begun: list[Slice] = []

    def drained(one: Slice) -> SliceResult:
        begun.append(one)
        return SliceResult(one.table, None)

    monkeypatch.setattr(staff, "_drained", drained)
    one = replace(todo(), sent_at=UnixTime(time.time() - waited))
    asked: Any = _Elsewhere(30.0)
    staff.run([one], asked)
    assert len(begun) == 1
    out: Any = _OutOfReach()
    [result] = staff.run([one], out)
    assert len(begun) == (2 if begins else 1)
    assert result.trouble is (None if begins else Trouble.TRANSIENT)
    if not begins:
        assert "got the slice 9" in result.message
        assert "shape" in result.message
        assert result.hint is not None
        assert result.clock is not None


def test_a_slice_that_waited_long_for_a_thread_of_its_worker_is_given_back(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its neighbours were slow; the driver hands it over again, with the shape that holds then."""
    now = 0.0
    staff = worker.Worker(
        WorkerSettings.of(settings("Persons")), (tmp_path / "stopping").exists, clock=lambda: SteadyTime(now)
    )
    begun: list[Slice] = []

    def drained(one: Slice) -> SliceResult:
        nonlocal now
        begun.append(one)
        now += BEGIN_SECONDS - 1
        return SliceResult(one.table, None)

    monkeypatch.setattr(staff, "_drained", drained)
    staff._threads = ThreadPoolExecutor(1)
    driver: Any = _Elsewhere(600.0)
    results = staff.run([replace(todo(), sent_at=UnixTime(time.time()))] * 3, driver)
    assert len(begun) == 2
    assert [(result.trouble, result.more) for result in results] == [(None, False), (None, False), (None, True)]


def test_the_first_task_of_an_executor_takes_over_the_drivers_variables_of_tracing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Those that the executor has itself hold."""
    seen: list[dict[str, str]] = []

    class Noted:
        def __init__(self, *_: object) -> None:
            seen.append({name: value for name, value in os.environ.items() if name.startswith("OTEL_")})

        def run(self, *_: object) -> list[SliceResult]:
            return []

    for name in [name for name in os.environ if name.startswith("OTEL_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("OTEL_SERVICE_NAME", "own")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "restored at the end")
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_ENDPOINT")
    monkeypatch.setattr(worker, "Worker", Noted)
    monkeypatch.setattr(worker, "_worker", None)
    given = (("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318"), ("OTEL_SERVICE_NAME", "the driver's"))
    worker.run_bundle(replace(WorkerSettings.of(settings("Persons")), tracing=given), [], tmp_path / "stopping", None)
    assert seen == [{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318", "OTEL_SERVICE_NAME": "own"}]


def test_chunks_are_read_as_spans_where_a_bench_makes_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spans = cast(Spans, object())
    monkeypatch.setattr(worker, "spans_of", lambda service: spans)
    bench = worker.Worker(WorkerSettings.of(settings("Persons")), (tmp_path / "stopping").exists)._take()
    chunks = bench.open_chunks(bench.drain, bench.pages)
    assert isinstance(chunks.drain.reader, TracedChunks)
    chunks.close()
    bench.close()
