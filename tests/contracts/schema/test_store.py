"""The promises of ingester/schema/store.py, kept by the fake that tasks' tests use and by dbo.cdc_schemas."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
from pydantic import SecretStr

from common.errors import LeaseLost, PermanentError, TransientError
from common.sqladdress import SqlAddress
from dstream.emulators import Login
from ingester.schema.store import KeptSchema, SchemaStore
from ingester.schema.version import SchemaColumn
from ingester.sqlserver.connection import Connection
from ingester.sqlserver.hints import MAKE_SCHEMAS
from ingester.sqlserver.offsets import SqlServerOffsets
from ingester.sqlserver.schema.store import SqlServerSchemas
from tests.contracts.history.conftest import Run, connection
from tests.fakes.ingester import ORDERS, PERSONS
from tests.fakes.schemas import FakeSchemas

FIRST = KeptSchema(1, "0123456789ab", (SchemaColumn("ID", "int", 1), SchemaColumn("It's \u010d\ud83d", "nvarchar(50)")))
SECOND = KeptSchema(2, "ba9876543210", FIRST.columns[:1])


@pytest.fixture(params=["fake", "sqlserver"])
def store(request: pytest.FixtureRequest) -> Iterator[SchemaStore]:
    if request.param == "fake":
        yield FakeSchemas()
        return
    request.getfixturevalue("offsets")
    with closing(SqlServerSchemas(connection(request.getfixturevalue("login")))) as made:
        yield made


def test_a_table_has_none_until_one_is_kept_and_then_the_last_one(store: SchemaStore) -> None:
    assert store.latest(PERSONS) is None
    store.keep(PERSONS, 1, FIRST)
    assert store.latest(PERSONS) == FIRST
    store.keep(PERSONS, 1, SECOND)
    assert (store.latest(PERSONS), store.latest(ORDERS)) == (SECOND, None)


def test_keeping_it_again_does_no_harm_and_another_one_with_its_number_is_refused(store: SchemaStore) -> None:
    for _ in range(2):
        store.latest(PERSONS)
        store.keep(PERSONS, 1, FIRST)
    with pytest.raises(TransientError, match="another version was kept meanwhile"):
        store.keep(PERSONS, 1, KeptSchema(1, "ffffffffffff", ()))
    assert store.latest(PERSONS) == FIRST


def test_an_older_owner_keeps_nothing(offsets: SqlServerOffsets, login: Login) -> None:
    with closing(SqlServerSchemas(connection(login))) as store:
        store.ensure()
        offsets.claim(PERSONS, 2)
        with pytest.raises(LeaseLost, match="a newer owner has claimed the table"):
            store.keep(PERSONS, 1, FIRST)
        assert store.latest(PERSONS) is None
        store.keep(PERSONS, 2, FIRST)
        assert store.of(PERSONS) == [FIRST]


def test_tasks_that_keep_it_at_once_keep_one(offsets: SqlServerOffsets, login: Login, run: Run) -> None:
    with ThreadPoolExecutor(8) as tasks:

        def keep(_: int) -> None:
            with closing(SqlServerSchemas(connection(login))) as store:
                store.latest(PERSONS)
                store.keep(PERSONS, 1, FIRST)

        list(tasks.map(keep, range(8)))
    assert run("SELECT number, version FROM dbo.cdc_schemas") == [(1, FIRST.version)]


def test_all_versions_are_shown_in_their_order_and_none_where_nothing_was_ever_kept(
    offsets: SqlServerOffsets, login: Login
) -> None:
    with closing(SqlServerSchemas(connection(login))) as store:
        assert list(store.of(PERSONS)) == []
        store.ensure()
        for schema in (FIRST, SECOND):
            store.keep(PERSONS, 1, schema)
        assert store.of(PERSONS) == [FIRST, SECOND]


def test_a_login_that_may_not_create_it_is_told_what_it_needs(
    offsets: SqlServerOffsets, login: Login, run: Run
) -> None:
    run("CREATE LOGIN poor WITH PASSWORD = N'test-Password-2'; CREATE USER poor FOR LOGIN poor")
    address = SqlAddress(login.host, login.port, None, login.database, "poor", SecretStr("test-Password-2"))
    with closing(SqlServerSchemas(Connection(address))) as store, pytest.raises(PermanentError) as caught:
        store.ensure()
    assert caught.value.hint == MAKE_SCHEMAS
