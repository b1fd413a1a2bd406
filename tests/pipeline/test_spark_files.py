"""What Spark leaves among the temporary files, however its driver or its JVM ends: nothing beside the ingester's own folder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

_OLD = (1_000_000_000, 1_000_000_000)

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="finds processes in /proc")


@pytest.fixture
def short() -> Iterator[Path]:
    """A folder for temporary files into whose paths a socket's fits, as /tmp."""
    with tempfile.TemporaryDirectory(prefix="left-", dir="/tmp") as folder:
        yield Path(folder)


def held(folder: Path) -> subprocess.Popen[str]:
    """Spark runs, and keeps its temporary files there."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.worlds.spark_held"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(folder)},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ran\n"
    return process


def jvm(folder: Path) -> int | None:
    """The JVM that works there."""
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            said = (entry / "cmdline").read_bytes() if entry.name.isdigit() else b""
            if b"SparkSubmit" in said and f"{folder}/dstream-spark-".encode() in said:
                return int(entry.name)
    return None


def foreign(folder: Path) -> list[str]:
    """What lies there beside Spark's own folder."""
    return [each.name for each in folder.iterdir() if not each.name.startswith("dstream-spark-")]


def test_what_a_killed_ingester_leaves_is_removed_by_a_later_one(short: Path) -> None:
    with held(short) as killed:
        assert foreign(short) == []
        killed.kill()
    deadline = time.monotonic() + 60
    while jvm(short) is not None:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert foreign(short) == []
    [left] = short.iterdir()
    os.utime(left / "owner", _OLD)
    with held(short) as later:
        later.communicate("end\n", timeout=60)
    assert list(short.iterdir()) == []


def test_a_killed_jvm_leaves_nothing_once_its_ingester_has_ended(short: Path) -> None:
    with held(short) as process:
        pid = jvm(short)
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        process.communicate("end\n", timeout=60)
    assert list(short.iterdir()) == []
