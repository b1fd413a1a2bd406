"""Microsoft's own tests of azure-servicebus, run against the emulator: each passes, or is listed with a reason."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.emulators.servicebus.clients.conftest import CACHE, ROOT
from tests.emulators.servicebus.clients.sdk_suite.choices import LONG, SHORT
from tests.emulators.servicebus.clients.sdk_suite.known_failures import KNOWN_FAILURES, RACES

HERE = Path(__file__).parent
SUITE = CACHE / "sdk" / "tests"
_LISTED = KNOWN_FAILURES | RACES
_NO_RUN_FAILED = (0, 1)
"""Exit codes of pytest: all passed, some failed."""


@pytest.fixture(scope="session")
def suite() -> Path:
    if not (CACHE / "sdk" / ".ready").exists():
        pytest.skip("the SDK's own tests are not there: `make clients` fetches them")
    return SUITE


@pytest.mark.timeout(300)
def test_the_quick_ones_pass_or_are_listed(suite: Path, tmp_path: Path) -> None:
    _judge(_outcomes(suite, SHORT, tmp_path, 240))


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_all_pass_or_are_listed(suite: Path, tmp_path: Path) -> None:
    _judge(_outcomes(suite, LONG, tmp_path, 3500))


def _judge(outcomes: dict[str, bool | None]) -> None:
    passed = {name for name, good in outcomes.items() if good}
    failed = {name for name, good in outcomes.items() if good is False}
    listed = failed & _LISTED.keys()
    skipped = len(outcomes) - len(passed) - len(failed)
    print(f"\nof the SDK's own tests {len(passed)} passed, {len(listed)} failed as listed, {skipped} skip themselves")
    unexpected, stale = sorted(failed - listed), sorted(passed & KNOWN_FAILURES.keys())
    assert not unexpected, "fail and are not listed"
    assert not stale, "are listed and pass"
    assert passed, "none ran"


def _outcomes(suite: Path, shards: Sequence[Sequence[str]], folder: Path, seconds: float) -> dict[str, bool | None]:
    """Test's name, without its class, to passed, failed, or None for skipped; every shard in a process and a namespace of its own."""
    runs = [
        (_start(suite, arguments, folder / str(number)), folder / str(number))
        for number, arguments in enumerate(shards)
    ]
    found: dict[str, bool | None] = {}
    try:
        for run, where in runs:
            told, _ = run.communicate(timeout=seconds)
            assert run.returncode in _NO_RUN_FAILED, told[-3000:]
            found |= _read(where / "results.xml")
    finally:
        for run, _ in runs:
            run.kill()
            run.communicate()
    return found


def _start(suite: Path, arguments: Sequence[str], where: Path) -> subprocess.Popen[str]:
    where.mkdir()
    authority = str(where / "authority.pem")
    environment = {
        "PYTHONPATH": os.pathsep.join((str(HERE / "standins"), str(ROOT))),
        "SDK_SUITE_AUTHORITY": authority,
        "SSL_CERT_FILE": authority,
        "REQUESTS_CA_BUNDLE": authority,
    }
    command = [sys.executable, "-P", "-m", "pytest", "-c", str(HERE / "suite.ini"), "--rootdir", str(suite)]
    command += ["--tb=short", "--show-capture=no", f"--junitxml={where / 'results.xml'}", *arguments]
    return subprocess.Popen(
        command, cwd=suite, env=os.environ | environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def _read(results: Path) -> dict[str, bool | None]:
    found: dict[str, bool | None] = {}
    for case in ET.parse(results).getroot().iter("testcase"):
        name = case.get("name", "").partition("[pyamqp]")[0]
        file = case.get("classname", "").split(".")[-2]
        kinds = {part.tag for part in case}
        good = None if "skipped" in kinds else not kinds & {"failure", "error"}
        found[f"{file}::{name}"] = good
    return found
