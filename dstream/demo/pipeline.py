"""Emulators, both stages, a workload and a subscriber, put together: the demo shows them, and tests break them on purpose."""

from __future__ import annotations

import time
from pathlib import Path
from types import TracebackType
from typing import Self

from common.errors import PermanentError
from common.names import Origin
from dstream.demo.destinations.port import Destination
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

    def __init__(self, folder: Path, *, pace: Pace, seed: int = 1, destination: Destination | None = None) -> None:
        """`destination`: where changes go; None: to topics of the Service Bus emulator."""
        super().__init__(Origin("localhost", DATABASE), pace=pace, seed=seed)
        self._folder = folder
        self._destination = destination
        self.emulators = Emulators(database=DATABASE, capture_interval=CAPTURE_INTERVAL)

    def __enter__(self) -> Self:
        try:
            self._prepare()
        except BaseException:
            self._stop_servers()
            raise
        self.router.start()
        self.ingester.start()
        self.subscriber.start()
        return self

    def _prepare(self) -> None:
        """Servers, services that are not started yet, and both ends."""
        there = self._destination
        if there is not None:
            there.start()
        self.emulators.start()
        create(self.emulators.login)
        output, more, further = (None, "", {}) if there is None else (there.block, there.ingester, there.variables)
        config = write_config(self._folder, self.emulators, POLL_INTERVAL, more=more, output=output)
        variables = {**environment(self.emulators), **further}
        self.ingester = Service("ingester", config, variables, self._folder / "ingester.log")
        self.router = Service("router", config, variables, self._folder / "router.log")
        if there is None:
            self.connect(self.emulators.login, self.emulators.bus_connection_string)
        else:
            self.read_by(self.emulators.login, there.reader())

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.workload.stop()
        self.subscriber.stop()
        for service in (self.ingester, self.router):
            service.stop()
        self._stop_servers()

    def _stop_servers(self) -> None:
        if self._destination is not None:
            self._destination.stop()
        self.emulators.stop()

    def check_alive(self) -> None:
        """Raises PermanentError when a process has ended by itself, with the end of its log."""
        for service in (self.ingester, self.router):
            status = service.died()
            if status is not None:
                raise PermanentError(f"{service.stage} ended by itself with status {status}:\n{service.tail()}")
        if (name := self.emulators.died()) is not None:
            raise PermanentError(f"the {name} emulator ended by itself")
        if self._destination is not None and self._destination.died():
            raise PermanentError(f"{self._destination.where} ended by itself")

    def settle(self, timeout: float, *, quiet: float = 2.0) -> None:
        """Wait until everything has arrived, at most `timeout` seconds; then `quiet` seconds for messages that should not arrive."""
        deadline = time.monotonic() + timeout
        while not self.delivered() and time.monotonic() < deadline:
            self.check_alive()
            time.sleep(0.1)
        time.sleep(quiet)
