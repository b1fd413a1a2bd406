"""The promises of ingester/offsets.py, kept by the fake that the loop's tests use and by dbo.cdc_offsets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest
from pydantic import SecretStr

from common.errors import LeaseLost, PermanentError, TransientError
from common.names import TableName
from common.sqladdress import SqlAddress
from dstream.emulators import Login
from emulators.sqlserver.server import SqlServerEmulator
from ingester.locks import this_owner
from ingester.offsets import Claim, Claimed, Move, Offsets
from ingester.position import Position
from ingester.sqlserver.connection import Connection
from ingester.sqlserver.offsets import SqlServerOffsets
from ingester.sqlserver.position import LogPosition
from ingester.sqlserver.sql import offsets as queries_of_offsets
from tests.conftest import PASSWORD, USER
from tests.fakes.ingester import ORDERS, PERSONS, FakeOffsets, lsn, position
from tests.worlds.databases import drop


def address(login: Login) -> SqlAddress:
    return SqlAddress(login.host, login.port, None, login.database, login.user, SecretStr(login.password))


def connection(login: Login) -> Connection:
    return Connection(address(login))


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
    assert offsets.claim(PERSONS, 1).position is None


def test_what_was_committed_is_loaded_with_all_its_parts(offsets: Offsets) -> None:
    offsets.claim(PERSONS, 1)
    offsets.commit(PERSONS, 1, seen=None, position=position(3, 4, 5, 2))
    assert offsets.load(PERSONS, 1) == position(3, 4, 5, 2)


@pytest.mark.parametrize("at", [LogPosition.before(lsn(7)), LogPosition.end_of(lsn(7))])
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
    assert offsets.claim(PERSONS, 2).position == position(3)


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


def test_whose_changes_it_counts_is_kept_from_the_first_that_says_so(offsets: Offsets) -> None:
    assert offsets.claim(PERSONS, 1) == Claimed(None, None)
    assert offsets.claim(PERSONS, 2, "1 made at noon") == Claimed(None, "1 made at noon")
    assert offsets.claim(PERSONS, 3, "2 made later") == Claimed(None, "1 made at noon")


MANY = [TableName("dbo", f"T{number}") for number in range(250)]


def test_many_tables_are_claimed_together_each_with_what_it_came_to(offsets: Offsets) -> None:
    offsets.claim(MANY[3], 1)
    offsets.commit(MANY[3], 1, seen=None, position=position(7, 8, 9, 4))
    offsets.claim(MANY[200], 9)
    found = offsets.claim_many([Claim(table, 5, f"object {table.table}") for table in MANY])
    assert isinstance(found[200], LeaseLost)
    assert found[3] == Claimed(position(7, 8, 9, 4), "object T3")
    others = [one for one in range(250) if one not in (3, 200)]
    assert [found[one] for one in others] == [Claimed(None, f"object T{one}") for one in others]
    with pytest.raises(LeaseLost):
        offsets.load(MANY[3], 4)
    assert offsets.claim_many([]) == []


def test_many_offsets_are_moved_together_each_with_where_it_stands_now(offsets: Offsets) -> None:
    offsets.claim_many([Claim(table, 1) for table in MANY])
    first = offsets.move_many([Move(table, 1, None, position(3)) for table in MANY])
    assert list(first) == [position(3)] * 250
    offsets.claim(MANY[200], 2)
    offsets.commit(MANY[3], 1, seen=position(3), position=position(5))
    second = offsets.move_many([Move(table, 1, position(3), position(4)) for table in MANY])
    assert isinstance(second[200], LeaseLost)
    assert second[3] == position(5)
    assert [at for number, at in enumerate(second) if number not in (3, 200)] == [position(4)] * 248
    assert [offsets.load(table, 2) for table in MANY[199:202]] == [position(4), position(3), position(4)]


def test_a_move_whose_answer_was_lost_is_found_where_it_went(offsets: Offsets) -> None:
    offsets.claim(PERSONS, 1)
    lost = Move(PERSONS, 1, None, LogPosition.end_of(lsn(7)))
    offsets.move_many([lost])
    assert list(offsets.move_many([lost])) == [lost.position]
    later = Move(PERSONS, 1, None, LogPosition.end_of(lsn(8)))
    assert list(offsets.move_many([later])) == [lost.position]


def test_going_over_to_another_table_keeps_where_the_former_was_left(offsets: Offsets) -> None:
    offsets.claim(PERSONS, 1, "1 a")
    offsets.commit(PERSONS, 1, seen=None, position=position(9))
    over = offsets.go_over(PERSONS, 1, seen=position(9), left="1 a", source="2 b", start=LogPosition.before(lsn(3)))
    assert over == LogPosition.before(lsn(3)) == offsets.load(PERSONS, 1, "2 b")
    with pytest.raises(LeaseLost):
        offsets.load(PERSONS, 1, "1 a")
    offsets.commit(PERSONS, 1, seen=over, position=position(5))
    assert offsets.claim(PERSONS, 2, "2 b") == Claimed(position(5), "2 b")
    back = offsets.go_over(PERSONS, 2, seen=position(5), left="2 b", source="1 a", start=LogPosition.before(lsn(1)))
    assert back == position(9) == offsets.load(PERSONS, 2)
    again = offsets.go_over(PERSONS, 2, seen=back, left="1 a", source="2 b", start=LogPosition.before(lsn(3)))
    assert again == position(5)


@pytest.mark.parametrize("wrong", ["epoch", "position", "source"])
def test_nobody_goes_over_who_does_not_know_how_the_offset_stands(offsets: Offsets, wrong: str) -> None:
    offsets.claim(PERSONS, 2, "1 a")
    offsets.commit(PERSONS, 2, seen=None, position=position(9))
    with pytest.raises(LeaseLost):
        offsets.go_over(
            PERSONS,
            1 if wrong == "epoch" else 2,
            seen=position(8) if wrong == "position" else position(9),
            left="0 z" if wrong == "source" else "1 a",
            source="2 b",
            start=position(1),
        )
    assert offsets.claim(PERSONS, 3) == Claimed(position(9), "1 a")


def test_a_table_goes_over_before_its_first_offset(offsets: Offsets) -> None:
    offsets.claim(PERSONS, 1, "1 a")
    assert offsets.go_over(PERSONS, 1, seen=None, left="1 a", source="2 b", start=position(1)) == position(1)
    assert offsets.load(PERSONS, 1) == position(1)


# only the real store

BARE = "CREATE TABLE cdc_offsets (table_name NVARCHAR(255) PRIMARY KEY, last_lsn VARBINARY(10))"


def test_many_tables_cost_a_statement_a_hundred(login: Login, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    store = SqlServerOffsets(connection(login))
    store.ensure()
    result_sets = Connection.result_sets

    def counted(self: Connection, sql: str, parameters: Sequence[object] = ()) -> list[list[tuple[Any, ...]]]:
        asked.append(sql)
        return result_sets(self, sql, parameters)

    monkeypatch.setattr(Connection, "result_sets", counted)
    store.claim_many([Claim(table, 1) for table in MANY])
    assert len(asked) == 3
    store.move_many([Move(table, 1, None, position(3)) for table in MANY])
    assert len(asked) == 6
    store.close()


def test_of_many_tables_the_original_tools_bare_names_are_adopted(login: Login, run: Callable[[str], None]) -> None:
    run(BARE)
    run("INSERT INTO cdc_offsets (table_name, last_lsn) VALUES (N'Persons', 0x00000000000000000003), (N'Orders', 0x05)")
    store = SqlServerOffsets(connection(login))
    store.ensure()
    found = store.claim_many([Claim(PERSONS, 1), Claim(ORDERS, 1), Claim(TableName("dbo", "Items"), 1)])
    assert list(found) == [Claimed(LogPosition.before(lsn(3))), Claimed(None), Claimed(None)]
    store.close()


def test_of_many_tables_one_whose_changes_are_sent_elsewhere_is_refused_alone(login: Login) -> None:
    theirs, ours = (SqlServerOffsets(connection(login), to) for to in ("their queue", "our queue"))
    ours.ensure()
    theirs.claim(ORDERS, 1)
    persons, orders = ours.claim_many([Claim(PERSONS, 2), Claim(ORDERS, 2)])
    assert persons == Claimed(None)
    assert isinstance(orders, PermanentError)
    assert "their queue" in orders.message
    assert theirs.load(ORDERS, 1) is None
    for store in (theirs, ours):
        store.close()


def test_of_many_tables_one_whose_row_is_gone_keeps_nobody_else(login: Login, run: Callable[[str], None]) -> None:
    store = SqlServerOffsets(connection(login))
    store.ensure()
    store.claim_many([Claim(PERSONS, 1), Claim(ORDERS, 1)])
    run("DELETE FROM dbo.cdc_offsets WHERE table_name = N'dbo.Persons'")
    persons, orders = store.move_many([Move(table, 1, None, position(3)) for table in (PERSONS, ORDERS)])
    assert isinstance(persons, PermanentError)
    assert orders == position(3)
    store.close()


def test_a_batch_that_is_refused_as_a_whole_is_done_one_by_one(login: Login, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the victim of a deadlock, or for one table's sake."""
    store = SqlServerOffsets(connection(login))
    store.ensure()

    def victim(*rest: object) -> tuple[str, tuple[object, ...]]:
        raise TransientError("error 1205")

    monkeypatch.setattr(queries_of_offsets, "claims", victim)
    monkeypatch.setattr(queries_of_offsets, "moves", victim)
    assert list(store.claim_many([Claim(PERSONS, 1), Claim(ORDERS, 1)])) == [Claimed(None)] * 2
    store.claim(ORDERS, 2)
    store.commit(PERSONS, 1, seen=None, position=position(4))
    stands, refused = store.move_many([Move(table, 1, None, position(3)) for table in (PERSONS, ORDERS)])
    assert stands == position(4)
    assert isinstance(refused, LeaseLost)
    assert list(store.move_many([Move(PERSONS, 1, position(4), position(5))])) == [position(5)]
    store.close()


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
    assert store.claim(PERSONS, 9).position == LogPosition.before(lsn(3))
    store.commit(PERSONS, 9, seen=LogPosition.before(lsn(3)), position=position(4))
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
    with pytest.raises(PermanentError, match=r"its row in dbo\.cdc_offsets has been deleted"):
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


