"""What makes one process stop: a signal, a second one, the end of its parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dstream.signals import PARENT, interruptible

ROOT = Path(__file__).parents[3]
CODE = """
import sys
from dstream.signals import stop_on_signals
stop = stop_on_signals()
print("ready", flush=True)
while not stop.wait(0.5):  # as services do: a signal that comes just before a wait is seen at its end
    pass
print("stopping", flush=True)
while sys.argv[1] == "hang":
    stop.clear()
    stop.wait(0.5)
"""


@pytest.fixture
def processes() -> Iterator[list[subprocess.Popen[str]]]:
    made: list[subprocess.Popen[str]] = []
    yield made
    for process in made:
        process.kill()
        process.communicate()


def begun(
    processes: list[subprocess.Popen[str]], how: str, *, code: str = CODE, **variables: str
) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", code, how],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=ROOT,
        env={**os.environ, **variables},
        text=True,
    )
    processes.append(process)
    assert said(process) == "ready"
    return process


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_first_signal_asks_and_the_second_ends_at_once(
    processes: list[subprocess.Popen[str]], number: signal.Signals
) -> None:
    process = begun(processes, "end")
    process.send_signal(number)
    assert (said(process), process.wait(60)) == ("stopping", 0)
    process = begun(processes, "hang")
    process.send_signal(number)
    assert said(process) == "stopping"
    process.send_signal(number)
    assert process.wait(60) == 128 + number


LOGGED = """
from common.observability.logs import configure_logging
configure_logging("info", "text")
"""
"""Its lines go to standard error."""


def hung_up(
    code: str, *, terminal: bool, ignored: bool = False, then: tuple[signal.Signals, ...] = ()
) -> tuple[int, str]:
    """How a process of a session of its own ends after two SIGHUPs and `then`, and its lines. `terminal`: it has one, which closes."""
    ours, theirs = os.openpty()
    told, tells = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-c", PREPARED.format(terminal=terminal, ignored=ignored) + LOGGED + code, "end"],
        stdin=theirs,
        stdout=tells,
        stderr=theirs if terminal else tells,
        cwd=ROOT,
        start_new_session=True,
    )
    for end in (theirs, tells):
        os.close(end)
    try:
        with os.fdopen(told) as heard:
            assert heard.readline() == "ready\n"
            if terminal:
                os.close(ours)  # the kernel sends the first
            else:
                process.send_signal(signal.SIGHUP)
            process.send_signal(signal.SIGHUP)
            lines = heard.readline() if not terminal and not ignored else ""
            for number in then:
                process.send_signal(number)
            return process.wait(60), lines + heard.read()
    finally:
        process.kill()
        process.wait()
        if not terminal:
            os.close(ours)


PREPARED = """
import fcntl, signal, termios
if {terminal}:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
signal.signal(signal.SIGHUP, signal.SIG_IGN if {ignored} else signal.SIG_DFL)
"""
"""Whatever the tests were started with: `nohup` has it ignored."""


def test_a_terminal_that_closes_is_a_clean_stop_even_if_the_shell_says_so_as_well() -> None:
    assert hung_up(CODE, terminal=True) == (0, "stopping\n")


def test_a_service_without_a_terminal_says_that_no_signal_is_needed_and_goes_on() -> None:
    status, lines = hung_up(CODE, terminal=False, then=(signal.SIGTERM,))
    assert "SIGHUP is ignored: an edit of the configuration takes effect without a signal" in lines.splitlines()[0]
    assert (status, lines.splitlines()[-1]) == (0, "stopping")


def test_with_nohup_it_stays_ignored_without_a_line() -> None:
    assert hung_up(CODE, terminal=False, ignored=True, then=(signal.SIGTERM,)) == (0, "stopping\n")


def test_a_stage_stops_when_its_parent_is_gone_and_by_itself_minds_no_standard_input(
    processes: list[subprocess.Popen[str]],
) -> None:
    child, alone = begun(processes, "end", **{PARENT: "1"}), begun(processes, "end")
    for process in (child, alone):
        assert process.stdin is not None
        process.stdin.close()
        process.stdin = None
    assert (child.wait(60), said(child)) == (0, "stopping")
    assert alone.poll() is None


OVERTIME = """
import sys, threading
from dstream.signals import ended_within, stop_on_signals
stop = stop_on_signals()
with ended_within(0.2 if sys.argv[1] == "hang" else 60, stop):
    print("ready", flush=True)
    while not stop.wait(0.5):  # a signal that comes just before a wait is seen at its end
        pass
    if sys.argv[1] == "hang":
        threading.Event().wait()
for thread in threading.enumerate():
    if thread.name == "last-resort":
        thread.join()  # it would end the process before it ends
print("over", flush=True)
sys.stdin.read()
"""


def test_what_has_not_ended_in_time_after_a_stop_ends_with_1(
    processes: list[subprocess.Popen[str]],
) -> None:
    process = begun(processes, "hang", code=OVERTIME)
    process.terminate()
    assert process.wait(60) == 1


HANGING = """
import sys, threading
from dstream.signals import end_within
if sys.argv[1] == "hang":
    threading.Thread(target=threading.Event().wait).start()
print("ready", flush=True)
end_within(0.2 if sys.argv[1] == "hang" else 60)
"""


@pytest.mark.parametrize(("what", "status"), [("hang", 1), ("end", 0)])
def test_a_thread_that_hangs_holds_up_the_end_of_a_process_so_long_and_no_longer(
    processes: list[subprocess.Popen[str]], what: str, status: int
) -> None:
    assert begun(processes, what, code=HANGING).wait(60) == status


def test_what_has_ended_in_time_goes_on(processes: list[subprocess.Popen[str]]) -> None:
    process = begun(processes, "end", code=OVERTIME)
    process.terminate()
    assert said(process) == "over"
    assert process.stdin is not None
    process.stdin.close()
    process.stdin = None
    assert process.wait(60) == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_command_that_ends_by_itself_is_asked_once_and_gives_the_signals_back(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with interruptible(60) as interruption:
        os.kill(os.getpid(), number)
        assert interruption.stop.wait(30)
    assert interruption.status == 128 + number
    assert signal.getsignal(number) is before
