"""Starts of Spark that cannot work: each ends by itself, soon, and says why and what to do."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from ingester.spark.conf import spark_settings
from ingester.spark.java import java_home
from ingester.spark.jvm import spark_home
from ingester.spark.kept import archive
from ingester.spark.launch import class_path, java_options
from tests.worlds.standalone import Cluster


def started(master: str, variables: Mapping[str, str] = {}, *, seconds: int = 60, settings: Sequence[str] = ()) -> str:
    """What a start of Spark says."""
    ran = subprocess.run(
        [sys.executable, "-m", "tests.worlds.spark_alone", master, str(seconds), *settings],
        capture_output=True,
        text=True,
        env={**os.environ, **variables},
        timeout=170,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def java(folder: Path, does: str) -> str:
    """A JAVA_HOME whose Java says it is one, and then does something else."""
    script = folder / "bin" / "java"
    script.parent.mkdir()
    script.write_text(
        f'#!/bin/bash\n[ "$1" = -version ] && {{ echo \'openjdk version "21.0.1"\' >&2; exit 0; }}\n{does}\n'
    )
    script.chmod(0o755)
    return str(folder)


def test_a_master_without_workers_is_given_up_in_time(tmp_path: Path) -> None:
    with Cluster(tmp_path) as cluster:
        said = started(cluster.master, seconds=60)
    assert f"failed: starting Spark with master '{cluster.master}': no task has run after 60 s: " in said
    assert "has not accepted any resources" in said
    assert "waiting for Spark's first executor" in said
    assert said.endswith("closed\n")


def test_a_master_without_workers_is_named_even_before_spark_speaks_of_it(tmp_path: Path) -> None:
    """It does so 15 s after the first job, and a start on a slow machine may have less left by then."""
    with Cluster(tmp_path) as cluster:
        said = started(cluster.master, seconds=40, settings=["spark.starvation.timeout=600s"])
    assert "no executor has run the first one" in said


def test_a_java_that_ends_with_status_0_is_not_waited_for(tmp_path: Path) -> None:
    said = started("local[2]", {"JAVA_HOME": java(tmp_path, "exit 0")})
    assert "failed: starting Spark: its JVM ended with status" in said
    assert f"check {tmp_path}/bin/java, which JAVA_HOME or the path names" in said


def test_python_workers_take_no_module_from_where_the_ingester_was_started(tmp_path: Path) -> None:
    """They are started with `-m`, and have the connection strings in their environment."""
    (tmp_path / "start").mkdir()
    (tmp_path / "start" / "py4j.py").write_text(f"open('{tmp_path}/ran', 'w')")
    alone = "import sys; from tests.worlds import spark_alone; spark_alone.main('local[2]', '60')"
    ran = subprocess.run(
        [sys.executable, "-P", "-c", alone], cwd=tmp_path / "start", capture_output=True, text=True, timeout=170
    )
    assert "ran: a task" in ran.stdout
    assert not (tmp_path / "ran").exists()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="finds processes in /proc")
def test_a_java_that_hangs_is_given_up_in_time_and_left_nowhere(tmp_path: Path) -> None:
    """Spark's scripts start it as a child of theirs."""
    said = started("local[2]", {"JAVA_HOME": java(tmp_path, f"echo $$ > {tmp_path}/pid; exec sleep 600")}, seconds=3)
    assert "no task has run after 3 s: the driver's JVM does not answer yet" in said
    assert said.endswith("closed\n")
    left = Path("/proc", (tmp_path / "pid").read_text().strip())
    deadline = time.monotonic() + 20
    while left.exists():  # whoever inherits it may take a moment to see its end
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("variable", "value", "says"),
    [
        ("PYSPARK_GATEWAY_PORT", "1", "without spark-submit"),
        ("SPARK_HOME", "/nowhere", "SPARK_HOME names /nowhere, which holds no Spark"),
    ],
)
def test_a_foreign_spark_is_refused(variable: str, value: str, says: str) -> None:
    said = started("local[2]", {variable: value})
    assert said.startswith("refused: ")
    assert says in said


def test_a_spark_of_another_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "spark-core_2.12-3.5.1.jar").touch()
    assert "holds Spark 3.5.1, and PySpark here is" in started("local[2]", {"SPARK_HOME": str(tmp_path)})


def kept(folder: Path, java: Path, content: bytes) -> dict[str, str]:
    """Variables that make a start find an archive of classes with this content."""
    home = spark_home()
    path = class_path(home, (jar.name for jar in (home / "jars").iterdir()))
    settings = spark_settings("local[2]", {}, local_dir=folder, log4j=folder / "log4j")
    kind = folder / "jvm" / archive.key(java, java_options(settings, path))
    kind.mkdir(parents=True, mode=0o755)
    (kind / archive.CLASSES).write_bytes(content)
    return {archive.VARIABLE: str(folder / "jvm")}


def real_java() -> Path:
    home = java_home()
    return Path(home, "bin", "java") if home is not None else Path(shutil.which("java") or "java")


def test_a_damaged_archive_of_classes_is_passed_over(tmp_path: Path) -> None:
    said = started("local[2]", kept(tmp_path, real_java(), b"no archive" * 1000))
    assert "ran: a task" in said
    assert "serves: False" in said  # so another one is made


def test_a_java_that_an_archive_ends_is_started_without_it(tmp_path: Path) -> None:
    """It crashes, for example, because the file lies on a disk with errors."""
    real = real_java()
    home = Path(java(tmp_path, f'grep -q SharedArchiveFile "${{1#@}}" 2>/dev/null && exit 134; exec {real} "$@"'))
    said = started("local[2]", {"JAVA_HOME": str(home), **kept(tmp_path, home / "bin" / "java", b"")})
    assert "starting Spark again, without its archive of classes" in said
    assert "ran: a task" in said
    assert "serves: False" in said


def test_a_folder_that_spark_cannot_write_to_is_named_before_java_is_started() -> None:
    said = started("local[2]", settings=["spark.local.dir=/proc/nope"])
    assert said.startswith("refused: Spark cannot write to /proc/nope: ")
    assert "set TMPDIR and spark.local.dir" in said


@pytest.mark.parametrize("name", ["t mp", "x" * 80])
def test_spark_works_in_the_folder_for_temporary_files_that_the_variable_names(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    said = started("local[2]", {"TMPDIR": str(tmp_path / name)})
    assert "ran: a task" in said
