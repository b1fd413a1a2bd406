"""What Spark carries can be read and made only by those who have the ingester's key."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from ingester.history.snapshot import ChunkDone
from ingester.slices import Slice, SliceResult
from ingester.spark.driver_line import Driver
from ingester.spark.seal import VARIABLE, Seal, Unsealed
from ingester.spark.worker_side import run_sealed
from ingester.sqlserver.position import LogPosition
from tests.fakes.ingester import PERSONS, instance, lsn

TODO = Slice(PERSONS, instance(), LogPosition.before(lsn(1)), LogPosition.end_of(lsn(1)), epoch=1, rows=2, seconds=1)
KEY = Seal.new_key()


def test_what_was_sealed_is_opened_with_the_same_key_and_shows_nothing_meanwhile() -> None:
    sealed = Seal(KEY).closed([ChunkDone(upto=("Email=ada@example.org",))])
    assert b"ada" not in sealed
    assert Seal(KEY).opened(sealed) == [ChunkDone(upto=("Email=ada@example.org",))]
    assert KEY.decode() not in repr(Seal(KEY))


class Bomb:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return exec, ("raise SystemExit",)


@pytest.mark.parametrize(
    "foreign",
    [
        b"",
        b"garbage",
        pickle.dumps(Bomb()),
        Seal(Seal.new_key()).closed(Bomb()),
        Seal(KEY).closed("changed")[:-8] + b"AAAAAAA=",
    ],
)
def test_nothing_is_loaded_that_was_sealed_with_another_key_or_changed(foreign: bytes) -> None:
    with pytest.raises(Unsealed, match="sealed with another key, or was changed"):
        Seal(KEY).opened(foreign)


def task(bundle: Sequence[Slice], stopping: Path, driver: Driver | None) -> Sequence[SliceResult]:
    return [SliceResult(one.table, None, message=f"{stopping} {driver is None}") for one in bundle]


work = partial(run_sealed, task, Path("/stop"))


def test_a_bundle_and_its_results_are_sealed(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = [SliceResult(PERSONS, None, message="/stop True")] * 2
    bundle = Seal(KEY).closed(([TODO, replace(TODO, epoch=2)], None))
    [results] = work(KEY, [bundle])
    assert Seal(KEY).opened(results) == expected
    monkeypatch.setenv(VARIABLE, KEY.decode())
    [results] = work(None, [bundle])
    assert Seal(KEY).opened(results) == expected


def test_a_worker_says_what_is_wrong_with_its_bundle_or_its_key(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RuntimeError, match="opening what Spark carried: it was sealed with another key"):
        work(KEY, [Seal(Seal.new_key()).closed(([TODO], None))])
    monkeypatch.delenv(VARIABLE, raising=False)
    with pytest.raises(RuntimeError, match="DSTREAM_SEAL is not in the worker's environment"):
        work(None, [b""])
