"""Whether a newer change of a row was sent: of every kind of change, from the change tables and the stored offset alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

import pymssql
import pytest
from pydantic import SecretStr

from common.errors import TransientError
from common.names import TableName
from common.sqladdress import SqlAddress
from emulators.sqlserver.cdc.injection import InjectedTransaction
from ingester.change import Operation
from ingester.operating.newer import ChangeRef, Newer, Sent
from ingester.position import Position
from ingester.source import PageQuery
from ingester.sqlserver.connection import Connection
from ingester.sqlserver.offsets import SqlServerOffsets
from ingester.sqlserver.operating import newer as module
from ingester.sqlserver.operating.desk import SqlServerDesk
from ingester.sqlserver.operating.newer import SqlServerNewer
from ingester.sqlserver.position import LogPosition, Lsn
from ingester.sqlserver.source import SqlServerSource
from ingester.sqlserver.sql import newer as queries
from tests.contracts.source import log_shapes
from tests.contracts.source.conftest import Log, Places
from tests.contracts.source.test_source import PERSONS, Place

_epochs = count(1)
_LAST = Lsn(b"\xff" * 10)


class Asking:
    def __init__(self, place: Place) -> None:
        self.place = place
        self.offsets = SqlServerOffsets(Connection(place.address_of(place.login)))
        self.offsets.ensure()
        connection = Connection(place.address_of(place.login))
        self.source = SqlServerSource(connection)
        self.newer = SqlServerNewer(connection, self.source, SqlServerDesk(connection))

    def changes(self) -> list[ChangeRef]:
        """All that are captured of dbo.Persons, as their messages name them."""
        self.place.scan()
        return [_ref(change) for change in self.place.read()]

    def sent(self, upto: Position | None = None) -> None:
        """Set the offset: behind all that is captured, or to a position."""
        instance = self.place.instance()
        if upto is None:
            page = self.place.source.page(PageQuery(instance, instance.start, LogPosition.end_of(_LAST), 10_000))
            upto = page.end or instance.start
        epoch = next(_epochs)
        claimed = self.offsets.claim(PERSONS, epoch, instance.source)
        self.offsets.commit(PERSONS, epoch, seen=claimed.position, position=upto)

    def of(self, *refs: ChangeRef) -> list[Sent]:
        return [self.answer(ref).sent for ref in refs]

    def answer(self, ref: ChangeRef) -> Newer:
        return self.newer.newer_sent([ref])[ref]

    def close(self) -> None:
        self.newer.close()
        self.offsets.close()


def _ref(change: Any) -> ChangeRef:
    _, lsn, command, seqval = change.position.place()
    return ChangeRef(
        "dbo", change.table.table, lsn, seqval, int(change.operation), change.capture_instance, command_id=command
    )


@pytest.fixture
def asking(places: Places) -> Iterator[Callable[..., Asking]]:
    made: list[Asking] = []

    def make(**options: Any) -> Asking:
        made.append(Asking(places(**options)))
        return made[-1]

    yield make
    for each in made:
        each.close()


def run(place: Place, *statements: str) -> None:
    for each in statements:
        place.execute(each)


def test_a_newer_change_of_the_same_row_up_to_the_offset_was_sent_and_others_do_not_matter(
    asking: Callable[..., Asking],
) -> None:
    desk = asking()
    run(
        desk.place,
        "INSERT INTO dbo.Persons (ID, Name) VALUES (1, N'a'), (2, N'a')",
        "UPDATE dbo.Persons SET Name = N'b' WHERE ID = 1",
        "DELETE FROM dbo.Persons WHERE ID = 1",
        "INSERT INTO dbo.Persons (ID, Name) VALUES (1, N'c')",
    )
    changes = desk.changes()
    desk.sent()
    assert [each.operation_id for each in changes] == [2, 2, 4, 1, 2]
    assert desk.of(*changes) == [Sent.YES, Sent.NO, Sent.YES, Sent.YES, Sent.NO]
    together = desk.newer.newer_sent(changes)
    assert [together[each].sent for each in changes] == [Sent.YES, Sent.NO, Sent.YES, Sent.YES, Sent.NO]
    assert together[changes[0]].lsn == changes[4].lsn
    assert desk.of(replace(changes[0], command_id=None, lsn=f"0x{changes[0].lsn.upper()}")) == [Sent.YES]


def test_newer_changes_are_named_where_they_are_few_and_all_of_them_were_sent(
    asking: Callable[..., Asking], monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = asking()
    run(
        desk.place,
        "INSERT INTO dbo.Persons (ID, Name) VALUES (1, N'a'), (2, N'a')",
        "UPDATE dbo.Persons SET Name = N'b' WHERE ID = 1",
        "UPDATE dbo.Persons SET Name = N'c' WHERE ID = 1",
        "DELETE FROM dbo.Persons WHERE ID = 1",
    )
    changes = desk.changes()
    desk.sent()
    mine = [each for each in changes if each != changes[1]]

    def named() -> list[set[ChangeRef] | None]:
        found = desk.newer.newer_sent(changes)
        return [None if found[each].changes is None else set(found[each].changes or ()) for each in mine]

    assert named() == [set(mine[1:]), set(mine[2:]), set(mine[3:]), None]
    monkeypatch.setattr(module, "WINDOW", 2)
    assert named() == [set(mine[1:]), set(mine[2:]), set(mine[3:]), None]
    monkeypatch.setattr(module, "MOST_NAMED", 2)
    assert named() == [None, set(mine[2:]), set(mine[3:]), None]
    assert desk.of(*mine) == [Sent.YES, Sent.YES, Sent.YES, Sent.NO]
    run(desk.place, "INSERT INTO dbo.Persons (ID, Name) VALUES (1, N'd')")
    desk.changes()
    assert named() == [None] * 4
    assert desk.of(*mine) == [Sent.YES, Sent.YES, Sent.YES, Sent.UNKNOWN]


def test_what_waits_in_the_same_transaction_as_what_was_sent_is_seen(asking: Callable[..., Asking]) -> None:
    desk = asking()
    run(
        desk.place,
        "INSERT INTO dbo.Persons (ID) VALUES (1)",
        "BEGIN TRAN; UPDATE dbo.Persons SET Name = N'b' WHERE ID = 1; UPDATE dbo.Persons SET Name = N'c' WHERE ID = 1; COMMIT",
    )
    first = desk.changes()[0]
    desk.sent(desk.place.read()[1].position)
    answer = desk.answer(first)
    assert (answer.sent, answer.changes) == (Sent.YES, None)
    desk.sent()
    assert len(desk.answer(first).changes or ()) == 2


def test_a_newer_change_behind_the_offset_may_be_on_its_way(asking: Callable[..., Asking]) -> None:
    desk = asking()
    run(desk.place, "INSERT INTO dbo.Persons (ID) VALUES (1)", "INSERT INTO dbo.Persons (ID) VALUES (2)")
    desk.changes()
    desk.sent()
    run(desk.place, "UPDATE dbo.Persons SET Name = N'b' WHERE ID = 1")
    one, two, later = desk.changes()
    answer = desk.answer(one)
    assert (answer.sent, answer.lsn) == (Sent.UNKNOWN, later.lsn)
    assert "about to be sent" in str(answer.why)
    assert desk.of(two) == [Sent.NO]


def test_the_offset_may_be_within_a_transaction(asking: Callable[..., Asking]) -> None:
    desk = asking()
    run(
        desk.place,
        "INSERT INTO dbo.Persons (ID) VALUES (1), (2)",
        "BEGIN TRAN; UPDATE dbo.Persons SET Name = N'b' WHERE ID = 1; UPDATE dbo.Persons SET Name = N'c' WHERE ID = 2; COMMIT",
    )
    changes = desk.changes()
    third = desk.place.read()[2]
    desk.sent(third.position)
    assert desk.of(*changes[:2]) == [Sent.YES, Sent.UNKNOWN]


@pytest.mark.parametrize("command_ids", [True, False], ids=["with command ids", "without"])
def test_an_update_of_the_key_concerns_the_old_key_and_the_new_one(
    asking: Callable[..., Asking], log: Log, command_ids: bool
) -> None:
    desk = asking(command_ids=command_ids)
    cdc = log(desk.place)
    for shape in (
        [(2, 1)],
        [(3, 1), (4, 5)],  # one update that changes the key from 1 to 5
        [(2, 2)],
        [(2, 1)],  # the old key again: newer than the update, which took it from its row
    ):
        transaction, seqval = InjectedTransaction(cdc), None
        for operation, number in shape:
            person = log_shapes.person(number)
            seqval = transaction.change("Persons", operation, person, changed=["ID"], seqval=seqval)
        transaction.commit()
    first, moved, other, again = desk.changes()
    desk.sent()
    assert desk.of(first, moved, other, again) == [Sent.YES, Sent.YES, Sent.NO, Sent.NO]


def test_the_halves_of_a_deferred_update_are_told_apart(asking: Callable[..., Asking], log: Log) -> None:
    """All deletes come first, of 1 to 5, then all inserts, of 2 to 6; each pair shares its sequence value."""
    desk = asking()
    log_shapes.deferred_sharing_seqvals(log(desk.place))
    changes = desk.changes()
    desk.sent()
    deletes, inserts = changes[:5], changes[5:]
    assert {each.operation_id for each in deletes} == {Operation.DELETE}
    assert desk.of(*deletes) == [Sent.NO, *[Sent.YES] * 4]
    assert desk.of(*inserts) == [Sent.NO] * 5


def test_a_change_that_cleanup_removed_is_unknown_and_so_is_one_in_no_place(asking: Callable[..., Asking]) -> None:
    desk = asking()
    run(desk.place, "INSERT INTO dbo.Persons (ID) VALUES (1)")
    [first] = desk.changes()
    run(desk.place, "INSERT INTO dbo.Persons (ID) VALUES (2)")
    last = desk.changes()[-1]
    desk.sent()
    desk.place.execute(
        f"EXEC sys.sp_cdc_cleanup_change_table @capture_instance = N'dbo_Persons', @low_water_mark = 0x{last.lsn}"
    )
    assert desk.of(last) == [Sent.NO]
    for gone in (
        first,
        replace(first, table="Nobody"),
        replace(last, seqval="0" * 20),
        replace(last, lsn="xyz"),
        replace(last, operation_id=4),
        replace(last, schema=""),
        replace(last, schema="cdc", table="transactions", operation_id=-3),
    ):
        answer = desk.answer(gone)
        assert answer.sent == Sent.UNKNOWN
        assert answer.why
    assert "cleanup" in str(desk.answer(first).why)


def test_a_row_of_a_snapshot_is_last_only_where_nothing_of_its_table_followed(asking: Callable[..., Asking]) -> None:
    desk = asking()
    run(desk.place, "INSERT INTO dbo.Persons (ID) VALUES (1)")
    [first] = desk.changes()
    desk.sent()
    read = replace(first, operation_id=0, seqval="0" * 20, command_id=0)
    gap = replace(read, operation_id=-1)
    assert desk.of(read) == [Sent.NO]
    run(desk.place, "INSERT INTO dbo.Persons (ID) VALUES (2)")
    desk.changes()
    assert desk.of(read, gap) == [Sent.UNKNOWN] * 2


def test_a_table_without_a_key_is_answered_only_for_its_last_change(asking: Callable[..., Asking]) -> None:
    desk = asking()
    run(
        desk.place,
        "EXEC sys.sp_cdc_disable_table N'dbo', N'Persons', N'all'",
        "DROP TABLE dbo.Persons",
        "CREATE TABLE dbo.Persons (ID INT NOT NULL, Name NVARCHAR(50) NULL)",
    )
    desk.place.enable()
    run(desk.place, "INSERT INTO dbo.Persons VALUES (1, N'a')", "INSERT INTO dbo.Persons VALUES (2, N'a')")
    one, two = desk.changes()
    desk.sent()
    answer = desk.answer(one)
    assert (answer.sent, answer.lsn) == (Sent.UNKNOWN, two.lsn)
    assert "no key" in str(answer.why)
    assert desk.of(two) == [Sent.NO]


def test_without_an_offset_nothing_is_known(asking: Callable[..., Asking]) -> None:
    desk = asking()
    run(desk.place, "INSERT INTO dbo.Persons (ID) VALUES (1)")
    answer = desk.answer(desk.changes()[0])
    assert answer.sent == Sent.UNKNOWN
    assert "no offset" in str(answer.why)


def test_all_tables_are_looked_up_at_once(asking: Callable[..., Asking], monkeypatch: pytest.MonkeyPatch) -> None:
    desk = asking()
    run(desk.place, "INSERT INTO dbo.Persons (ID, Name) VALUES (1, N'a')")
    [one] = desk.changes()
    desk.sent()
    others = [replace(one, table=f"Other{number}") for number in range(5)]
    for each in others:
        table, epoch = TableName("dbo", each.table), next(_epochs)
        claimed = desk.offsets.claim(table, epoch, None)
        desk.offsets.commit(table, epoch, seen=claimed.position, position=desk.place.instance().start)
    asked, states = list[int](), desk.source.states

    def counting(tables: Sequence[TableName]) -> Any:
        asked.append(len(tables))
        return states(tables)

    monkeypatch.setattr(desk.source, "states", counting)
    found = desk.newer.newer_sent([one, *others])
    assert [found[each].sent for each in (one, *others)] == [Sent.NO, *[Sent.UNKNOWN] * 5]
    assert asked == [6]
    assert desk.of(one, *others) == [Sent.NO, *[Sent.UNKNOWN] * 5]
    assert asked == [6], "for a while"


def test_another_capture_instance_of_the_table_answers_for_one_that_was_dropped(asking: Callable[..., Asking]) -> None:
    desk = asking()
    run(desk.place, "INSERT INTO dbo.Persons (ID) VALUES (1)")
    desk.changes()
    desk.place.enable(capture_instance="second")
    run(desk.place, "INSERT INTO dbo.Persons (ID) VALUES (2)", "UPDATE dbo.Persons SET Name = N'x' WHERE ID = 2")
    old, two, three = desk.changes()
    desk.sent()
    assert desk.of(old, two, three) == [Sent.NO, Sent.YES, Sent.NO]
    desk.place.execute("EXEC sys.sp_cdc_disable_table N'dbo', N'Persons', N'dbo_Persons'")
    desk.newer.close()
    connection = Connection(desk.place.address_of(desk.place.login))
    desk.newer = SqlServerNewer(connection, SqlServerSource(connection), SqlServerDesk(connection))
    assert desk.of(old, two, three) == [Sent.UNKNOWN, Sent.YES, Sent.NO]


def test_many_changes_are_looked_through_in_windows_and_not_for_ever(
    asking: Callable[..., Asking], monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = asking()
    run(
        desk.place,
        *(f"INSERT INTO dbo.Persons (ID) VALUES ({number})" for number in range(1, 31)),
        "UPDATE dbo.Persons SET Name = N'x' WHERE ID IN (1, 7)",
    )
    changes = desk.changes()
    desk.sent()
    expected = [Sent.YES if number in (1, 7) else Sent.NO for number in range(1, 31)]
    monkeypatch.setattr(module, "WINDOW", 4)
    monkeypatch.setattr(module, "SECONDS", 60.0)
    found = desk.newer.newer_sent(changes[:30])
    assert [found[each].sent for each in changes[:30]] == expected
    monkeypatch.setattr(module, "MOST_ROWS", 8)
    answer = desk.answer(changes[0])
    assert answer.sent == Sent.UNKNOWN
    assert "too many changes" in str(answer.why)
    assert desk.of(changes[29]) == [Sent.NO]


def test_it_needs_no_right_but_that_of_the_ingester(asking: Callable[..., Asking]) -> None:
    desk = asking()
    place = desk.place
    run(place, "INSERT INTO dbo.Persons (ID) VALUES (1)")
    changes = desk.changes()
    desk.sent()
    user = f"newer_{place.login.database}"
    run(
        place,
        f"CREATE LOGIN {user} WITH PASSWORD = N'Reader-Password-1'",
        f"CREATE USER reader FOR LOGIN {user}",
        "GRANT SELECT ON OBJECT::dbo.cdc_offsets TO reader",
        "GRANT SELECT ON OBJECT::dbo.Persons TO reader",
    )
    for name in ("change_tables", "captured_columns", "index_columns", "lsn_time_mapping"):
        place.execute(f"GRANT SELECT ON OBJECT::cdc.{name} TO reader")
    login = place.login
    address = SqlAddress(login.host, login.port, None, login.database, user, SecretStr("Reader-Password-1"))

    def asked() -> Sequence[Newer]:
        connection = Connection(address)
        newer = SqlServerNewer(connection, SqlServerSource(connection), SqlServerDesk(connection))
        found = newer.newer_sent(changes)
        newer.close()
        return [found[each] for each in changes]

    [answer] = asked()
    assert answer.sent == Sent.UNKNOWN
    assert "GRANT SELECT ON SCHEMA::cdc" in str(answer.why)
    place.execute("GRANT SELECT ON SCHEMA::cdc TO reader")
    assert [each.sent for each in asked()] == [Sent.NO]


def test_nothing_asked_is_nothing_answered(asking: Callable[..., Asking]) -> None:
    assert asking().newer.newer_sent([]) == {}


@pytest.mark.parametrize("command_ids", [True, False], ids=["with command ids", "without"])
def test_a_few_rows_are_sought_by_all_parts_of_the_index(asking: Callable[..., Asking], command_ids: bool) -> None:
    desk = asking(command_ids=command_ids)
    run(desk.place, "INSERT INTO dbo.Persons (ID, Name) VALUES (1, N'a')", "DELETE FROM dbo.Persons WHERE ID = 1")
    changes = desk.changes()
    desk.sent()
    assert desk.of(*changes) == [Sent.YES, Sent.NO]
    instance, known = desk.place.instance(), queries.Asked(bytes(10), 1, bytes(10), 4)
    text, _ = queries.rows_asked(instance, [known])
    assert "AS c WITH (FORCESEEK)" in text
    assert ("c.[__$command_id] = asked.command" in text) is command_ids
    assert "ISNULL(c.[__$command_id], 0) = asked.command" not in text
    mixed, _ = queries.rows_asked(instance, [known, replace(known, command_id=-1)])
    assert ("ISNULL(c.[__$command_id], 0) = asked.command" in mixed) is command_ids


def test_a_lock_that_is_in_the_way_is_waited_for_within_the_time(
    asking: Callable[..., Asking], monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = asking()
    run(desk.place, "INSERT INTO dbo.Persons (ID, Name) VALUES (1, N'a')", "DELETE FROM dbo.Persons WHERE ID = 1")
    changes = desk.changes()
    desk.sent()
    original, refused = desk.newer._connection.rows, list[str]()

    def rows(sql: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        if "asked" in sql and len(refused) < 2:
            refused.append(sql)
            cause = pymssql.OperationalError(1222, b"Lock request time out period exceeded.")
            raise TransientError("reading: a lock") from cause
        return original(sql, parameters)

    monkeypatch.setattr(desk.newer._connection, "rows", rows)
    assert desk.of(*changes) == [Sent.YES, Sent.NO]
    assert len(refused) == 2
    refused.clear()
    monkeypatch.setattr(module, "SECONDS", 0.1)
    assert desk.of(changes[0]) == [Sent.UNKNOWN], "the time is over"
