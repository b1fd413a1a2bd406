"""The promises of ingester/offsets.py, kept by the fake that the loop's tests use and by dbo.cdc_offsets."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from pydantic import SecretStr

from common.errors import LeaseLost, PermanentError
from common.names import TableName
from common.sqladdress import SqlAddress
from dstream.local import Login
from ingester.lsn import Position
from ingester.offsets import Offsets
from ingester.sqlserver_connection import Connection
from ingester.sqlserver_offsets import SqlServerOffsets
from tests.fakes.ingester import ORDERS, PERSONS, FakeOffsets, lsn, position


def connection(login: Login) -> Connection:
    return Connection(SqlAddress(login.host, login.port, None, login.database, login.user, SecretStr(login.password)))


@pytest.fixture(params=["fake", "sqlserver"])
def offsets(request: pytest.FixtureRequest) -> Iterator[Offsets]:
    if request.param == "fake":
        yield FakeOffsets()
        return
    store = SqlServerOffsets(connection(request.getfixturevalue("login")))
    store.ensure()
    yield store
    store.close()


def test_a_table_that_was_never_read_has_no_offset(offsets: Offsets) -> None:
    assert offsets.claim(PERSONS, 1) is None


def test_what_was_committed_is_loaded_with_all_its_parts(offsets: Offsets) -> None:
    offsets.claim(PERSONS, 1)
    offsets.commit(PERSONS, 1, seen=None, position=position(3, 4, 5, 2))
    assert offsets.load(PERSONS, 1) == position(3, 4, 5, 2)


@pytest.mark.parametrize("at", [Position.before(lsn(7)), Position.end_of(lsn(7))])
def test_the_borders_of_a_transaction_are_positions_like_others(offsets: Offsets, at: Position) -> None:
    offsets.claim(PERSONS, 1)
    offsets.commit(PERSONS, 1, seen=None, position=at)
    offsets.commit(PERSONS, 1, seen=at, position=position(8))
    assert offsets.load(PERSONS, 1) == position(8)


def test_tables_do_not_share_an_offset(offsets: Offsets) -> None:
    offsets.claim(PERSONS, 1)
    offsets.claim(ORDERS, 1)
    offsets.commit(PERSONS, 1, seen=None, position=position(3))
    assert offsets.load(ORDERS, 1) is None


def test_a_new_owner_goes_on_where_the_old_one_stood(offsets: Offsets) -> None:
    offsets.claim(PERSONS, 1)
    offsets.commit(PERSONS, 1, seen=None, position=position(3))
    assert offsets.claim(PERSONS, 2) == position(3)


@pytest.mark.parametrize("seen", [None, position(3)])
def test_a_superseded_owner_cannot_commit(offsets: Offsets, seen: Position | None) -> None:
    offsets.claim(PERSONS, 1)
    if seen is not None:
        offsets.commit(PERSONS, 1, seen=None, position=seen)
    offsets.claim(PERSONS, 2)
    with pytest.raises(LeaseLost):
        offsets.commit(PERSONS, 1, seen=seen, position=position(4))
    assert offsets.load(PERSONS, 2) == seen


def test_a_superseded_owner_cannot_load_or_claim(offsets: Offsets) -> None:
    offsets.claim(PERSONS, 2)
    with pytest.raises(LeaseLost):
        offsets.load(PERSONS, 1)
    with pytest.raises(LeaseLost):
        offsets.claim(PERSONS, 1)


def test_a_commit_from_another_position_than_the_stored_one_is_refused(offsets: Offsets) -> None:
    offsets.claim(PERSONS, 1)
    offsets.commit(PERSONS, 1, seen=None, position=position(5))
    for seen in (position(4), position(5, seq=2), position(5, command=2), position(5, operation=4)):
        with pytest.raises(LeaseLost):
            offsets.commit(PERSONS, 1, seen=seen, position=position(6))
    assert offsets.load(PERSONS, 1) == position(5)


# only the real store

OLD_SHAPES = {
    "without last_seq": (
        "CREATE TABLE cdc_offsets (table_name NVARCHAR(255) PRIMARY KEY, last_lsn VARBINARY(10), updated_at DATETIME DEFAULT GETDATE())",
        "INSERT INTO cdc_offsets (table_name, last_lsn) VALUES (N'dbo.Persons', 0x00000000000000000003)",
    ),
    "with last_seq": (
        """CREATE TABLE cdc_offsets (table_name NVARCHAR(255) PRIMARY KEY, last_lsn VARBINARY(10), last_seq VARBINARY(10),
                                     updated_at DATETIME DEFAULT GETDATE())""",
        """INSERT INTO cdc_offsets (table_name, last_lsn, last_seq)
           VALUES (N'dbo.Persons', 0x00000000000000000003, 0x00000000000000000002)""",
    ),
}


@pytest.fixture
def run(login: Login) -> Iterator[Callable[[str], None]]:
    with login.connect() as open_connection, open_connection.cursor() as cursor:
        yield cursor.execute


@pytest.mark.parametrize("shape", OLD_SHAPES)
def test_an_older_installations_offsets_are_kept_and_its_transaction_is_read_again(
    login: Login, run: Callable[[str], None], shape: str
) -> None:
    for statement in OLD_SHAPES[shape]:
        run(statement)
    store = SqlServerOffsets(connection(login))
    store.ensure()
    assert store.claim(PERSONS, 9) == Position.before(lsn(3))
    store.commit(PERSONS, 9, seen=Position.before(lsn(3)), position=position(4))
    store.ensure()
    assert store.load(PERSONS, 9) == position(4)
    store.close()


def test_a_connection_that_does_not_count_rows_changes_nothing(login: Login) -> None:
    counting_off = connection(login)
    counting_off.execute("SET NOCOUNT ON")
    store = SqlServerOffsets(counting_off)
    store.ensure()
    store.claim(PERSONS, 1)
    store.commit(PERSONS, 1, seen=None, position=position(4))
    assert store.load(PERSONS, 1) == position(4)
    store.close()


def test_an_offset_is_never_asked_to_move_back(login: Login) -> None:
    store = SqlServerOffsets(connection(login))
    store.ensure()
    store.claim(PERSONS, 1)
    with pytest.raises(ValueError, match="would move back"):
        store.commit(PERSONS, 1, seen=position(5), position=position(4))
    store.close()


def test_a_row_that_somebody_deleted_stops_the_table(login: Login, run: Callable[[str], None]) -> None:
    store = SqlServerOffsets(connection(login))
    store.ensure()
    store.claim(PERSONS, 1)
    run("DELETE FROM dbo.cdc_offsets")
    with pytest.raises(PermanentError, match="its row is gone"):
        store.load(PERSONS, 1)
    store.close()


def test_odd_table_names_have_rows_of_their_own(login: Login) -> None:
    store = SqlServerOffsets(connection(login))
    store.ensure()
    names = [TableName("dbo", name) for name in ("a'b", "a%sb", "a.b", "a]b", "žluť 🐎")]
    for number, name in enumerate(names, 1):
        store.claim(name, 1)
        store.commit(name, 1, seen=None, position=position(number))
    assert [store.load(name, 1) for name in names] == [position(n) for n in range(1, 6)]
    store.close()
