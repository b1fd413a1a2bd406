"""Which change a message is: the same wherever it is asked, another for every other change, and never longer than the service takes."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.names import Ordering, Origin, TableName
from ingester.change import Change, Operation
from ingester.sqlserver.position import LogPosition, Lsn
from ingester.task.identity import identity
from tests.fakes.ingester import position

AT = LogPosition(Lsn(bytes.fromhex("0000003600000b200003")), 1, bytes.fromhex("0000003600000b200002"), 2)
NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=60)


def event_id(database: str, table: TableName, at: LogPosition) -> str:
    change = Change(table, "dbo_T", at, Operation(at.operation), {})
    return identity(change, Origin("server", database), "none", 1).event_id


@given(NAMES, NAMES, NAMES, st.integers(0, 2**31 - 1))
def test_an_event_id_has_at_most_128_characters_and_depends_on_the_change_alone(
    database: str, schema: str, table: str, command: int
) -> None:
    where = LogPosition(AT.lsn, command, AT.seqval, 2)
    found = event_id(database, TableName(schema, table), where)
    assert len(found) <= 128
    assert found == event_id(database, TableName(schema, table), where)


def test_each_part_of_a_position_makes_another_event_id() -> None:
    table = TableName("dbo", "T")
    ids = {
        event_id("db", table, p)
        for p in (position(1), position(2), position(1, command=2), position(1, seq=2), position(1, operation=4))
    }
    assert len(ids) == 5


def test_names_that_leave_no_room_for_the_position_are_hashed() -> None:
    """Event ids are remembered by queues, topics and consumers: they are the same in every release."""
    where = "0000003600000b200003-1-0000003600000b200002-2"
    longest = "t" * (128 - len(f"db.dbo.:{where}"))
    assert event_id("db", TableName("dbo", longest), AT) == f"db.dbo.{longest}:{where}"
    digest = hashlib.sha256(f"db.dbo.{longest}t".encode()).hexdigest()[:32]
    assert event_id("db", TableName("dbo", f"{longest}t"), AT) == f"{digest}:{where}"


@pytest.mark.parametrize(
    ("ordering", "key", "session_id"),
    [
        ("table", (7,), "server.db.t.events@again"),
        ("key", (), "server.db.t.events@again"),
        ("key", (7,), "server.db.t.events@again#6"),
        ("none", (7,), None),
    ],
)
def test_a_change_for_another_topic_is_the_same_change_with_another_destination_and_session(
    ordering: Ordering, key: tuple[object, ...], session_id: str | None
) -> None:
    origin = Origin("server", "db")
    change = Change(TableName("dbo", "T"), "dbo_T", AT, Operation.INSERT, {}, key=key)
    usual = identity(change, origin, ordering, 8)
    found = identity(replace(change, topic="again"), origin, ordering, 8)
    assert found == usual._replace(destination="again", session_id=session_id)
    assert found.session_id is None or found.session_id != usual.session_id
