"""`make test` and `make test-emulators`: all tests but the long forms, in runs side by side.

Half of the time goes into waiting for processes, locks and clocks, so runs beside each other take little more than the longest of them. What no
part names is in the last part of `dstream`: no test is in none. What the others say is printed when all have ended.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

_SQLSERVER = (
    "tests/contracts/sqlserver/contract",
    "tests/contracts/sqlserver/test_collations.py",
    "tests/contracts/sqlserver/test_tls_addresses.py",
)
_NAMESPACE = "tests/contracts/servicebus/contract"
"""What DStream needs of the real servers, and where its own connections are held to something. The last of its run: the SDK forgets sockets of
connections that were refused, and whichever test the collector finds them in would be blamed."""


@dataclass(frozen=True, slots=True)
class Part:
    """Folders and files that one run tests, and what it leaves out of them."""

    paths: Sequence[str]
    without: Sequence[str] = ()

    @property
    def arguments(self) -> list[str]:
        """Of pytest."""
        return [*self.paths, *(f"--ignore={path}" for path in self.without)]


_SERVERS = ("tests/contracts/sqlserver", "tests/contracts/servicebus")
_PROGRAMS = ("tests/unit/emulators", "tests/clients", "tests/faults/test_servicebus_kill.py")
_BUS = (*_SQLSERVER, "tests/contracts/bus", "tests/contracts/check", _NAMESPACE)
_SOURCE = (
    "tests/contracts/source",
    "tests/contracts/offsets",
    "tests/contracts/locks",
    "tests/pipeline/test_spark_start.py",
    "tests/pipeline/test_spark_cluster.py",
)
_DEATHS = (
    "tests/faults/test_kill.py",
    "tests/faults/test_locks.py",
    "tests/faults/test_router_kills.py",
    "tests/faults/test_router_soak.py",
    "tests/faults/test_server_deaths.py",
    "tests/faults/test_throttled.py",
)
_FAULTS = ("tests/faults",)
_COMPUTING = ("tests/unit", "tests/packaging", "tests/properties", "tests/scriptdom")

SUITES: Mapping[str, Sequence[Part]] = {
    "dstream": (
        Part(_COMPUTING, _PROGRAMS),
        Part(_BUS),
        Part(_SOURCE),
        Part(_DEATHS),
        Part(_FAULTS, (*_DEATHS, *_PROGRAMS)),
        Part(("tests",), (*_COMPUTING, *_BUS, *_SOURCE, *_FAULTS, *_SERVERS, *_PROGRAMS)),
    ),
    "emulators": (Part(_SERVERS, (*_SQLSERVER, _NAMESPACE)), Part(_PROGRAMS)),
}


def main(suite: str, arguments: Sequence[str]) -> int:
    """Run all parts of `suite`, with `arguments` for each; 0 when all passed, else the status of a run that failed."""
    command = [sys.executable, "-m", "pytest", "-m", "not soak", *arguments]
    first, *rest = SUITES[suite]
    began = time.monotonic()
    with ExitStack() as opened:
        others = []
        for part in rest:
            said = opened.enter_context(tempfile.TemporaryFile())
            run = subprocess.Popen([*command, *part.arguments], stdout=said, stderr=subprocess.STDOUT)
            opened.callback(run.wait)
            opened.callback(run.terminate)
            others.append((run, said))
        statuses = [subprocess.run([*command, *first.arguments], check=False).returncode]
        for run, said in others:
            statuses.append(run.wait())
            said.seek(0)
            sys.stdout.buffer.write(said.read())
            sys.stdout.flush()
    print(f"{suite}: {len(statuses)} parts in {time.monotonic() - began:.0f} s", flush=True)
    return next((status for status in statuses if status), 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