@pytest.mark.parametrize("shape", OLD_SHAPES)
def test_the_original_tools_bare_names_are_those_of_schema_dbo(
    login: Login, run: Callable[[str], None], shape: str
) -> None:
    """It wrote the name as configured, `Persons`. Without this every table would be read from its low watermark again."""
    create, insert = OLD_SHAPES[shape]
    run(create)
    run(insert.replace("dbo.Persons", "Persons"))
    run("INSERT INTO cdc_offsets (table_name, last_lsn) VALUES (N'Orders', 0x00000000000000000007)")
    store = SqlServerOffsets(connection(login))
    store.ensure()
    assert store.claim(PERSONS, 1).position == LogPosition.before(lsn(3))
    assert store.claim(ORDERS, 1).position is None  # sales.Orders is another table than Orders
    store.commit(PERSONS, 1, seen=LogPosition.before(lsn(3)), position=position(5))
    assert store.claim(PERSONS, 2).position == position(5)
    store.close()


def test_a_bare_name_with_a_dot_in_it_is_not_taken_for_another_schemas_table(
    login: Login, run: Callable[[str], None]
) -> None:
    store = SqlServerOffsets(connection(login))
    store.ensure()
    store.claim(ORDERS, 1)
    store.commit(ORDERS, 1, seen=None, position=position(5))
    assert store.claim(TableName("dbo", "sales.Orders"), 1).position is None
    store.close()


