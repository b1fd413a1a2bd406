"""Both emulators in this process, a database and a queue of its own for each test, and the commands as a user runs them."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from typer.testing import CliRunner

from common.names import TableName
from common.sqladdress import SqlAddress
from dstream.cli import app
from ingester.locks import Lease
from ingester.sqlserver.connection import Connection
from ingester.sqlserver.locks import SqlServerLocks
from ingester.sqlserver.offsets import SqlServerOffsets
from tests.contracts.check.conftest import _CONFIG, PASSWORD, Place, engine, place, servicebus, sqlserver

__all__ = ["engine", "place", "servicebus", "sqlserver"]

PERSONS = TableName("dbo", "Persons")


@dataclass(frozen=True)
class Ran:
    status: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


@dataclass(frozen=True)
class Owner:
    """An ingester's half at the stores: its lock, its claim and its commits."""

    locks: SqlServerLocks
    offsets: SqlServerOffsets
    lease: Lease


class Desk:
    """`place`, with the commands. Its changes are captured when `insert` returns."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.output = ""
        """Further settings of `router.output`."""
        self.lock = f"127-0-0-1/{place.login.database}/dbo.Persons.lock"

    def config(self) -> Path:
        config = self.place.folder / "dstream.hcl"
        text = _CONFIG.format(**self.place.settings)
        config.write_text(text.replace("output {", f"output {{\n      {self.output}\n"))
        return config

    def run(self, *arguments: str) -> Ran:
        config = self.config()
        result = CliRunner().invoke(app, [*arguments, "--config", str(config)])
        output = result.stdout + result.stderr
        assert "Traceback" not in output
        assert PASSWORD not in output
        assert "SharedAccessKey=" not in output
        return Ran(result.exit_code, result.stdout, result.stderr)

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        with self.place.login.connect() as connection, connection.cursor() as cursor:
            cursor.execute(sql)
            found: list[tuple[Any, ...]] = cursor.fetchall()
            return found

    def insert(self, *keys: int) -> list[str]:
        """One transaction for each of `keys`. The LSNs of all captured so far, in order: of what was committed before, too."""
        last = f"SELECT ID FROM cdc.dbo_Persons_CT WHERE ID = {keys[-1]}"
        before = len(self.rows(last))
        self.place.execute(*(f"INSERT INTO dbo.Persons VALUES ({key}, N'a', N'b')" for key in keys))
        deadline = time.monotonic() + 60
        while len(self.rows(last)) == before:
            assert time.monotonic() < deadline, "capture stands still"
            time.sleep(0.05)
        found = self.rows("SELECT __$start_lsn FROM cdc.dbo_Persons_CT ORDER BY 1")
        return ["0x" + bytes(row[0]).hex() for row in found]

    def connection(self) -> Connection:
        login = self.place.login
        return Connection(
            SqlAddress(login.host, login.port, None, login.database, login.user, SecretStr(login.password))
        )

    @contextmanager
    def owner(self) -> Iterator[Owner]:
        """A live ingester that has claimed dbo.Persons."""
        with closing(SqlServerOffsets(self.connection())) as offsets:
            offsets.ensure()
            with closing(SqlServerLocks(self.connection(), {self.lock: PERSONS.key})) as locks:
                lease = locks.acquire(self.lock)
                assert lease is not None
                offsets.claim(PERSONS, lease.epoch)
                yield Owner(locks, offsets, lease)


@pytest.fixture
def desk(place: Place) -> Desk:
    return Desk(place)
