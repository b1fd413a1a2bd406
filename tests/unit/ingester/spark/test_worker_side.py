"""What a worker says whose machine lacks DStream or has another version of it. PySpark sends functions with its own cloudpickle."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import py4j
import pyspark
import pytest
from pyspark import cloudpickle

from ingester.spark.reasons import hint_for
from ingester.spark.worker_side import PACKAGE, build_of, checked


def double(items: Iterable[int]) -> Iterator[int]:
    return (2 * item for item in items)


BUILD = build_of()
dumps: Callable[[object], bytes] = cloudpickle.dumps


def test_work_runs_where_the_version_is_the_drivers() -> None:
    assert list(checked(dumps(double), BUILD)([1, 2])) == [2, 4]


def test_another_version_is_named_with_its_machine_before_anything_of_the_task_is_loaded() -> None:
    with pytest.raises(RuntimeError) as raised:
        checked(b"not even a pickle", "9.9.9")([1])
    assert str(raised.value) == f"{PACKAGE} on {socket.gethostname()} is {BUILD}, and the driver's is 9.9.9"
    assert "the driver's version" in (hint_for(str(raised.value), local=False) or "")


def installed(folder: Path, *sources: str) -> None:
    """A package of version 1.0 whose record names `sources` with their hashes."""
    info = folder / "twice_built-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: twice-built\nVersion: 1.0\n")
    (info / "RECORD").write_text(
        "\n".join(("../../bin/tool,sha256=x,1", "twice_built-1.0.dist-info/RECORD,,", *sources))
    )


def test_another_build_of_the_same_version_is_refused_as_another_version_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = ("common/a.py,sha256=aaa,1", "ingester/b.py,sha256=bbb,2"), "ingester/b.py,sha256=ccc,2"
    installed(tmp_path / "driver", *one)
    installed(tmp_path / "same", *reversed(one))
    installed(tmp_path / "older", one[0], other)
    with monkeypatch.context() as driver:
        driver.syspath_prepend(tmp_path / "driver")
        build = build_of("twice-built")
        work = checked(dumps(double), build, "twice-built")
    monkeypatch.syspath_prepend(tmp_path / "same")
    assert list(work([1])) == [2]
    monkeypatch.syspath_prepend(tmp_path / "older")
    with pytest.raises(RuntimeError) as raised:
        checked(b"not even a pickle", build, "twice-built")([1])
    assert str(raised.value) == (
        f"twice-built on {socket.gethostname()} is {build_of('twice-built')}, and the driver's is {build}"
    )
    assert build != build_of("twice-built")
    assert build.startswith("1.0 (build ")


def test_a_build_that_lacks_what_the_task_names_says_so_where_no_record_tells_builds_apart() -> None:
    """As in sources that are used where they are edited."""
    lacking = dumps(double).replace(b"double", b"duoble")
    assert b"duoble" in lacking
    with pytest.raises(RuntimeError) as raised:
        checked(lacking, BUILD)([1])
    said = str(raised.value)
    assert said.startswith(
        f"{PACKAGE} on {socket.gethostname()} is another build of {BUILD}, and the driver's is needed: "
    )
    assert "the driver's version" in (hint_for(said, local=False) or "")


def test_where_dstream_is_missing_the_task_says_so_and_imports_nothing_of_it(tmp_path: Path) -> None:
    """In a Python that has PySpark and nothing else, as on a machine where nobody installed DStream."""
    task = tmp_path / "task"
    task.write_bytes(dumps(checked(dumps(double), BUILD)))
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
    assert "the driver's version" in (hint_for(said, local=False) or "")
