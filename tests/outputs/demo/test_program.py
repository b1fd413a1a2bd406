"""A server that the demo started ends with it, however the demo ends."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from common.errors import ConfigurationError, PermanentError
from dstream.demo.destinations.program import Program, found

_WAIT = 60.0

_STARTER = """
import sys, time
from pathlib import Path
from dstream.demo.destinations.program import Program
program = Program("sleeper")
program.start(["sh", "-c", "echo $$ > started; exec sleep 1000"], (program.folder / "started").exists)
print(program.folder, flush=True)
time.sleep(1000)
"""


def _alive(pid: int) -> bool:
    """As a process that does something."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _ends(pid: int) -> bool:
    end = time.monotonic() + _WAIT
    while _alive(pid) and time.monotonic() < end:
        time.sleep(0.05)
    return not _alive(pid)


def _pid(folder: Path) -> int:
    end = time.monotonic() + _WAIT
    while not (text := (folder / "started").read_text().strip()) and time.monotonic() < end:
        time.sleep(0.05)
    return int(text)


def test_a_server_ends_when_who_started_it_is_killed(tmp_path: Path) -> None:
    starter = subprocess.Popen(
        [sys.executable, "-c", _STARTER],
        stdout=subprocess.PIPE,
        text=True,
        env={"PATH": "/usr/bin:/bin", "TMPDIR": str(tmp_path)},
    )
    assert starter.stdout is not None
    with starter.stdout:
        pid = _pid(Path(starter.stdout.readline().strip()))
    assert _alive(pid)
    starter.send_signal(signal.SIGKILL)
    starter.wait()
    assert _ends(pid)


def test_a_server_is_stopped_with_its_files() -> None:
    program = Program("sleeper")
    program.start(["sh", "-c", "echo $$ > started; exec sleep 1000"], (program.folder / "started").exists)
    pid = _pid(program.folder)
    assert not program.died()
    program.stop()
    assert _ends(pid)
    assert not program.folder.exists()


def test_a_server_that_ends_at_once_is_an_error_with_what_it_printed() -> None:
    program = Program("broken")
    with pytest.raises(PermanentError, match="starting broken: the port is taken"):
        program.start(["sh", "-c", "echo the port is taken; exit 3"], lambda: False)
    program.stop()


def test_a_preparation_that_fails_is_an_error_with_what_it_printed() -> None:
    program = Program("broken")
    with pytest.raises(PermanentError, match="preparing broken: no space left"):
        program.run(["sh", "-c", "echo no space left >&2; exit 3"])
    program.stop()


def test_a_program_that_is_missing_is_an_error_with_the_remedy() -> None:
    with pytest.raises(ConfigurationError) as caught:
        found("no-such-server", "install it")
    assert ("no-such-server" in str(caught.value), caught.value.hint) == (True, "install it")
