"""Every kind of lock behind one face: `place` is where locks are kept, and each `Locks` made there is another ingester's."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from uuid import uuid4

import pytest
from pydantic import SecretStr

from common.clock import SteadyTime, UnixTime
from common.sqladdress import SqlAddress
from dstream.emulators import Login
from ingester.azure_blob.locks import AzureBlobLocks, connect
from ingester.local.locks import LocalLocks
from ingester.locks import Locks
from ingester.sqlserver.connection import Connection
from ingester.sqlserver.locks import QUERY_SECONDS, SqlServerLocks, resource
from ingester.sqlserver.offsets import SqlServerOffsets
from tests.azurite.server import Azurite, connection_string, missing
from tests.fakes.locks import LEASE_SECONDS, FakeLocks, LockService

TABLE, OTHER = "server/database/dbo.Persons.lock", "server/database/sales.Orders.lock"
KEYS = {TABLE: "dbo.Persons", OTHER: "sales.Orders"}
"""The offset's key of each lock."""
SHORTEST = 15
"""Seconds: the shortest lease that Azure grants."""


@dataclass
class Clock:
    """A clock that a test moves; it also moves by itself, as clocks do."""

    ahead: float = 0.0
    started: float = field(default_factory=time.monotonic)

    def __call__(self) -> SteadyTime:
        return SteadyTime(1_000_000.0 + time.monotonic() - self.started + self.ahead)

    def unix(self) -> UnixTime:
        """Wall time at that moment."""
        return UnixTime(self())


@dataclass
class Place:
    """`ingester`: locks as one more ingester has them. `expire`: calls what keeps a lease until every other has run out."""

    ingester: Callable[[], Locks]
    expire: Callable[[Callable[[], object]], None]
    clock: Clock


@pytest.fixture(scope="session")
def blob_service() -> Iterator[str]:
    """The connection string of a storage account: the one in DSTREAM_TEST_BLOB, or Azurite's."""
    if real := os.environ.get("DSTREAM_TEST_BLOB"):
        yield real
        return
    if reason := missing():
        pytest.skip(reason)
    with Azurite() as azurite:
        yield connection_string(azurite.port)


SHARED = ["fake", "azure_blob", "sqlserver"]
"""Kinds of locks that another process sees."""


@pytest.fixture(params=["local", *SHARED])
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    made: list[Locks] = []
    clock = Clock()

    def ingester(new: Callable[[], Locks]) -> Callable[[], Locks]:
        def made_one() -> Locks:
            locks = new()
            locks.ensure()
            made.append(locks)
            return locks

        return made_one

    match request.param:
        case "fake":
            service = LockService(clock)
            yield Place(ingester(lambda: FakeLocks(service)), lambda keep: _move(clock, keep), clock)
        case "local":
            yield Place(ingester(lambda: LocalLocks(clock.unix, clock=clock)), lambda keep: None, clock)
        case "azure_blob":
            address = request.getfixturevalue("blob_service")
            container = f"locks-{uuid4().hex[:12]}"
            yield Place(ingester(lambda: blob_locks(address, container, clock)), _wait, clock)
            connect(connection_string=address, account_url=None, seconds=10).delete_container(container)
        case "sqlserver":
            login = request.getfixturevalue("login")
            yield Place(
                ingester(lambda: sqlserver_locks(login, clock)), lambda keep: _kill(login, made[0], keep), clock
            )
    for locks in made:
        locks.close()


def blob_locks(address: str, container: str, clock: Clock) -> AzureBlobLocks:
    """Locks as another ingester has them, with the shortest leases."""
    service = connect(connection_string=address, account_url=None, seconds=10)
    return AzureBlobLocks(service, container, lease_seconds=SHORTEST, clock=clock)


def sqlserver_locks(login: Login, clock: Clock) -> SqlServerLocks:
    """Locks as another ingester has them, a connection of its own."""
    address = SqlAddress(login.host, login.port, None, login.database, login.user, SecretStr(login.password))
    offsets = SqlServerOffsets(Connection(address))
    offsets.ensure()
    offsets.close()
    return SqlServerLocks(Connection(address, query_seconds=QUERY_SECONDS), KEYS, clock=clock)


def end_session(login: Login, locks: Locks) -> None:
    """As an administrator would, or a failover."""
    assert isinstance(locks, SqlServerLocks)
    [(session,)] = locks._connection.rows("SELECT @@SPID")
    with login.connect() as connection, connection.cursor() as cursor:
        cursor.execute(f"KILL {session}")


def _kill(login: Login, dead: Locks, keep: Callable[[], object]) -> None:
    """KILL answers before the session has ended, and its locks are free."""
    end_session(login, dead)
    deadline = time.monotonic() + 60
    with login.connect() as connection, connection.cursor() as cursor:
        free = (0,)
        while free != (1,):
            assert time.monotonic() < deadline
            cursor.execute(f"SELECT APPLOCK_TEST('public', N'{resource(TABLE)}', 'Exclusive', 'Session')")
            free = cursor.fetchone()
    keep()


def _move(clock: Clock, keep: Callable[[], object]) -> None:
    for _ in range(4):
        clock.ahead += LEASE_SECONDS / 3
        keep()


def _wait(keep: Callable[[], object]) -> None:
    """Azure's leases run out by the storage account's own clock."""
    for _ in range(4):
        time.sleep(SHORTEST / 3.6)
        keep()
