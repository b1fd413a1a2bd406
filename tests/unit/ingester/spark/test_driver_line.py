"""What a listener takes for a result, and what a worker does that cannot reach it."""

from __future__ import annotations

import pickle
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace

import pytest

from common.clock import SteadyTime, UnixTime
from ingester.driver.dispatch import BUNDLE_SIZE
from ingester.shape.mask import mask_of
from ingester.shape.table_shape import AS_CAPTURED, TableShape
from ingester.slices import Slice, SliceResult
from ingester.spark import driver_line
from ingester.spark.driver_line import Driver, DriverLine
from ingester.spark.reach import Reach
from ingester.spark.seal import Seal
from ingester.sqlserver.position import LogPosition
from tests.fakes.ingester import ORDERS, PERSONS, instance, lsn
from tests.worlds.ports import free_port


def nothing() -> None:
    """Such a bundle may not begin."""


def address(early: DriverLine) -> tuple[str, int]:
    return "127.0.0.1", early.open(0, lambda result: None, nothing).port


@contextmanager
def listening() -> Iterator[DriverLine]:
    with closing(DriverLine("127.0.0.1", "127.0.0.1")) as early:
        yield early


def test_a_result_arrives_while_its_bundle_is_open_and_not_afterwards() -> None:
    with listening() as early:
        heard: list[SliceResult] = []
        driver = early.open(7, heard.append, nothing)
        assert driver.tell(SliceResult(PERSONS, None, changes=3))
        early.done(7)
        assert not driver.tell(SliceResult(ORDERS, None))
        assert heard == [SliceResult(PERSONS, None, changes=3)]


def test_whoever_has_not_the_key_is_not_heard_and_nothing_of_it_is_loaded() -> None:
    class Bomb:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return exec, ("raise SystemExit",)

    with listening() as early:
        heard: list[SliceResult] = []
        driver = early.open(7, heard.append, nothing)
        with pytest.raises(OSError, match="hung up without an answer"):
            replace(driver, key=Seal.new_key()).tell(SliceResult(PERSONS, None))
        with pytest.raises(OSError, match="hung up without an answer"):
            replace(driver, key=Seal.new_key()).stops()
        assert early.take(pickle.dumps(Bomb())) == b""
        assert early.take(Seal(Seal.new_key()).closed(Bomb())) == b""
        assert early.take(b"") == b""
        assert heard == []


def nobody() -> Driver:
    return Driver("127.0.0.1", free_port(), Seal.new_key(), 1)


def test_a_driver_that_cannot_be_reached_is_left_alone_for_a_minute_and_told_of_once() -> None:
    now = 0.0
    reach = Reach(lambda: SteadyTime(now))
    reach.tell(nobody(), SliceResult(PERSONS, None))
    news = reach.news()
    assert news is not None
    assert "cannot reach 127.0.0.1:" in news
    assert reach.news() is None
    with listening() as early:
        heard: list[SliceResult] = []
        driver = early.open(7, heard.append, nothing)
        now = 59.0
        reach.tell(driver, SliceResult(PERSONS, None))
        assert heard == []
        now = 60.0
        reach.tell(driver, SliceResult(PERSONS, None))
        assert heard == [SliceResult(PERSONS, None)]
    assert reach.news() is None


def test_a_bundle_that_is_over_does_not_count_as_a_driver_out_of_reach() -> None:
    reach = Reach(lambda: SteadyTime(0.0))
    with listening() as early:
        heard: list[SliceResult] = []
        late, driver = early.open(6, heard.append, nothing), early.open(7, heard.append, nothing)
        early.done(6)
        reach.tell(late, SliceResult(PERSONS, None))
        reach.tell(driver, SliceResult(ORDERS, None))
        assert heard == [SliceResult(ORDERS, None)]


def test_a_driver_that_does_not_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_line, "_SECONDS", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as mute, pytest.raises(TimeoutError):
        Driver("127.0.0.1", mute.getsockname()[1], Seal.new_key(), 1).tell(SliceResult(PERSONS, None))