@pytest.mark.parametrize("value", ["0x00000000000000000000", "0x00", "0x"])
def test_an_offset_of_zeros_is_a_first_start_and_not_a_gap(
    login: Login, run: Callable[[str], None], value: str
) -> None:
    run(OLD_SHAPES["without last_seq"][0])
    run(f"INSERT INTO cdc_offsets (table_name, last_lsn) VALUES (N'Persons', {value})")
    store = SqlServerOffsets(connection(login))
    store.ensure()
    assert store.claim(PERSONS, 1).position is None
    store.commit(PERSONS, 1, seen=None, position=position(4))
    assert store.load(PERSONS, 1) == position(4)
    store.close()


class Slower(Connection):
    """A connection whose owner sees the database as it was before another ingester's `ensure` or `claim`."""

    def __init__(self, address: SqlAddress, between: Callable[[], None]) -> None:
        super().__init__(address)
        self._between = between

    def execute(self, sql: str, parameters: Sequence[object] = ()) -> int:
        between, self._between = self._between, lambda: None
        between()
        bare = sql.split("\nCREATE TABLE", 1)
        if len(bare) == 2:
            sql = "CREATE TABLE" + bare[1]
        elif " ALTER TABLE " in sql:
            sql = "ALTER TABLE " + sql.split(" ALTER TABLE ", 1)[1]
        elif sql.startswith("INSERT"):
            sql = sql.split(" WHERE NOT EXISTS")[0]
            parameters = parameters[:2]
        return super().execute(sql, parameters)


