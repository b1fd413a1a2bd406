"""`make test`: all tests but the long forms, in three runs side by side.

Much of the time goes into waiting for processes, locks and clocks, so three runs take little more than the longest of them. The folders of
the first two are named here, and the last is told to leave them out: no test is in none. What the others say is printed when all have ended.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack

COMPUTING = (
    "tests/unit",
    "tests/contracts/sqlserver",
    "tests/contracts/servicebus",
    "tests/contracts/source",
    "tests/contracts/offsets",
    "tests/contracts/bus",
    "tests/contracts/check",
)
WAITING = ("tests/faults",)


def main(arguments: Sequence[str]) -> int:
    """Run all three, with `arguments` for each; 0 when all passed, else the status of a run that failed."""
    command = [sys.executable, "-m", "pytest", "-m", "not soak", *arguments]
    rest = ["tests", *(f"--ignore={folder}" for folder in (*COMPUTING, *WAITING))]
    with ExitStack() as opened:
        others = []
        for folders in (WAITING, rest):
            said = opened.enter_context(tempfile.TemporaryFile())
            run = subprocess.Popen([*command, *folders], stdout=said, stderr=subprocess.STDOUT)
            opened.callback(run.wait)
            opened.callback(run.terminate)
            others.append((run, said))
        statuses = [subprocess.run([*command, *COMPUTING], check=False).returncode]
        for run, said in others:
            statuses.append(run.wait())
            said.seek(0)
            sys.stdout.buffer.write(said.read())
            sys.stdout.flush()
    return next((status for status in statuses if status), 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
