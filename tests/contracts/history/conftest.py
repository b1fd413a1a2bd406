"""A database with the offsets of two tables that one ingester has claimed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
from pydantic import SecretStr

from common.sqladdress import SqlAddress
from dstream.emulators import Login
from ingester.sqlserver.connection import Connection
from ingester.sqlserver.offsets import SqlServerOffsets
from tests.fakes.ingester import ORDERS, PERSONS

Run = Callable[[str], list[tuple[Any, ...]]]


def connection(login: Login) -> Connection:
    return Connection(SqlAddress(login.host, login.port, None, login.database, login.user, SecretStr(login.password)))


@pytest.fixture
def offsets(login: Login) -> Iterator[SqlServerOffsets]:
    with closing(SqlServerOffsets(connection(login))) as made:
        made.ensure()
        made.claim(PERSONS, 1)
        made.claim(ORDERS, 1)
        yield made


@pytest.fixture
def run(login: Login) -> Iterator[Run]:
    with login.connect() as opened, opened.cursor() as cursor:

        def execute(sql: str) -> list[tuple[Any, ...]]:
            cursor.execute(sql)
            return cursor.fetchall() if cursor.description else []

        yield execute
