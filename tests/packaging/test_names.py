"""One distribution, five top-level packages, and a repository that names no registry."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OURS = ("dstream", "desk", "ingester", "router", "common", "emulators")


@pytest.mark.parametrize("package", OURS)
def test_no_other_distribution_owns_our_packages(package: str) -> None:
    owners = set()
    for distribution in metadata.distributions():
        files = distribution.files or []
        if any(file.parts[0] == package for file in files):
            owners.add(distribution.metadata["Name"])
    assert owners <= {"dstream-cdc"}


def test_a_wheel_holds_our_packages_and_nothing_else(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    [wheel] = tmp_path.glob("*.whl")
    listing = subprocess.run(
        [sys.executable, "-m", "zipfile", "-l", str(wheel)], check=True, capture_output=True, text=True
    )
    tops = {line.split("/")[0] for line in listing.stdout.splitlines()[1:]}
    assert {top for top in tops if not top.endswith(".dist-info")} == set(OURS)
    assert ".dist-info/licenses/LICENSE" in listing.stdout
    for asset in ("index.html", "icon.svg", "core/main.js", "style/colours.css"):
        assert f"desk/console/page/{asset}" in listing.stdout


def test_the_router_runs_without_the_ingesters_dependencies() -> None:
    """Its image has no JVM, no Spark and no SQL Server driver."""
    code = (
        "import sys\n"
        "for name in ('pyspark', 'pymssql', 'py4j', 'orjson', 'cel_expr_python', 'sqlglot', 'rich'): sys.modules[name] = None\n"
        "import dstream.cli, dstream.config, router.app\n"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True, cwd=ROOT)


def test_lock_files_hold_versions_and_hashes_and_no_address() -> None:
    lock = (ROOT / "requirements.lock").read_text()
    assert "://" not in lock
    pins = re.findall(r"^[a-z0-9._-]+(?:\[[a-z,]+\])?==", lock, re.MULTILINE)
    assert len(pins) > 30
    assert lock.count("--hash=sha256:") >= len(pins)


def test_what_is_installed_is_what_is_pinned() -> None:
    for name, version in re.findall(
        r"^([a-z0-9._-]+)==([^ ;\\]+)", (ROOT / "requirements.lock").read_text(), re.MULTILINE
    ):
        try:
            assert metadata.version(name) == version
        except metadata.PackageNotFoundError:
            continue  # pinned for another platform
