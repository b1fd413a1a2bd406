"""What an executor says of the folder that Spark works in, and that its loss keeps no stop from going on. Starts no Spark."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from common.errors import PermanentError
from ingester.slices import Slice, SliceResult
from ingester.spark.conf import is_local
from ingester.spark.driver_line import Driver
from ingester.spark.executor import SparkExecutor
from ingester.spark.launched import Launched
from ingester.spark.scratch import Scratch
from ingester.spark.seal import Seal


def _nothing(bundle: Sequence[Slice], stopping: Path, driver: Driver | None) -> Sequence[SliceResult]:
    return []


@pytest.fixture
def scratch(tmp_path: Path) -> Iterator[Scratch]:
    made = Scratch(tmp_path)
    yield made
    made.close()


def executor(scratch: Scratch, master: str = "local[2]") -> SparkExecutor:
    launched: Any = SimpleNamespace(
        master=master,
        conf={},
        elsewhere=not is_local(master),
        scratch=scratch,
        key=Seal.new_key(),
        settings={},
        results_port=0,
        jvm=SimpleNamespace(alive=True, last_words=None),
    )
    return SparkExecutor(_nothing, cast(Launched, launched))


def test_a_folder_that_a_cleaner_removes_ends_the_ingester_with_the_remedy(
    scratch: Scratch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ingester.spark.scratch._LOST_SECONDS", 0.0)
    runs = executor(scratch)
    assert runs.check() is None
    shutil.rmtree(scratch.path)
    with pytest.raises(PermanentError) as lost:
        runs.check()
    everything = scratch.path.parent
    assert lost.value.args[0] == f"Spark's folder {scratch.path} is gone, or cannot be written"
    assert lost.value.hint == (
        f"restart the ingester, and keep cleaners of {everything} away from dstream-spark-*, "
        f"with systemd by the line `x {everything}/dstream-spark-*` in tmpfiles.d"
    )


def test_a_folder_that_is_gone_because_spark_ends_is_not_the_reason(scratch: Scratch) -> None:
    """Spark removes its own a moment before it is known that its context has stopped."""
    runs = executor(scratch)
    blocks = scratch.path / "blocks"
    scratch.watch([blocks])
    assert runs.check() is None
    runs._stopped = "the master has removed the application"
    with pytest.raises(PermanentError, match="its context has stopped: the master has removed the application"):
        runs.check()


def test_a_folder_that_the_settings_name_is_looked_at_too(
    scratch: Scratch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ingester.spark.scratch._LOST_SECONDS", 0.0)
    blocks = tmp_path / "disk" / "blocks"
    blocks.mkdir(parents=True)
    runs = executor(scratch)
    scratch.watch([blocks])
    assert runs.check() is None
    blocks.rmdir()
    with pytest.raises(PermanentError, match=f"{blocks} is gone") as lost:
        runs.check()
    assert f"the line `x {blocks.parent}/blocks`" in (lost.value.hint or "")


def test_a_stop_goes_on_without_the_folder(scratch: Scratch) -> None:
    runs = executor(scratch)
    runs.finish()
    assert (scratch.path / "stopping").exists()
    shutil.rmtree(scratch.path)
    runs.finish()


@pytest.mark.parametrize(("master", "hint"), [("local[2]", "--log-level debug"), ("yarn", "executors' logs")])
def test_what_fails_on_this_machine_names_no_logs_of_executors(scratch: Scratch, master: str, hint: str) -> None:
    runs = executor(scratch, master)
    for said in (runs._hint("java.nio.file.NoSuchFileException: /tmp/x"), runs._hint("the executor is odd")):
        assert hint in said
        assert ("executors' logs" in said) is (master == "yarn")
    assert ("cluster" in (runs._unstarted("odd").hint or "")) is (master == "yarn")
