"""`dstream demo`: runs the whole pipeline on the emulators under a live workload, and ends with a verdict computed from both ends."""

from __future__ import annotations

import tempfile
import threading
from pathlib import Path


def run(*, seconds: float = 20, changes: int | None = None, keep: bool = False, stop: threading.Event) -> int:
    """Run the demo; 0 for a good verdict, 1 otherwise. Raises PermanentError when a process dies."""
    from dstream.demo.show import Show  # the only user of rich and of the drivers

    with tempfile.TemporaryDirectory(prefix="dstream-demo-") as folder:
        return Show(Path(folder), seconds=seconds, changes=changes, keep=keep, stop=stop).run()
