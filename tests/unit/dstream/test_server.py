"""Two processes under one roof: stopped together, never restarted once they run, and the exit status tells which it was."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from common.errors import PermanentError, TransientError
from common.retry import Backoff
from dstream.reporting import report
from dstream.server import PASSING, TELLS_PASSING, Server, stage_commands

ROOT = Path(__file__).parents[3]

# Stand-ins for a stage. Each says when it is ready, so that no test signals a process that cannot hear yet.
# The signal is blocked, then awaited: one that came between a look and signal.pause() would be slept through.
DRAINS = """
import pathlib, signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
pathlib.Path(sys.argv[1] + ".ready").touch()
signal.sigwait({signal.SIGTERM})
pathlib.Path(sys.argv[1] + ".drained").touch()
sys.exit(int(sys.argv[2]))
"""
DIES = "import sys; sys.exit(int(sys.argv[2]))"
DEAF = """
import pathlib, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
pathlib.Path(sys.argv[1] + ".ready").touch()
time.sleep(3600)
"""


def command(code: str, name: Path, status: int = 0) -> list[str]:
    return [sys.executable, "-S", "-c", code, str(name), str(status)]


def wait_for(*paths: Path) -> None:
    deadline = time.monotonic() + 60
    while not all(path.exists() for path in paths):
        assert time.monotonic() < deadline
        time.sleep(0.01)  # another process's file: there is no event to wait for


def ready(name: Path) -> Path:
    return name.with_suffix(".ready")


def drained(name: Path) -> Path:
    return name.with_suffix(".drained")


@pytest.fixture
def names(tmp_path: Path) -> tuple[Path, Path]:
    return tmp_path / "one", tmp_path / "two"


@pytest.fixture
def stop_when_ready(names: tuple[Path, Path]) -> Iterator[threading.Event]:
    stop = threading.Event()

    def watch() -> None:
        wait_for(*map(ready, names))
        stop.set()

    watcher = threading.Thread(target=watch)
    watcher.start()
    yield stop
    watcher.join()


def test_asked_to_stop_it_drains_both_and_ends_with_0(
    names: tuple[Path, Path], stop_when_ready: threading.Event
) -> None:
    one, two = names
    assert Server({"one": command(DRAINS, one), "two": command(DRAINS, two)}).run(stop_when_ready) == 0
    assert drained(one).exists()
    assert drained(two).exists()


def test_a_stage_that_stops_with_a_failure_makes_it_1(
    names: tuple[Path, Path], stop_when_ready: threading.Event
) -> None:
    one, two = names
    assert Server({"one": command(DRAINS, one), "two": command(DRAINS, two, 1)}).run(stop_when_ready) == 1


@pytest.mark.parametrize("status", [0, 1])
def test_if_one_ends_by_itself_the_other_drains_and_it_is_1(names: tuple[Path, Path], status: int) -> None:
    one, two = names
    wait_then_die = (
        f"import pathlib, time\nwhile not pathlib.Path({str(ready(one))!r}).exists(): time.sleep(0.01)\n{DIES}"
    )
    server = Server({"one": command(DRAINS, one), "two": command(wait_then_die, two, status)})
    assert server.run(threading.Event()) == 1
    assert drained(one).exists()


def test_a_stage_that_does_not_stop_within_the_grace_is_killed_and_it_is_1(
    names: tuple[Path, Path], stop_when_ready: threading.Event
) -> None:
    one, two = names
    server = Server({"one": command(DRAINS, one), "two": command(DEAF, two)}, grace=5.0)
    assert server.run(stop_when_ready) == 1
    assert drained(one).exists()


def test_a_command_that_cannot_start_leaves_no_other_behind(names: tuple[Path, Path]) -> None:
    one, _ = names
    server = Server({"one": command(DRAINS, one), "two": ["/nonexistent"]})
    with pytest.raises(FileNotFoundError):
        server.run(threading.Event())
    server.kill()  # harmless when all have ended


def test_each_stage_gets_the_commands_own_arguments() -> None:
    commands = stage_commands(["--config", "x.hcl"])
    assert commands["router"] == [sys.executable, "-m", "dstream", "router", "--config", "x.hcl"]
    assert list(commands) == ["ingester", "router"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_is_passed_on_once_and_a_second_one_ends_all_at_once(number: signal.Signals, tmp_path: Path) -> None:
    one, deaf = tmp_path / "one", tmp_path / "deaf"
    code = f"""
import sys
from dstream.server import Server
from dstream.signals import stop_on_signals
server = Server({{"one": {command(DRAINS, one)!r}, "deaf": {command(DEAF, deaf)!r}}})
sys.exit(server.run(stop_on_signals(second=server.kill)))
"""
    with subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, start_new_session=True) as process:
        try:
            wait_for(ready(one), ready(deaf))
            os.killpg(process.pid, number)  # the whole group, as a terminal does; the children have groups of their own
            wait_for(drained(one))
            assert process.poll() is None
            process.send_signal(number)
            assert process.wait(60) == 128 + number
        finally:
            process.kill()


FAILS_ONCE = (
    """
import pathlib, sys
tried = pathlib.Path(sys.argv[1] + ".tried")
if not tried.exists():
    tried.touch()
    sys.exit(75)
"""
    + DRAINS
)
SOON = Backoff(first=0.01, longest=0.01)


def test_a_stage_that_meets_a_passing_trouble_at_its_start_is_started_again_and_the_other_goes_on(
    names: tuple[Path, Path], stop_when_ready: threading.Event
) -> None:
    one, two = names
    server = Server({"one": command(DRAINS, one), "two": command(FAILS_ONCE, two)}, again=SOON)
    with capture_logs() as logs:
        assert server.run(stop_when_ready) == 0
    assert [(entry["event"], entry["stage"]) for entry in logs] == [("stage could not start; starting it again", "two")]
    assert drained(one).exists()
    assert drained(two).exists()


def test_a_trouble_that_lasts_ends_both_when_patience_is_over(names: tuple[Path, Path]) -> None:
    one, two = names
    server = Server({"one": command(DRAINS, one), "two": command(DIES, two, PASSING)}, again=SOON, patience=1.0)
    with capture_logs() as logs:
        assert server.run(threading.Event()) == 1
    assert logs[-1]["event"] == "stage ended by itself; stopping the other"


def test_a_stop_while_a_stage_waits_to_be_started_again_ends_with_0(names: tuple[Path, Path]) -> None:
    one, _ = names
    stop = threading.Event()

    def later(self: Backoff, attempt: int, chance: object = None) -> float:
        stop.set()
        return 3600.0

    class Never(Backoff):
        delay = later

    assert Server({"one": command(DIES, one, PASSING)}, again=Never()).run(stop) == 0


def test_a_stage_tells_a_passing_trouble_by_its_status_to_who_asks_for_that(monkeypatch: pytest.MonkeyPatch) -> None:
    assert report(TransientError("no route to host")) == 1
    monkeypatch.setenv(TELLS_PASSING, "1")
    assert report(TransientError("no route to host")) == PASSING
    assert report(PermanentError("no such queue")) == 1