@pytest.mark.parametrize("shape", [None, *OLD_SHAPES])
def test_two_that_make_or_upgrade_the_table_at_once_both_succeed(
    login: Login, run: Callable[[str], None], shape: str | None
) -> None:
    for statement in OLD_SHAPES.get(shape or "", ()):
        run(statement)
    quick = SqlServerOffsets(connection(login))

    def other() -> None:
        quick.ensure()
        quick.claim(PERSONS, 1)

    slow = SqlServerOffsets(Slower(address(login), other))
    slow.ensure()
    assert slow.claim(PERSONS, 2).position == (LogPosition.before(lsn(3)) if shape else None)
    with pytest.raises(LeaseLost):
        quick.load(PERSONS, 1)
    quick.close()
    slow.close()


@pytest.mark.parametrize(
    ("grants", "old", "needed"),
    [
        ((), None, "create it (docs/install.md)"),
        ((), "ours", "or this login may not see it: if it exists, GRANT SELECT, INSERT, UPDATE ON OBJECT"),
        (("SELECT, INSERT, UPDATE ON OBJECT::dbo.cdc_offsets",), "without last_seq", "GRANT ALTER ON OBJECT"),
        (("SELECT ON OBJECT::dbo.cdc_offsets",), "ours", "GRANT SELECT, INSERT, UPDATE ON OBJECT"),
        (("SELECT, INSERT ON OBJECT::dbo.cdc_offsets",), "ours", "GRANT SELECT, INSERT, UPDATE ON OBJECT"),
        (("SELECT, INSERT, UPDATE ON OBJECT::dbo.cdc_offsets",), "ours", None),
    ],
)
def test_a_missing_right_is_named(
    login: Login, run: Callable[[str], None], grants: Sequence[str], old: str | None, needed: str | None
) -> None:
    if old == "ours":
        SqlServerOffsets(connection(login)).ensure()
    elif old:
        run(OLD_SHAPES[old][0])
    user = f"{login.database}_offsets"
    run(f"CREATE LOGIN {user} WITH PASSWORD = N'Offsets-Password-1'")
    run(f"CREATE USER {user} FOR LOGIN {user}")
    for grant in grants:
        run(f"GRANT {grant} TO {user}")
    poor = replace(login, user=user, password="Offsets-Password-1")
    store = SqlServerOffsets(connection(poor))
    try:
        if needed is None:
            store.ensure()
            assert store.claim(PERSONS, 1).position is None
            store.commit(PERSONS, 1, seen=None, position=position(4))
            return
        with pytest.raises(PermanentError) as refused:  # noqa: PT012 - whichever of them needs the right
            store.ensure()
            store.claim(PERSONS, 1)
        assert needed in (refused.value.hint or "")
    finally:
        store.close()
        run(f"DROP USER {user}")
        run(f"DROP LOGIN {user}")


@pytest.mark.parametrize("collation", ["Latin1_General_CI_AS", "Latin1_General_BIN2"])
def test_names_that_differ_in_case_share_a_row_where_they_are_one_table_and_only_there(
    sqlserver: SqlServerEmulator, collation: str
) -> None:
    name = f"case_{collation}"
    with Login("127.0.0.1", sqlserver.port, USER, PASSWORD, "master").connect() as client, client.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {name} COLLATE {collation}")
    store = SqlServerOffsets(connection(Login("127.0.0.1", sqlserver.port, USER, PASSWORD, name)))
    store.ensure()
    store.claim(PERSONS, 1)
    store.commit(PERSONS, 1, seen=None, position=position(4))
    other = store.claim(TableName("DBO", "persons"), 1).position
    assert other == (None if collation.endswith("BIN2") else position(4))
    store.close()
    with Login("127.0.0.1", sqlserver.port, USER, PASSWORD, "master").connect() as client, client.cursor() as cursor:
        drop(cursor, name)


def test_names_of_the_greatest_length_have_rows_of_their_own(login: Login) -> None:
    store = SqlServerOffsets(connection(login))
    store.ensure()
    names = [TableName("s" * 128, "t" * 127 + end) for end in "ab"]
    for number, name in enumerate(names, 1):
        store.claim(name, 1)
        store.commit(name, 1, seen=None, position=position(number))
    assert [store.load(name, 1) for name in names] == [position(1), position(2)]
    store.close()


