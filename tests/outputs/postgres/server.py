"""A real PostgreSQL on this machine, in a directory of its own. It never runs as root, which it refuses."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import psycopg
import pytest

from tests.worlds.ports import free_port

CACHE = Path(__file__).parent / ".cache"
"""Where `make postgresql` unpacks Debian's package, if the machine has none."""

ADMIN, ADMIN_PASSWORD = "boss", "Boss-Secret-1"
ROLE, PASSWORD = "dstream", "Role-Secret-1"
DATABASE = "copies"
_STARTS = 60.0


def programs() -> Path:
    """The directory of `initdb` and `postgres`; skips where there is none."""
    if (found := shutil.which("initdb")) is not None and shutil.which("postgres") is not None:
        return Path(found).parent
    roots = [Path("/usr/lib/postgresql"), CACHE / "usr/lib/postgresql"]
    for root in roots:
        for each in sorted(root.glob("*/bin/initdb"), key=lambda path: path.parts[-3], reverse=True):
            return each.parent
    pytest.skip("PostgreSQL is not installed here: `make postgresql`, or apt install postgresql")


class PostgresServer:
    """Started when entered. `stop` is SIGKILL to all its processes; what it has committed it keeps."""

    def __init__(self, *, tls: tuple[str, str] | None = None) -> None:
        """`tls`: PEM texts of a certificate and its key."""
        self._bin = programs()
        self._root = Path(tempfile.mkdtemp(prefix="dstream-postgres-"))
        self._tls = tls
        self._process: subprocess.Popen[bytes] | None = None
        self.port = free_port()

    def __enter__(self) -> Self:
        self._create()
        self.start()
        self.run(
            f"CREATE ROLE {ROLE} LOGIN PASSWORD '{PASSWORD}'",
            f"CREATE DATABASE {DATABASE} OWNER {ROLE}",
            database="postgres",
        )
        return self

    def __exit__(self, *details: object) -> None:
        self.stop()
        shutil.rmtree(self._root, ignore_errors=True)

    def start(self) -> None:
        command = [str(self._bin / "postgres"), "-D", str(self._root / "data"), "-p", str(self.port)]
        with (self._root / "log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True, **self._as_who())
        end = time.monotonic() + _STARTS
        while True:
            try:
                self.connect("postgres").close()
                return
            except psycopg.OperationalError:
                assert time.monotonic() < end, (self._root / "log").read_text()
                time.sleep(0.1)

    def stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        children = [int(pid) for pid in self._children(process.pid)]
        for pid in [process.pid, *children]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        process.wait(30)
        end = time.monotonic() + 30
        while any(Path(f"/proc/{pid}").exists() for pid in children) and time.monotonic() < end:
            time.sleep(0.02)
        (self._root / "data" / "postmaster.pid").unlink(missing_ok=True)

    def connect(self, database: str = DATABASE) -> psycopg.Connection[tuple[Any, ...]]:
        return psycopg.connect(
            host="127.0.0.1",
            port=self.port,
            user=ADMIN,
            password=ADMIN_PASSWORD,
            dbname=database,
            autocommit=True,
            connect_timeout=10,
        )

    def run(self, *statements: str, database: str = DATABASE) -> None:
        with self.connect(database) as connection:
            for each in statements:
                connection.execute(each.encode())

    def rows(self, query: str, *, database: str = DATABASE) -> Sequence[tuple[Any, ...]]:
        with self.connect(database) as connection:
            return connection.execute(query.encode()).fetchall()

    def _create(self) -> None:
        word = self._root / "word"
        word.write_text(ADMIN_PASSWORD)
        if (who := self._as_who()) != {}:
            for path in (self._root, word):
                os.chown(path, who["user"], who["group"])
        command = [str(self._bin / "initdb"), "-D", str(self._root / "data"), "-U", ADMIN, "--pwfile", str(word)]
        command += ["--auth=scram-sha-256", "--no-sync", "-E", "UTF8", "--locale=C"]
        subprocess.run(command, check=True, capture_output=True, timeout=120, cwd=self._root, **who)
        lines = ["listen_addresses = '127.0.0.1'", f"unix_socket_directories = '{self._root}'", "fsync = off"]
        lines += [
            "full_page_writes = off",
            "max_connections = 40",
            "shared_buffers = 32MB",
            "lc_messages = 'C'",
            "timezone = 'UTC'",
        ]
        if self._tls is not None:
            for name, text in zip(("server.crt", "server.key"), self._tls, strict=True):
                path = self._root / "data" / name
                path.write_text(text)
                path.chmod(0o600)
                if who:
                    os.chown(path, who["user"], who["group"])
            lines.append("ssl = on")
        with (self._root / "data" / "postgresql.conf").open("a") as conf:
            conf.write("".join(f"{line}\n" for line in lines))

    def _as_who(self) -> dict[str, Any]:
        if os.geteuid() != 0:
            return {}
        nobody = pwd.getpwnam("nobody")
        return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}

    @staticmethod
    def _children(pid: int) -> Sequence[str]:
        try:
            return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        except OSError:
            return []
