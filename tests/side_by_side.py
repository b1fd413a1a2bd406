"""`make test`: all tests but the long forms, in two runs side by side.

Much of the time goes into waiting for processes, locks and clocks, so two runs take little more than the longer of them. The
first run's folders and files are named here and the second run is told to leave them out: no test is in neither. What the second run
says is printed when both have ended.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence

FIRST = (
    "tests/unit",
    "tests/contracts/sqlserver",
    "tests/contracts/servicebus",
    "tests/contracts/source",
    "tests/contracts/offsets",
    "tests/faults/test_ingester_kills.py",
)


def main(arguments: Sequence[str]) -> int:
    """Run both, with `arguments` for either; 0 when all passed, else the status of a run that failed."""
    command = [sys.executable, "-m", "pytest", "-m", "not soak", *arguments]
    with tempfile.TemporaryFile() as said:
        rest = [f"--ignore={folder}" for folder in FIRST]
        second = subprocess.Popen([*command, "tests", *rest], stdout=said, stderr=subprocess.STDOUT)
        try:
            first = subprocess.run([*command, *FIRST], check=False).returncode
            second.wait()
        finally:
            second.terminate()
            second.wait()
        said.seek(0)
        sys.stdout.buffer.write(said.read())
        sys.stdout.flush()
    return first or second.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
