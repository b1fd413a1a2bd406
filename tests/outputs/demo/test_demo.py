"""`dstream demo --output` as a person runs it, with Spark, into the output that needs no server: the verdict, and the files it is about."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

CHANGES = 300
_PATIENCE = 400


def test_the_demo_into_files_ends_with_a_verdict_on_these_files(tmp_path: Path) -> None:
    options = ("--output", "file", "--server", str(tmp_path), "--changes", str(CHANGES), "--seconds", "1")
    done = subprocess.run(
        [sys.executable, "-m", "dstream", "demo", *options],
        capture_output=True,
        text=True,
        timeout=_PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Every committed change arrived once, in order, with its values." in done.stdout
    assert f"changes go to files in {tmp_path}" in done.stdout
    lines = [line for path in tmp_path.rglob("*.jsonl") for line in path.read_text().splitlines()]
    found = {json.loads(line)["metadata"]["EventID"] for line in lines}
    committed, received = _total(done.stdout)
    assert CHANGES <= committed == received == len(found) == len(lines)


def _total(printed: str) -> tuple[int, int]:
    """Committed and received, as the verdict's last line has them."""
    line = next(line for line in reversed(printed.splitlines()) if line.startswith("total"))
    committed, received = line.split()[1:3]
    return int(committed), int(received)
