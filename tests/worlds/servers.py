"""Both emulators as processes that keep their data, to be killed and started again at the same addresses; and what lives through that.

The application is an ordinary one, for which a commit whose answer is lost would be in doubt: it commits nothing while SQL Server dies. A
subscriber that receives and deletes would lose what is on its way to it when Service Bus dies: it comes when all is over.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from common.names import TableName
from dstream.demo.schema import TABLES
from dstream.demo.subscriber import Subscriber
from dstream.demo.workload import Pace, Workload
from dstream.emulators import Login
from tests.worlds import dump
from tests.worlds.ports import free_port
from tests.worlds.stillness import Stillness, stillnesses
from tests.worlds.world import CAPTURE_INTERVAL, DATABASE, PASSWORD, USER, Served, World, wait_until

_START_SECONDS = 60.0
_EVERY = 0.5
_ACTIVE = re.compile(r"\| subscription \| (\d+)")


class Server:
    """`python -m emulators.NAME` with these arguments, which hold its ports: each start finds what the one before has kept."""

    def __init__(self, name: str, arguments: Sequence[str], log: Path) -> None:
        self._command = [sys.executable, "-m", f"emulators.{name}", *arguments, "--json"]
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> Mapping[str, Any]:
        """Returns when it listens, with what it says of itself."""
        before = len(self._said())
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, process_group=0
            )

        def listens() -> bool:
            assert self._process is not None
            assert self._process.poll() is None, self._log.read_text()
            return len(self._said()) > before

        wait_until(listens, f"{self._command[2]} listens", _START_SECONDS)
        return self._said()[-1]

    def kill(self) -> None:
        """SIGKILL; quiet when it does not run."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _said(self) -> list[Mapping[str, Any]]:
        lines = self._log.read_text().splitlines() if self._log.exists() else []
        return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]


class Lasting:
    """A login whose connections are opened again, once told to, the next time that they are used."""

    def __init__(self, login: Login) -> None:
        self._login = login
        self.generation = 0

    def connect(self) -> _LastingConnection:
        return _LastingConnection(self._login, self)


class _LastingConnection:
    """As much of a connection, and of its cursor, as the workload needs."""

    def __init__(self, login: Login, lasting: Lasting) -> None:
        self._login, self._lasting = login, lasting
        self._open()

    def _open(self) -> None:
        self._generation = self._lasting.generation
        self._connection = self._login.connect()
        self._cursor = self._connection.cursor()

    def cursor(self) -> _LastingConnection:
        return self

    def execute(self, sql: str) -> None:
        if self._generation != self._lasting.generation:
            self.close()
            self._open()
        self._cursor.execute(sql)

    def close(self) -> None:
        with suppress(Exception):  # its server may be gone
            self._connection.close()


class PausingWorkload(Workload):
    """One that can be halted between transactions, and finds a server that was started again."""

    def __init__(self, login: Login, world: World, pace: Pace, *, seed: int) -> None:
        self._lasting = Lasting(login)
        super().__init__(self._lasting, world.ledger, pace, seed=seed)  # type: ignore[arg-type]  # a login in all that counts
        self._changed = threading.Condition()
        self._halted, self._waiting = False, 0

    def _more(self) -> bool:
        with self._changed:
            self._waiting += 1
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._halted or self._stop.is_set())
            self._waiting -= 1
        return super()._more()

    def stop(self) -> None:
        super().stop()
        with self._changed:
            self._changed.notify_all()

    @contextmanager
    def halted(self) -> Iterator[None]:
        """Nothing is committed as long as the block lasts. Raises AssertionError where a transaction takes too long, or the workload has failed."""
        with self._changed:
            self._halted = True
            done = self._changed.wait_for(lambda: self._waiting == len(self._threads) or not self.running, 60)
        assert done, "a transaction goes on and on"
        assert self.error is None, self.error
        yield
        self._lasting.generation += 1
        with self._changed:
            self._halted = False
            self._changed.notify_all()


class MortalWorld(World):
    """A world whose servers are processes with data directories. What arrives is counted in the subscriptions; `finished` subscribes."""

    def _make_servers(self) -> None:
        sql, bus, http = free_port(), free_port(), free_port()
        self._ports = sql, bus, http
        data = self._folder
        self.sql_server = Server(
            "sqlserver",
            [
                *("--port", str(sql), "--user", USER, "--password", PASSWORD, "--database", DATABASE),
                *("--capture-interval", str(CAPTURE_INTERVAL), "--data-dir", str(data / "sqlserver")),
            ],
            self._folder / "sqlserver.log",
        )
        self.service_bus = Server(
            "servicebus",
            ["--port", str(bus), "--http-port", str(http), "--data", str(data / "servicebus")],
            self._folder / "servicebus.log",
        )
        self._arrivals: dict[TableName, list[float]] = {table: [] for table in TABLES}
        self._over = threading.Event()

    def _start_servers(self, opened: ExitStack) -> Served:
        for server in (self.sql_server, self.service_bus):
            opened.callback(server.kill)
        self.sql_server.start()
        said = self.service_bus.start()
        sql, bus, http = self._ports
        return Served(sql, bus, http, str(said["connection_string"]))

    def __enter__(self) -> MortalWorld:
        super().__enter__()
        self.subscriber.stop()
        self.workload: PausingWorkload = PausingWorkload(self.login, self, self._pace, seed=self._seed)
        self._opened.callback(self.workload.stop)
        thread = threading.Thread(target=self._watch, name="arrivals", daemon=True)
        thread.start()
        self._opened.callback(thread.join)
        self._opened.callback(self._over.set)
        return self

    def arrived(self) -> dict[TableName, int]:
        """Messages that wait in the subscriptions, as of the last look."""
        return {table: len(times) for table, times in self._arrivals.items()}

    def delivered(self, wanted: Mapping[TableName, int] | None = None) -> bool:
        arrived, counts = self.arrived(), self.ledger.counts() if wanted is None else wanted
        return all(arrived.get(table, 0) >= count for table, count in counts.items())

    def finished(self, timeout: float) -> None:
        """All that was committed has arrived within so long, and is received for the verdict."""
        wait_until(self.delivered, "everything has arrived", timeout)
        time.sleep(2)  # what comes twice comes now
        self._over.set()
        self.subscriber = Subscriber(self.served.bus_connection_string, self.topics)
        self.subscriber.start()
        self._opened.callback(self.subscriber.stop)
        wanted = self.arrived()
        wait_until(lambda: self.subscriber.counts() == wanted, "the subscriber has it", 60)

    def stillness(self) -> list[Stillness]:
        now, found = time.time(), list[Stillness]()
        for table, arrivals in self._arrivals.items():
            committed = [at for _, _, at in self.ledger.entries(table)]
            found += stillnesses(table, committed, arrivals, now)
        return sorted(found, key=lambda each: -each.seconds)

    def _watch(self) -> None:
        while not self._over.wait(_EVERY):
            for table, times in self._arrivals.items():
                with suppress(OSError, ValueError):  # Service Bus is dead, or has no such topic yet
                    page = dump.entities(self.served.http_port, [f"{self.topics[table]}/subscriptions/sub1"])
                    if (told := _ACTIVE.search(page)) is not None:
                        times += [time.time()] * (int(told[1]) - len(times))

    def _more_of_a_dump(self) -> list[tuple[str, Callable[[], str]]]:
        logs = [self._folder / "sqlserver.log", self._folder / "servicebus.log"]
        return [("servers", lambda: "\n".join(log.read_text()[-4000:] for log in logs if log.exists()))]
