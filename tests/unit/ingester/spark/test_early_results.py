"""What a listener takes for a result, and what a worker does that cannot reach it."""

from __future__ import annotations

import pickle
import socket
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace

import pytest

from common.clock import SteadyTime
from ingester.slices import SliceResult
from ingester.spark import early_results
from ingester.spark.early_results import Driver, EarlyResults, Reach
from tests.fakes.ingester import ORDERS, PERSONS


def address(early: EarlyResults) -> tuple[str, int]:
    return "127.0.0.1", early.open(0, lambda result: None).port


@contextmanager
def listening() -> Iterator[EarlyResults]:
    with closing(EarlyResults("127.0.0.1", "127.0.0.1")) as early:
        yield early


def test_a_result_arrives_while_its_bundle_is_open_and_not_afterwards() -> None:
    with listening() as early:
        heard: list[SliceResult] = []
        driver = early.open(7, heard.append)
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
        driver = early.open(7, heard.append)
        with pytest.raises(OSError, match="hung up without an answer"):
            replace(driver, key=b"another").tell(SliceResult(PERSONS, None))
        assert early.take(b"x" * 32 + pickle.dumps(Bomb())) == b""
        assert early.take(b"") == b""
        assert heard == []


def nobody() -> Driver:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return Driver("127.0.0.1", probe.getsockname()[1], b"key", 1)


def test_a_driver_that_cannot_be_reached_is_left_alone_for_minutes_and_told_of_once() -> None:
    now = 0.0
    reach = Reach(lambda: SteadyTime(now))
    reach.tell(nobody(), SliceResult(PERSONS, None))
    news = reach.news()
    assert news is not None
    assert "cannot reach 127.0.0.1:" in news
    assert reach.news() is None
    with listening() as early:
        heard: list[SliceResult] = []
        driver = early.open(7, heard.append)
        now = 299.0
        reach.tell(driver, SliceResult(PERSONS, None))
        assert heard == []
        now = 300.0
        reach.tell(driver, SliceResult(PERSONS, None))
        assert heard == [SliceResult(PERSONS, None)]
    assert reach.news() is None


def test_a_bundle_that_is_over_does_not_count_as_a_driver_out_of_reach() -> None:
    reach = Reach(lambda: SteadyTime(0.0))
    with listening() as early:
        heard: list[SliceResult] = []
        late, driver = early.open(6, heard.append), early.open(7, heard.append)
        early.done(6)
        reach.tell(late, SliceResult(PERSONS, None))
        reach.tell(driver, SliceResult(ORDERS, None))
        assert heard == [SliceResult(ORDERS, None)]


def test_a_driver_that_does_not_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(early_results, "_SECONDS", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as mute, pytest.raises(TimeoutError):
        Driver("127.0.0.1", mute.getsockname()[1], b"key", 1).tell(SliceResult(PERSONS, None))


def test_a_frame_that_comes_in_drips_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each drip is sooner than the whole frame must be."""
    monkeypatch.setattr(early_results, "_SECONDS", 0.2)
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
    monkeypatch.setattr(early_results, "_SECONDS", 60.0)
    monkeypatch.setattr(early_results, "_AT_ONCE", 2)
    with listening() as early:
        heard: list[SliceResult] = []
        driver = early.open(7, heard.append)
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
    with closing(EarlyResults("127.0.0.1", "127.0.0.1", port)) as early:
        assert early.open(1, lambda result: None).port == port


def test_the_key_is_in_no_repr() -> None:
    assert "sesame" not in repr(Driver("h", 1, b"sesame", 1))
