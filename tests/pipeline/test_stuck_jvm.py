"""A JVM that is stopped by the kernel and answers nothing: the ingester still ends in time when it is asked to."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from dstream.demo.processes import environment, write_config
from dstream.demo.schema import create
from dstream.emulators import Emulators
from tests.worlds.standalone import children
from tests.worlds.world import SPARK_UP, wait_until


def _program(pid: int) -> bytes:
    with suppress(OSError):  # it has just ended, as the process for the first slices
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0]
    return b""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="finds the JVM in /proc")
@pytest.mark.timeout(240)
def test_a_stop_does_not_wait_for_a_jvm_that_hangs(tmp_path: Path) -> None:
    log = tmp_path / "ingester.log"
    with Emulators(database="demo", capture_interval=0.5) as emulators:
        create(emulators.login)
        config = write_config(tmp_path, emulators, "500ms", tasks=2)
        with log.open("wb") as out:
            process = subprocess.Popen(
                [sys.executable, "-m", "dstream", "ingester", "--config", str(config)],
                stdout=out,
                stderr=out,
                env={**os.environ, **environment(emulators)},
            )
        try:
            wait_until(lambda: SPARK_UP in log.read_text() or process.poll() is not None, "Spark has started")
            assert process.poll() is None, log.read_text()
            [jvm] = [pid for pid in children(process.pid) if _program(pid).endswith(b"java")]
            os.kill(jvm, signal.SIGSTOP)
            process.terminate()
            assert process.wait(100) == 0, log.read_text()  # 20 s, on a machine that has the time
            assert not Path(f"/proc/{jvm}").exists()
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()
