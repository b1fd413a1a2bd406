"""One server for all tests of the output, and one world of the contract."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.outputs.postgres.world import PostgresWorld


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresWorld]:
    with PostgresWorld() as world:
        yield world
