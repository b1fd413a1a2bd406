"""SIGUSR1 makes a process tell where its threads stand, and does not end it."""

from __future__ import annotations

import subprocess
import sys

from common.observability.stacks import is_stack

_PROGRAM = """
import os, signal, threading
from common.observability.stacks import tell_stacks_on_signal
tell_stacks_on_signal()
def waits_for_nothing(): threading.Event().wait()
threading.Thread(target=waits_for_nothing, name="hung", daemon=True).start()
os.kill(os.getpid(), signal.SIGUSR1)
print("alive")
"""


def test_all_threads_are_told_and_the_process_goes_on() -> None:
    ended = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, timeout=60, check=True)
    assert ended.stdout == "alive\n"
    assert "in waits_for_nothing" in ended.stderr
    assert [line for line in ended.stderr.splitlines() if line and not is_stack(line)] == []


def test_other_lines_are_no_stacks() -> None:
    for line in ("Thread pool is full", '  File "x.py", line 1, in f', "ERROR Executor: lost", "..."):
        assert not is_stack(line)
