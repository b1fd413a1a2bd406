"""Who shares the driver's file with whom, and who waits how long. A file in memory; no sockets."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from common.errors import ConnectionLost
from ingester.sqlserver.login.freetds import VARIABLE, driver_file

ONE, OTHER = {"host": "10.0.0.1"}, {"host": "10.0.0.2"}
LONG = 60.0


def content() -> str:
    return Path(os.environ[VARIABLE]).read_text()


def test_the_variable_never_changes() -> None:
    """Other threads may be reading the environment in C."""
    before = os.environ[VARIABLE]
    with driver_file("a.example", ONE, LONG):
        assert os.environ[VARIABLE] == before
        with driver_file("b.example", OTHER, LONG):
            assert os.environ[VARIABLE] == before
    assert os.environ[VARIABLE] == before


def test_a_program_started_from_here_reads_no_descriptor_of_its_own() -> None:
    """It inherits the variable, and may have a pipe where this process has the file: a read of that would never end."""
    mine = int(os.environ[VARIABLE].rpartition("/")[2])
    reading, writing = os.pipe()
    program = f"import os; os.dup2({reading}, {mine}); print(open(os.environ[{VARIABLE!r}]).read())"
    with driver_file("a.example", ONE, LONG):
        ran = subprocess.run(
            [sys.executable, "-c", program], pass_fds=(reading, writing), capture_output=True, text=True, timeout=60
        )
    os.close(reading)
    os.close(writing)
    assert ran.stdout.strip() == "[a.example]\nhost = 10.0.0.1"


def test_other_hosts_and_the_same_settings_wait_for_nobody() -> None:
    with (
        driver_file("a.example", ONE, 0),
        driver_file("b.example", OTHER, 0),
        driver_file("a.example", ONE, 0),
    ):
        assert content() == "[a.example]\nhost = 10.0.0.1\n[b.example]\nhost = 10.0.0.2\n"


def test_whoever_is_reading_reads_to_the_end_of_what_there_was() -> None:
    with driver_file("a.example", ONE, LONG), Path(os.environ[VARIABLE]).open() as reading:
        with driver_file("b.example", OTHER, LONG):
            assert "b.example" in content()
        assert reading.read() == "[a.example]\nhost = 10.0.0.1\n"


def test_a_host_with_other_settings_waits_and_not_for_ever() -> None:
    """The driver compares names without regard to case."""
    with (
        driver_file("a.example", ONE, LONG),
        pytest.raises(ConnectionLost, match=r"a\.example.*has not ended"),
        driver_file("A.example", OTHER, 0.01),
    ):
        pass
    with driver_file("a.example", OTHER, 0):
        assert "10.0.0.2" in content()


def test_newcomers_do_not_overtake_whoever_waits() -> None:
    came: list[str] = []
    first = driver_file("a.example", ONE, LONG)
    first.__enter__()

    def come(settings: dict[str, str], queued: threading.Event) -> None:
        queued.set()
        with driver_file("a.example", settings, LONG):
            came.append(settings["host"])

    def started(settings: dict[str, str]) -> threading.Thread:
        queued = threading.Event()
        thread = threading.Thread(target=come, args=(settings, queued))
        thread.start()
        queued.wait(LONG)
        return thread

    waiting = started(OTHER)
    while True:
        """Until it waits, newcomers with the settings in use are let in at once."""
        try:
            with driver_file("a.example", ONE, 0.01):
                pass
        except ConnectionLost:
            break
    assert came == []
    first.__exit__(None, None, None)
    waiting.join(LONG)
    assert came == [OTHER["host"]]


def test_a_forked_process_waits_for_nobody_of_its_parents() -> None:
    with driver_file("a.example", ONE, LONG):
        if (child := os.fork()) == 0:
            try:
                with driver_file("a.example", OTHER, 0):
                    mine = f"/proc/{os.getpid()}/" in os.environ[VARIABLE]
                    os._exit(0 if mine and "10.0.0.2" in content() else 2)
            finally:
                os._exit(1)
        assert os.waitpid(child, 0)[1] == 0
        assert "10.0.0.1" in content(), "the child has a file of its own"
