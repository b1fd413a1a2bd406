"""`make test` and `make test-emulators`: all tests but the long forms, in runs side by side, four at a time, the longest first.

Half of the time goes into waiting for processes, locks and clocks; with more runs at once, tests wait for processors and bounds are met late.
What no part names is in the first part of `dstream`: no test is in none.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass

_SQLSERVER = (
    "tests/contracts/sqlserver/contract",
    "tests/contracts/sqlserver/test_collations.py",
    "tests/contracts/sqlserver/test_tls_addresses.py",
)
_NAMESPACE = "tests/contracts/servicebus/contract"
"""What DStream needs of the real servers, and where its own connections are held to something. The last of its run: the SDK forgets sockets of
connections that were refused, and whichever test the collector finds them in would be blamed."""


AT_ONCE = 4
_PRINTING = threading.Lock()


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
_ROUTERS = (
    "tests/contracts/bus/test_many_topics.py",
    "tests/contracts/bus/test_new_tables.py",
    "tests/contracts/bus/test_router.py",
    "tests/contracts/bus/test_router_faults.py",
    "tests/contracts/bus/test_router_slow.py",
    "tests/contracts/bus/test_stops.py",
    "tests/contracts/bus/test_workers.py",
)
_SOURCE = ("tests/contracts/source", "tests/contracts/offsets", "tests/contracts/locks")
_SPARK = ("tests/pipeline/test_spark_start.py", "tests/pipeline/test_spark_cluster.py")
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
        Part(("tests",), (*_COMPUTING, *_BUS, *_SOURCE, *_SPARK, *_FAULTS, *_SERVERS, *_PROGRAMS)),
        Part(_FAULTS, (*_DEATHS, *_PROGRAMS)),
        Part(_BUS, _ROUTERS),
        Part(_ROUTERS),
        Part(_DEATHS),
        Part(_COMPUTING, _PROGRAMS),
        Part(_SOURCE),
        Part(_SPARK),
    ),
    "emulators": (Part(_SERVERS, (*_SQLSERVER, _NAMESPACE)), Part(_PROGRAMS)),
}


def main(suite: str, arguments: Sequence[str]) -> int:
    """Run all parts of `suite`, with `arguments` for each; 0 when all passed, else the status of a run that failed."""
    began = time.monotonic()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        ended = [pool.submit(_run, part, arguments) for part in SUITES[suite]]
        statuses = [one.result() for one in as_completed(ended)]
    print(f"{suite}: {len(statuses)} parts in {time.monotonic() - began:.0f} s", flush=True)
    return next((status for status in statuses if status), 0)


def _run(part: Part, arguments: Sequence[str]) -> int:
    """One part; what it said comes in one piece when it has ended."""
    command = [sys.executable, "-m", "pytest", "-m", "not soak", *arguments, *part.arguments]
    ran = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    with _PRINTING:
        sys.stdout.buffer.write(ran.stdout)
        sys.stdout.flush()
    return ran.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
