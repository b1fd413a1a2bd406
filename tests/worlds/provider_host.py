"""A host of `dstream provider`, and a database in this process for it to read: two tables whose rows count up.

What a host sees of a provider is lines. It keeps those that have an end, and drops the half of one that a killed provider leaves.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from dstream.emulators import Login
from emulators.sqlserver.build import build_engine
from emulators.sqlserver.server import SqlServerEmulator

DATABASE, USER, PASSWORD = "shop", "sa", "test-Password-1"
TABLES = ("Cars", "Persons")


class Database:
    """`put(table, rows)` commits rows with the next ids; `put_all` writes until `stop`, in a thread of its own."""

    def __init__(self) -> None:
        self._engine = build_engine(users={USER: PASSWORD}, databases=[DATABASE], capture_interval=0.1)
        self._server = SqlServerEmulator(self._engine, host="127.0.0.1")
        self.committed = dict.fromkeys(TABLES, 0)
        self._stop = threading.Event()
        self._writer = threading.Thread(target=self._write, name="writer")

    def __enter__(self) -> Self:
        with ExitStack() as opened:
            opened.callback(self._engine.close)
            opened.enter_context(self._server)
            self.login = Login("localhost", self._server.port, USER, PASSWORD, DATABASE)
            with self.login.connect() as connection, connection.cursor() as cursor:
                connection.autocommit(True)
                cursor.execute("EXEC sys.sp_cdc_enable_db")
                for table in TABLES:
                    cursor.execute(
                        f"CREATE TABLE dbo.{table} (Id INT NOT NULL PRIMARY KEY, Text NVARCHAR(200) NOT NULL)"
                    )
                    cursor.execute(
                        f"EXEC sys.sp_cdc_enable_table @source_schema = 'dbo', @source_name = '{table}', @role_name = NULL"
                    )
            self._opened = opened.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()
        self._opened.close()

    def put(self, table: str, rows: int, *, text: str = "text") -> None:
        first = self.committed[table] + 1
        values = ", ".join(f"({number}, N'{text}')" for number in range(first, first + rows))
        with self.login.connect() as connection, connection.cursor() as cursor:
            cursor.execute(f"INSERT INTO dbo.{table} VALUES {values}")
            connection.commit()
        self.committed[table] += rows

    def write(self) -> None:
        """Begin to write, a little all the time."""
        self._writer.start()

    def stop(self) -> None:
        """End the writing."""
        self._stop.set()
        if self._writer.is_alive():
            self._writer.join()

    def _write(self) -> None:
        turn = 0
        while not self._stop.wait(0.05):
            self.put(TABLES[turn % 2], 5 + 195 * (turn % 7 == 0))
            turn += 1

    def config(self, **more: Any) -> dict[str, Any]:
        """What a host hands to the provider."""
        address = f"server=localhost,{self._server.port};user id={USER};password={PASSWORD};database={DATABASE};encrypt=disable"
        return {
            "db_connection_string": address,
            "poll_interval": "100ms",
            "max_poll_interval": "200ms",
            "lock_config": {"type": "sqlserver"},
            "tables": list(TABLES),
            **more,
        }

    def offsets(self) -> Sequence[tuple[object, ...]]:
        with self.login.connect() as connection, connection.cursor() as cursor:
            cursor.execute(
                "SELECT table_name, last_lsn, last_seq, destination FROM dbo.cdc_offsets ORDER BY table_name"
            )
            return list(cursor.fetchall())


class Host:
    """One start of the provider. `lines`: whole ones, as they were read. Reads only when `read` or `read_all` is called.

    `local_socket`: in the place of a pipe, as Node does it.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        log: Path,
        *,
        stdout: int | None = None,
        keeps_stdin: bool = False,
        local_socket: bool = False,
    ) -> None:
        self.log = log
        self.lines: list[bytes] = []
        self._half = b""
        self._changes: list[dict[str, Any]] = []
        self._last: dict[str, int | None] = {}
        with ExitStack() as handed, log.open("ab") as stderr:
            ours = None
            if local_socket:
                ours, theirs = socket.socketpair()
                stdout = handed.enter_context(theirs).fileno()
            self.process = subprocess.Popen(
                [str(Path(sys.executable).with_name("dstream")), "provider"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE if stdout is None else stdout,
                stderr=stderr,
            )
            if ours is not None:
                self.process.stdout = os.fdopen(ours.detach(), "rb")
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(config).encode() + b"\n")
        self.process.stdin.flush()
        if not keeps_stdin:
            self.process.stdin.close()

    def read(self, seconds: float = 0.1, *, most: int = 65_536) -> int:
        """Read what comes within `seconds`, `most` bytes at most. Returns how many whole lines came."""
        assert self.process.stdout is not None
        before, fd = len(self.lines), self.process.stdout.fileno()
        if select.select([fd], [], [], seconds)[0] and (piece := os.read(fd, most)):
            self._take(piece)
        return len(self.lines) - before

    def _take(self, piece: bytes) -> None:
        *whole, self._half = (self._half + piece).split(b"\n")
        self.lines += whole
        for line in whole:
            found = changes_of([line])
            self._changes += found
            self._last[found[-1]["table_name"]] = found[-1]["data"].get("Id")

    def last(self, table: str) -> int | None:
        """The id in the last change of `table` that came."""
        return self._last.get(f"dbo.{table}")

    def read_until(
        self, condition: Callable[[], bool], what: str, timeout: float = 60.0, *, most: int = 65_536
    ) -> None:
        deadline = time.monotonic() + timeout
        while not condition():
            assert time.monotonic() < deadline, f"still not: {what}\n{self.said()}"
            assert self.process.poll() is None or self.read(0), f"ended before {what}\n{self.said()}"
            self.read(most=most)

    @property
    def half(self) -> bytes:
        """What was read of a line that has no end yet."""
        return self._half

    def changes(self) -> list[dict[str, Any]]:
        return self._changes

    def ids(self, table: str) -> list[int]:
        return [change["data"]["Id"] for change in self._changes if change["table_name"] == f"dbo.{table}"]

    def kill(self) -> None:
        """As its host's machine would end it; what it wrote before is read to the end."""
        self.process.kill()
        self.process.wait()
        self.drain()

    def vanish(self) -> int:
        """The host itself dies: what it has not read is gone with its pipe. The provider's exit status."""
        assert self.process.stdout is not None
        self.process.stdout.close()
        return self.process.wait(30)

    def drain(self) -> None:
        """Read to the end of what an ended provider has written."""
        assert self.process.stdout is not None
        rest = self.process.stdout.read()
        self._take(rest)

    def end(self, number: signal.Signals = signal.SIGTERM, timeout: float = 30.0) -> int:
        """Send a signal; read on until it has ended; its exit status."""
        self.process.send_signal(number)
        reading = threading.Thread(target=self.drain, name="reader")
        reading.start()
        status = self.process.wait(timeout)
        reading.join(timeout)
        return status

    def said(self) -> str:
        """The end of its log."""
        return self.log.read_text()[-6_000:]

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None and not pipe.closed:
                pipe.close()


def changes_of(lines: Sequence[bytes]) -> list[dict[str, Any]]:
    """Every line is whole JSON, of one table, with the count that it says."""
    found = []
    for line in lines:
        envelope = json.loads(line)
        assert envelope["metadata"]["batch_size"] == len(envelope["changes"]) > 0
        assert {change["table_name"] for change in envelope["changes"]} == {envelope["table_name"]}
        found += envelope["changes"]
    return found
