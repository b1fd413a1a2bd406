"""`make manifests`: builds the API server where it is missing, and runs the tests of the manifests. Skipped where it cannot run, an error in CI."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.kubernetes.cluster import programs
from tests.kubernetes.cluster.places import BIN
from tests.kubernetes.manifests import server

_TESTS = ("tests/packaging/test_manifests.py", str(Path(__file__).parent.relative_to(Path.cwd())))


def provide() -> None:
    """Compile and install what is missing, as far as it can be done here."""
    if shutil.which("go") is not None:
        programs.build(programs.CONTROL)
    if shutil.which("apt-get") is not None and os.geteuid() == 0:
        programs.packages(["etcd"])


def main() -> int:
    provide()
    os.environ["PATH"] = os.pathsep.join((os.environ["PATH"], str(BIN)))
    if (reason := server.missing()) is not None:
        print(f"The manifests are not tested here: {reason}.", file=sys.stderr)
        return 1 if os.environ.get("CI") == "true" else 0
    return subprocess.run([sys.executable, "-m", "pytest", "-q", *_TESTS]).returncode


if __name__ == "__main__":
    sys.exit(main())
