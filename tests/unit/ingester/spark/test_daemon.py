"""Workers are forked from a process that has imported what tasks need, unless a fork of it might hang."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from ingester.spark.conf import spark_settings
from ingester.spark.forking import DAEMON
from ingester.spark.forking.daemon import without_archives
from ingester.worker_settings import PRELOAD, WorkerSettings
from tests.unit.ingester.driver.test_reload import settings

_ASKED = "import sys; from ingester.spark.forking.daemon import imported; print(imported(), 'ingester.worker' in sys.modules)"
_MODULES = "pyspark.worker ingester.worker common.servicebus.namespace"


def asked(module: str, folder: Path) -> str:
    """What a new process says: whether it may fork, and whether it has imported the tasks' module."""
    environment = {PRELOAD: module, "PYTHONPATH": f"{folder}:{Path(__file__).parents[4]}"}
    done = subprocess.run(
        [sys.executable, "-c", _ASKED], env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout.strip()


@pytest.mark.skipif(sys.platform != "linux", reason="threads of a process are counted on Linux alone")
def test_what_tasks_need_begins_no_thread(tmp_path: Path) -> None:
    assert asked(_MODULES, tmp_path) == "True True"


@pytest.mark.parametrize(
    "text",
    [
        "import threading, time; threading.Thread(target=time.sleep, args=(60,), daemon=True).start()",
        "print('no port'); import threading, time; threading.Thread(target=time.sleep, args=(60,), daemon=True).start()",
    ],
)
def test_after_a_thread_has_begun_nothing_is_forked(tmp_path: Path, text: str) -> None:
    (tmp_path / "threaded.py").write_text(text)
    assert asked("threaded", tmp_path) == "False False"


@pytest.mark.skipif(sys.platform != "linux", reason="threads of a process are counted on Linux alone")
def test_a_module_that_fails_is_left_to_the_workers_which_report_it(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("raise ImportError('planted')")
    assert asked("broken", tmp_path) == "True False"


def test_what_tasks_need_is_named(tmp_path: Path) -> None:
    named = WorkerSettings.of(settings("Persons")).environment()[PRELOAD]
    assert named == _MODULES


def test_spark_s_copies_of_its_packages_are_left_out_only_where_there_are_others(tmp_path: Path) -> None:
    archive, found = tmp_path / "pyspark.zip", [str(Path(pyspark.__file__).parents[1])]
    archive.write_bytes(b"")
    theirs = tmp_path / "their_modules.zip"
    theirs.write_bytes(b"")
    assert without_archives([str(archive), *found, str(theirs)]) == [*found, str(theirs)]
    assert without_archives([str(archive), str(tmp_path)]) == [str(archive), str(tmp_path)]


_FORKS = """
import sys, zipimport
from ingester.spark.forking import daemon
imported = daemon.imported
def found():
    assert imported()
    print([k for k, v in sys.path_importer_cache.items() if isinstance(v, zipimport.zipimporter)])
    sys.exit()
daemon.imported = found
daemon.main()
"""


def test_no_worker_reads_the_directories_of_archives(tmp_path: Path) -> None:
    """Python does so whenever Spark invalidates its caches, which is before a worker's first task."""
    package = Path(pyspark.__file__).parent
    archives = [*package.glob("python/lib/*.zip"), *package.glob("jars/spark-core*.jar")]
    path = ":".join(map(str, [*archives, Path(__file__).parents[4]]))
    environment = {"PYTHONPATH": path, PRELOAD: "pyspark.worker"}
    done = subprocess.run(
        [sys.executable, "-c", _FORKS], env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    assert len(archives) >= 3
    assert done.stdout == "[]\n"


def test_workers_of_another_machine_come_from_sparks_own(tmp_path: Path) -> None:
    local, cluster = (
        spark_settings(master, {"spark.authenticate.secret": "x" * 16}, local_dir=tmp_path, log4j=tmp_path)
        for master in ("local[2]", "spark://master:7077")
    )
    assert local["spark.python.daemon.module"] == DAEMON
    assert "spark.python.daemon.module" not in cluster