def test_nothing_stays_open_between_statements(login: Login) -> None:
    held = connection(login)
    store = SqlServerOffsets(held)
    steps: list[Callable[[], object]] = [
        store.ensure,
        lambda: store.claim(PERSONS, 1),
        lambda: store.commit(PERSONS, 1, seen=None, position=position(4)),
        lambda: store.load(PERSONS, 1),
    ]
    for step in steps:
        step()
        assert held.rows("SELECT @@TRANCOUNT")[0][0] == 0
    store.close()


OURS, THEIRS = "ours.servicebus.windows.net/ingest (server/o'db)", "theirs.servicebus.windows.net/ingest (server/o'db)"


def test_an_offset_whose_changes_are_sent_elsewhere_is_refused_and_stays_as_it_was(
    login: Login, run: Callable[[str], None]
) -> None:
    """A developer's ingester with a queue of its own would take production's changes away for good."""
    ours, theirs = SqlServerOffsets(connection(login), OURS), SqlServerOffsets(connection(login), THEIRS)
    ours.ensure()
    ours.claim(PERSONS, 1)
    ours.commit(PERSONS, 1, seen=None, position=position(3))
    with pytest.raises(PermanentError, match=r"are sent to ours.*but this ingester sends to theirs") as refused:
        theirs.claim(PERSONS, 9)
    ours.commit(PERSONS, 1, seen=position(3), position=position(4))  # the epoch is still 1
    hint = refused.value.hint or ""
    run(hint[hint.index("UPDATE dbo.cdc_offsets") : hint.index(" and start it again")])
    assert theirs.claim(PERSONS, 9).position == position(4)
    with pytest.raises(PermanentError, match="are sent to theirs"):
        ours.claim(PERSONS, 10)
    ours.close()
    theirs.close()


@pytest.mark.parametrize("shape", OLD_SHAPES)
def test_an_older_installations_offset_is_stamped_by_the_first_that_claims_it(
    login: Login, run: Callable[[str], None], shape: str
) -> None:
    for statement in OLD_SHAPES[shape]:
        run(statement)
    ours, theirs = SqlServerOffsets(connection(login), OURS), SqlServerOffsets(connection(login), THEIRS)
    ours.ensure()
    assert ours.claim(PERSONS, 1, "1 made at noon") == Claimed(LogPosition.before(lsn(3)), "1 made at noon")
    with pytest.raises(PermanentError, match="are sent to ours"):
        theirs.claim(PERSONS, 2)
    ours.close()
    theirs.close()


def test_a_claim_names_its_owner_one_by_one_and_together(login: Login) -> None:
    with closing(SqlServerOffsets(connection(login))) as store:
        store.ensure()
        store.claim(PERSONS, 1)
        store.claim_many([Claim(ORDERS, 1)])
    with login.connect() as reader, reader.cursor() as cursor:
        cursor.execute("SELECT DISTINCT owner FROM dbo.cdc_offsets")
        assert cursor.fetchall() == [(f"{this_owner()} 1",)], (
            "and its epoch: an older version that claims raises that alone"
        )


def test_an_older_table_that_cannot_get_the_column_of_owners_works_without_it(login: Login) -> None:
    user = f"claimer_{login.database}"
    with login.connect() as admin, admin.cursor() as cursor:
        for statement in (
            queries_of_offsets.CREATE,
            "ALTER TABLE dbo.cdc_offsets DROP COLUMN owner",
            f"CREATE LOGIN {user} WITH PASSWORD = N'{PASSWORD}'",
            f"CREATE USER {user} FOR LOGIN {user}",
            f"GRANT SELECT, INSERT, UPDATE ON OBJECT::dbo.cdc_offsets TO {user}",
        ):
            cursor.execute(statement)
    with closing(SqlServerOffsets(connection(replace(login, user=user)))) as store:
        store.ensure()
        assert store.claim(PERSONS, 1) == store.claim_many([Claim(PERSONS, 1)])[0]


def test_an_upgrade_does_not_wait_for_who_holds_the_table_while_others_commit(login: Login) -> None:
    with login.connect() as admin, admin.cursor() as cursor:
        cursor.execute(queries_of_offsets.CREATE)
        cursor.execute("ALTER TABLE dbo.cdc_offsets DROP COLUMN owner")
        cursor.execute("INSERT INTO dbo.cdc_offsets (table_name) VALUES (N'dbo.Held')")
        cursor.execute("BEGIN TRANSACTION; UPDATE dbo.cdc_offsets SET epoch = 7")
        with closing(SqlServerOffsets(connection(login))) as store:
            store.ensure()
            cursor.execute("ROLLBACK")
            assert store.claim(PERSONS, 1) == store.claim_many([Claim(PERSONS, 1)])[0]
