"""structlog comes without rich, and whoever imports rich later has it."""

from __future__ import annotations

import subprocess
import sys

_CODE = """
import sys
from common.observability.quick import import_structlog
import_structlog()
assert "structlog" in sys.modules
assert not [name for name in sys.modules if name.partition(".")[0] == "rich"]
import rich
"""


def test_structlog_is_imported_without_rich() -> None:
    done = subprocess.run([sys.executable, "-c", _CODE], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