def test_a_frame_that_comes_in_drips_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each drip is sooner than the whole frame must be."""
    monkeypatch.setattr(driver_line, "_SECONDS", 0.2)
    with listening() as early, closing(socket.create_connection(address(early))) as way:
        way.settimeout(0.05)
        for _ in range(1200):  # a minute
            with suppress(TimeoutError):
                try:
                    way.sendall(b".")
                    if way.recv(1) == b"":
                        return
                except ConnectionError:
                    return
        raise AssertionError("it is still listened to")


def test_no_more_are_listened_to_than_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_line, "_SECONDS", 60.0)
    monkeypatch.setattr(driver_line, "_AT_ONCE", 2)
    with listening() as early:
        heard: list[SliceResult] = []
        driver = early.open(7, heard.append, nothing)
        mute = [socket.create_connection(address(early)) for _ in range(2)]
        try:
            with pytest.raises(OSError):
                driver.tell(SliceResult(PERSONS, None))
        finally:
            for way in mute:
                way.close()
        deadline = time.monotonic() + 60
        while not heard:
            assert time.monotonic() < deadline
            with suppress(OSError):
                driver.tell(SliceResult(PERSONS, None))


def test_it_listens_where_it_is_told_to() -> None:
    port = nobody().port
    with closing(DriverLine("127.0.0.1", "127.0.0.1", port)) as early:
        assert early.open(1, lambda result: None, nothing).port == port


def test_the_key_is_in_no_repr() -> None:
    assert "sesame" not in repr(Driver("h", 1, b"sesame", 1))


TODO = Slice(PERSONS, instance(), LogPosition.before(lsn(1)), LogPosition.end_of(lsn(1)), epoch=1, rows=2, seconds=1)


def test_a_worker_gets_the_time_that_its_slices_have_as_it_begins() -> None:
    sent = [TODO, replace(TODO, table=ORDERS)]
    now = [replace(todo, sent_at=UnixTime(70.0), send_before=UnixTime(100.0), lease_seconds=30.0) for todo in sent]
    with listening() as line:
        driver = line.open(7, lambda result: None, lambda: now)
        assert driver.begin(sent) == now
        assert replace(driver, bundle=8).begin(sent) is None, "it is not known, or over"
        line.stop()
        assert driver.begin(sent) is None


def test_a_worker_gets_the_shape_that_holds_as_it_begins() -> None:
    masked = replace(TODO, shape=TableShape(masks=(("Email", mask_of("hash:SHA-256:salt")),)))
    with listening() as line:
        driver = line.open(7, lambda result: None, lambda: [masked])
        assert driver.begin([TODO]) == [masked]
        back = line.open(8, lambda result: None, lambda: [TODO])
        assert back.begin([masked]) == [TODO]


def test_the_shapes_of_a_whole_bundle_of_wide_tables_fit_into_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the worker would take the driver for one out of reach."""
    monkeypatch.setattr(driver_line, "_SECONDS", 60.0)
    salted = [mask_of(f"hash:SHA-256:{n} " + "salt" * 10) for n in range(BUNDLE_SIZE)]
    shaped = [
        replace(TODO, shape=TableShape(masks=tuple((f"Column {n} of table {table}", mask) for n in range(700))))
        for table, mask in enumerate(salted)
    ]
    assert len(pickle.dumps([todo.shape for todo in shaped])) > 1 << 20
    with listening() as line:
        driver = line.open(7, lambda result: None, lambda: shaped)
        assert driver.begin([replace(todo, shape=AS_CAPTURED) for todo in shaped]) == shaped


def test_leases_that_cannot_run_out_stay_so_over_the_line() -> None:
    with listening() as line:
        assert line.open(7, lambda result: None, lambda: [TODO]).begin([replace(TODO, lease_seconds=1.0)]) == [TODO]


def everything(way: socket.socket) -> bytes:
    return b"".join(iter(lambda: way.recv(65536), b""))


class Mirror:
    """Answers each request with what the driver answered to an earlier one, as who cannot sign but has listened could."""

    def __init__(self, driver: Driver) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self._driver = driver
        self.port = self._server.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        recorded: bytes | None = None
        for _ in range(2):
            way, _ = self._server.accept()
            frame = everything(way)
            if recorded is None:
                with socket.create_connection((self._driver.host, self._driver.port)) as on:
                    on.sendall(frame)
                    on.shutdown(socket.SHUT_WR)
                    recorded = everything(on)
            way.sendall(recorded)
            way.close()
        self._server.close()


def test_an_answer_is_good_for_its_own_question_only() -> None:
    """A lease's time that was recorded earlier would be longer than what is left."""
    with listening() as line:
        driver = line.open(7, lambda result: None, lambda: [replace(TODO, lease_seconds=30.0)])
        through = replace(driver, port=Mirror(driver).port)
        assert through.begin([TODO]) == [replace(TODO, lease_seconds=30.0)]
        with pytest.raises(OSError, match="is not the driver"):
            through.begin([TODO])


def test_workers_hear_of_a_stop_while_their_slices_run() -> None:
    reach = Reach()
    with listening() as line:
        driver = line.open(7, lambda result: None, nothing)
        with reach.listening(driver), reach.listening(driver):
            line.stop()
            deadline = time.monotonic() + 60
            while not reach.stopping:
                assert time.monotonic() < deadline
                time.sleep(0.01)


def test_a_driver_that_is_gone_stops_nobody_and_slices_keep_the_time_that_they_came_with() -> None:
    reach = Reach()
    with reach.listening(nobody()):
        bundle = [TODO]
        assert reach.begin(nobody(), bundle) is bundle, "so the worker knows that nobody has confirmed it"
        time.sleep(0.1)
    assert not reach.stopping
