"""The output `postgres` keeps what every output promises."""

from __future__ import annotations

import pytest

from tests.outputs.contract.cases import OutputContract
from tests.outputs.postgres.world import PostgresWorld


@pytest.fixture(scope="module")
def world(postgres: PostgresWorld) -> PostgresWorld:
    return postgres


class TestPostgres(OutputContract):
    world_type = PostgresWorld
