"""`make test` and its like (`make test-outputs`, ...), and `make kubernetes`: all tests but the long forms, in runs side by side.

Six at a time, those first that take the most of a processor.

On two cores all of it is as long as half of its processor time, and no run may take a third of that, or the others wait for it in the end. The
servers that tests wait for take most of it, so that more runs at once gain nothing.
A run takes what lies under its paths and is not another's, and one run takes `tests`: no test is in none, and none in two.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

AT_ONCE = 6
_PRINTING = threading.Lock()

Part = Sequence[str]
"""Folders and files that one run tests, in this order."""

_UNIT, _PIPELINE, _FAULTS, _BUS = "tests/unit", "tests/pipeline", "tests/faults", "tests/contracts/bus"
_SOURCE, _LOCKS = "tests/contracts/source", "tests/contracts/locks"
_CONSOLE = "tests/console"
_SPARED = ("-p", "no:schemathesis", "-p", "no:anyio")
"""Plugins that come with what only the console's tests use. Each run would load them, which takes most of a second."""
_CONTRACTS = ("tests/emulators/sqlserver/contract", "tests/emulators/servicebus/contract")
"""What DStream needs of the real servers. The one over the SDK is the last of its run: the SDK forgets sockets of connections that were refused,
and whichever test the collector finds them in would be blamed."""


def _in(folder: str, *names: str) -> Part:
    return [f"{folder}/test_{name}.py" for name in names]


SUITES: Mapping[str, Sequence[Part]] = {
    "dstream": (
        (_UNIT, "tests/packaging", "tests/scriptdom"),
        (_SOURCE,),
        ("tests",),
        _in(_FAULTS, "locks", "mute", "router_kills", "server_deaths"),
        _in(_PIPELINE, "spark_cluster", "spark_start"),
        (_PIPELINE,),
        (_FAULTS,),
        (f"{_UNIT}/ingester", f"{_UNIT}/router"),
        _in(_PIPELINE, "demo", "first_slices", "low_latency"),
        _in(_FAULTS, "ingester_kills", "router_soak", "snapshots", "throttled"),
        _in(_PIPELINE, "packs", "secrets", "server"),
        _in(_FAULTS, "executors", "machines"),
        _in(_BUS, "new_tables", "router", "workers"),
        _in(_PIPELINE, "hot_table", "identity", "oversize"),
        (*_in(_SOURCE, "identity", "locked", "mute_server"), _LOCKS, "tests/contracts/offsets"),
        ("tests/contracts/check",),
        _in(_BUS, "many_topics", "provision", "router_faults"),
        (_BUS,),
        _in(_PIPELINE, "replicas", "spark_files", "spark_left", "stuck_jvm"),
        _in(_BUS, "stops", "router_slow"),
    ),
    "outputs": (
        ("tests/outputs/equals",),  # the whole pipeline, with Spark and a node of OpenSearch
        ("tests/outputs/kafka",),  # servers on a JVM, each in a run of its own
        ("tests/outputs/elasticsearch",),
        ("tests/outputs/postgres",),
        ("tests/outputs/file",),
        ("tests/outputs/nats", "tests/outputs/webhook"),
        ("tests/outputs",),
    ),
    "desk": (
        _in(_PIPELINE, "configuring", "pause", "reload", "tracing"),
        (f"{_CONSOLE}/page",),
        _in(_FAULTS, "dead_letters", "takeover_kills"),
        (_CONSOLE,),
        ("tests/contracts/browsing", "tests/contracts/dead_letters", "tests/contracts/operating"),
        (*_in(_BUS, "takeover"), f"{_UNIT}/desk"),
    ),
    "emulators": (
        _CONTRACTS,
        ("tests/emulators/sqlserver/wire", "tests/emulators/servicebus/wire"),
        ("tests/emulators", "tests/faults/test_servicebus_kill.py"),
    ),
    "kubernetes": (("tests/kubernetes",),),
}


def main(suite: str, arguments: Sequence[str]) -> int:
    """Run all parts of `suite`, with `arguments` for each; 0 when all passed, else the status of a run that failed."""
    began = time.monotonic()
    environment = _environment()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        ended = [pool.submit(_run, part, arguments, environment) for part in SUITES[suite]]
        statuses = [one.result() for one in as_completed(ended)]
    print(f"{suite}: {len(statuses)} parts in {time.monotonic() - began:.0f} s", flush=True)
    return next((status for status in statuses if status), 0)


def _run(part: Part, arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """One part; what it said comes in one piece when it has ended."""
    plugins = [] if any(path.startswith(_CONSOLE) for path in part) else _SPARED
    command = [sys.executable, "-m", "pytest", "-m", "not soak", *plugins, *arguments, *taken(part)]
    began = time.monotonic()
    ran = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    with _PRINTING:
        sys.stdout.buffer.write(ran.stdout)
        print(f"{time.monotonic() - began:.0f} s: {' '.join(part)}\n", flush=True)
    return ran.returncode


def _environment() -> dict[str, str]:
    """Where compiled modules are not to lie among the sources they are kept elsewhere: the tests start Python some hundreds of times."""
    kept = dict(os.environ)
    if kept.pop("PYTHONDONTWRITEBYTECODE", None):
        elsewhere = Path(kept.setdefault("PYTHONPYCACHEPREFIX", str(Path(sys.prefix, "pycache"))))
        _copy_compiled(elsewhere)
    return kept


def _copy_compiled(elsewhere: Path) -> None:
    """What is compiled already, with Python and by pip, need not be compiled again, by each of the first runs for itself."""
    library = Path(sysconfig.get_path("stdlib"))
    for root in (library, Path(sysconfig.get_path("purelib"))):
        for found in root.rglob("__pycache__/*.pyc"):
            kept = elsewhere / found.parent.parent.relative_to(found.anchor) / found.name
            inside = found.relative_to(root).parts
            if kept.exists() or (root == library and inside[0] in ("test", "site-packages")):
                continue
            kept.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(found, kept)


def taken(part: Part) -> list[str]:
    """Arguments of pytest: its paths, without what other parts have of them."""
    others = {path for parts in SUITES.values() for other in parts if other is not part for path in other}
    inside = (path for path in sorted(others) if any(own in map(str, Path(path).parents) for own in part))
    return [*part, *(f"--ignore={path}" for path in inside)]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
