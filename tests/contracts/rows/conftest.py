"""A server for each module, and databases in it with tables whose rows are read."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest

from common.names import TableName
from dstream.emulators import Login
from emulators.sqlserver.build import build_engine
from emulators.sqlserver.engine.server_engine import SqlEngine
from emulators.sqlserver.server import SqlServerEmulator
from ingester.history.rows import RowKey, RowsQuery
from ingester.sqlserver.history.rows import SqlServerRows
from ingester.sqlserver.sql.history.base_table import SqlServerTable, base_of
from tests.contracts.source.test_source import Place

_numbers = count(1)


class RowsPlace(Place):
    """A place, and what reads the rows of its tables."""

    def __init__(self, login: Login, *, page_bytes: int = 2**22) -> None:
        super().__init__(login)
        self.execute("EXEC sys.sp_cdc_enable_table N'dbo', N'Persons', @role_name = NULL")
        self.execute("EXEC sys.sp_cdc_stop_job")
        self.rows = SqlServerRows(self.connection, decimals_as_numbers=False, page_bytes=page_bytes)

    def make(self, table: str, columns: str, **more: str) -> None:
        """A table under capture."""
        self.execute(f"CREATE TABLE dbo.{table} ({columns})")
        self.enable(table=table, **more)

    def table(self, name: str) -> SqlServerTable:
        return base_of(self.rows.table(self.instance(TableName("dbo", name))))

    def keys(
        self, table: SqlServerTable, rows: int, after: RowKey | None = None, upto: RowKey | None = None
    ) -> list[RowKey]:
        """All keys in (after, upto], read in pages of `rows` rows."""
        found: list[RowKey] = []
        while True:
            page = self.rows.page(RowsQuery(table, rows, after=after, upto=upto))
            found += [row.at for row in page.rows]
            if not page.full:
                return found
            after = page.rows[-1].at


@pytest.fixture(scope="module")
def engine() -> Iterator[SqlEngine]:
    made = build_engine(users={"sa": "test-Password-1"}, capture_interval=3600)
    yield made
    made.close()


@pytest.fixture(scope="module")
def server(engine: SqlEngine) -> Iterator[SqlServerEmulator]:
    with SqlServerEmulator(engine) as running:
        yield running


@pytest.fixture(scope="module")
def place(engine: SqlEngine, server: SqlServerEmulator) -> Iterator[RowsPlace]:
    name = f"rows{next(_numbers)}"
    engine.create_database(name)
    made = RowsPlace(Login("127.0.0.1", server.port, "sa", "test-Password-1", name))
    yield made
    made.execute("EXEC sys.sp_cdc_disable_db")
    made.close()
