"""`dstream demo`: runs the whole pipeline under a live workload, on emulators or where it runs already, and ends with a verdict computed from
both ends."""

from __future__ import annotations

import tempfile
import threading
from pathlib import Path


def run(
    *,
    seconds: float = 20,
    changes: int | None = None,
    keep: bool = False,
    attach: Path | None = None,
    output: str | None = None,
    server: str | None = None,
    stop: threading.Event,
) -> int:
    """Run the demo; 0 for a good verdict, 1 otherwise. Raises PermanentError when a process dies.

    `attach`: the configuration of services that run already. `output`: a type of output, instead of topics. `server`: of that, where one runs.
    """
    from dstream.demo.show import Show, pace_of  # the only user of rich and of the drivers

    if attach is not None:
        import os

        from dstream.demo import attached

        return attached.run(attach, os.environ, pace=pace_of(changes, seconds), stop=stop)
    from dstream.demo.destinations.registry import destination

    there = None if output is None else destination(output, server)
    with tempfile.TemporaryDirectory(prefix="dstream-demo-") as folder:
        return Show(Path(folder), pace=pace_of(changes, seconds), keep=keep, stop=stop, destination=there).run()
