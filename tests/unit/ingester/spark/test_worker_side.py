"""What a worker says whose machine lacks DStream or has another version of it. PySpark sends functions with its own cloudpickle."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from importlib import metadata
from pathlib import Path

import py4j
import pyspark
import pytest
from pyspark import cloudpickle

from ingester.spark.reasons import hint_for
from ingester.spark.worker_side import PACKAGE, checked


def double(items: Iterable[int]) -> Iterator[int]:
    return (2 * item for item in items)


VERSION = metadata.version(PACKAGE)
dumps: Callable[[object], bytes] = cloudpickle.dumps


def test_work_runs_where_the_version_is_the_drivers() -> None:
    assert list(checked(dumps(double), VERSION)([1, 2])) == [2, 4]


def test_another_version_is_named_with_its_machine_before_anything_of_the_task_is_loaded() -> None:
    with pytest.raises(RuntimeError) as raised:
        checked(b"not even a pickle", "9.9.9")([1])
    assert str(raised.value) == f"{PACKAGE} on {socket.gethostname()} is {VERSION}, and the driver's is 9.9.9"
    assert "the driver's version" in (hint_for(str(raised.value)) or "")


def test_where_dstream_is_missing_the_task_says_so_and_imports_nothing_of_it(tmp_path: Path) -> None:
    """In a Python that has PySpark and nothing else, as on a machine where nobody installed DStream."""
    task = tmp_path / "task"
    task.write_bytes(dumps(checked(dumps(double), VERSION)))
    for package in (Path(pyspark.__file__).parent, Path(py4j.__file__).parent):
        (tmp_path / package.name).symlink_to(package)
    ran = subprocess.run(
        [sys.executable, "-S", "-c", f"import pickle; pickle.load(open({str(task)!r}, 'rb'))([1])"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        timeout=60,
    )
    said = ran.stderr.splitlines()[-1]
    assert said == f"RuntimeError: {PACKAGE} is not installed in {sys.executable} on {socket.gethostname()}"
    assert "the driver's version" in (hint_for(said) or "")
