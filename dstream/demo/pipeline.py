"""Emulators, both stages, a workload and a subscriber, put together: the demo shows them, and tests break them on purpose."""

from __future__ import annotations

import time
from pathlib import Path
from types import TracebackType
from typing import Self

from common.errors import PermanentError
from common.names import Origin
from dstream.demo.ends import Ends
from dstream.demo.processes import Service, environment, write_config
from dstream.demo.schema import create
from dstream.demo.workload import Pace
from dstream.emulators import Emulators

DATABASE = "demo"
CAPTURE_INTERVAL = 0.5
"""Seconds between scans of the capture job. SQL Server's default is 5, too slow to watch."""
POLL_INTERVAL = "500ms"


class Pipeline(Ends):
    """A `with` block starts everything and stops it at its end. Changes go to `ledger`, messages to `subscriber`."""

    def __init__(self, folder: Path, *, pace: Pace, seed: int = 1) -> None:
        super().__init__(Origin("localhost", DATABASE), pace=pace, seed=seed)
        self._folder = folder
        self.emulators = Emulators(database=DATABASE, capture_interval=CAPTURE_INTERVAL)

    def __enter__(self) -> Self:
        self.emulators.start()
        try:
            create(self.emulators.login)
        except BaseException:
            self.emulators.stop()
            raise
        config = write_config(self._folder, self.emulators, POLL_INTERVAL)
        variables = environment(self.emulators)
        self.ingester = Service("ingester", config, variables, self._folder / "ingester.log")
        self.router = Service("router", config, variables, self._folder / "router.log")
        self.connect(self.emulators.login, self.emulators.bus_connection_string)
        self.router.start()
        self.ingester.start()
        self.subscriber.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.workload.stop()
        self.subscriber.stop()
        for service in (self.ingester, self.router):
            service.stop()
        self.emulators.stop()

    def check_alive(self) -> None:
        """Raises PermanentError when a process has ended by itself, with the end of its log."""
        for service in (self.ingester, self.router):
            status = service.died()
            if status is not None:
                raise PermanentError(f"{service.stage} ended by itself with status {status}:\n{service.tail()}")
        if (name := self.emulators.died()) is not None:
            raise PermanentError(f"the {name} emulator ended by itself")

    def settle(self, timeout: float, *, quiet: float = 2.0) -> None:
        """Wait until everything has arrived, at most `timeout` seconds; then `quiet` seconds for messages that should not arrive."""
        deadline = time.monotonic() + timeout
        while not self.delivered() and time.monotonic() < deadline:
            self.check_alive()
            time.sleep(0.1)
        time.sleep(quiet)
