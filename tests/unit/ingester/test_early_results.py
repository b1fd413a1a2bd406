"""What a listener takes for a result, and what a worker does that cannot reach it."""

from __future__ import annotations

import pickle
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace

from ingester.early_results import Driver, EarlyResults
from ingester.slices import SliceResult
from tests.fakes.ingester import ORDERS, PERSONS


@contextmanager
def listening() -> Iterator[EarlyResults]:
    with closing(EarlyResults("127.0.0.1", "127.0.0.1")) as early:
        yield early


def test_a_result_arrives_while_its_bucket_is_open_and_not_afterwards() -> None:
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
        assert not replace(driver, key=b"another").tell(SliceResult(PERSONS, None))
        assert not early.take(b"x" * 32 + pickle.dumps(Bomb()))
        assert not early.take(b"")
        assert heard == []


def test_a_driver_that_cannot_be_reached_is_said_and_raises_nothing() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    assert not Driver("127.0.0.1", port, b"key", 1).tell(SliceResult(PERSONS, None))


def test_the_key_is_in_no_repr() -> None:
    assert "sesame" not in repr(Driver("h", 1, b"sesame", 1))
