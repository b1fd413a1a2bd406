"""Rows of a real PostgreSQL after messages: the guard by position, keys, events, what a table does not take, and how long deletes are remembered."""

from __future__ import annotations

import itertools
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from structlog.testing import capture_logs

from common.bus.ports import MessageRefused, MessageUnwritable, OutOfTime
from common.errors import DStreamError, EntityMissing, EntityUnavailable
from common.message import Message
from router.outputs.port import Stream
from router.outputs.postgres.output import PostgresOutput
from tests.outputs.postgres.feed import Feed, stream
from tests.outputs.postgres.world import PostgresWorld, settings

PERSONS = [("ID", "int", 1), ("Name", "nvarchar(50)", None), ("Note", "nvarchar(max)", None)]


class Copy:
    """A table at the source, its messages, and the table of PostgreSQL that gets them."""

    def __init__(self, world: PostgresWorld, **more: Any) -> None:
        self.world = world
        self.stream = stream(**more)
        self.feed = Feed(self.stream)
        self.output = PostgresOutput(settings(world.port, **more))
        self.sender = self.output.sender(self.stream)

    def send(self, *messages: Message) -> None:
        self.sender.send(messages)

    def rows(self, columns: str = "id, name") -> Sequence[tuple[Any, ...]]:
        return self.world.server.rows(f"SELECT {columns} FROM {self.stream.destination} ORDER BY 1")

    def run(self, statement: str) -> None:
        self.world.server.run(statement.replace("TABLE_", self.stream.destination))

    def deleted(self) -> int:
        found = self.world.server.rows(
            f"SELECT count(*) FROM dstream.deleted_rows WHERE target = '{self.stream.destination}'"
        )
        return int(found[0][0])


@pytest.fixture
def copy(postgres: PostgresWorld) -> Iterator[Copy]:
    made = Copy(postgres)
    made.send(made.feed.schema(PERSONS))
    yield made
    made.output.close()


Make = Callable[..., Copy]


@pytest.fixture
def make(postgres: PostgresWorld) -> Iterator[Make]:
    made: list[Copy] = []

    def one(**more: Any) -> Copy:
        made.append(Copy(postgres, **more))
        return made[-1]

    yield one
    for each in made:
        each.output.close()


def test_inserts_updates_and_deletes_in_one_chunk_and_in_many(copy: Copy) -> None:
    feed = copy.feed
    messages = [
        feed.insert({"ID": 1, "Name": "a"}),
        feed.insert({"ID": 2, "Name": "b"}),
        feed.update({"ID": 1, "Name": "c"}),
        feed.delete({"ID": 2, "Name": "b"}),
        feed.insert({"ID": 3, "Name": None}),
    ]
    copy.send(*messages)
    assert copy.rows() == [(1, "c"), (3, None)]
    for message in messages:
        copy.send(message)
    assert copy.rows() == [(1, "c"), (3, None)]


def test_changes_of_a_row_in_any_order_leave_the_newest(copy: Copy) -> None:
    for number, order in enumerate(itertools.permutations(range(4))):
        feed = copy.feed
        row = {"ID": number, "Name": "x"}
        messages = [
            feed.insert(row),
            feed.update({**row, "Name": "y"}),
            feed.delete(row),
            feed.insert({**row, "Name": "z"}),
        ]
        for at in order:
            copy.send(messages[at])
    assert copy.rows() == [(number, "z") for number in range(24)]


def test_a_late_copy_of_an_insert_does_not_bring_a_deleted_row_back(copy: Copy) -> None:
    old, gone = copy.feed.insert({"ID": 1, "Name": "a"}), copy.feed.delete({"ID": 1, "Name": "a"})
    copy.send(gone)
    copy.send(old)
    assert copy.rows() == []
    copy.send(copy.feed.insert({"ID": 1, "Name": "b"}))
    assert copy.rows() == [(1, "b")]


def test_columns_without_a_value_stay_as_they_are_and_a_new_row_has_none_of_the_old_one(copy: Copy) -> None:
    feed = copy.feed
    copy.send(feed.insert({"ID": 1, "Name": "a", "Note": "kept"}))
    copy.send(feed.update({"ID": 1, "Name": "b"}))
    assert copy.rows("id, name, note") == [(1, "b", "kept")]
    copy.send(feed.insert({"ID": 2, "Name": "a", "Note": "once"}), feed.update({"ID": 2, "Name": "b"}))
    assert copy.rows("id, name, note")[1] == (2, "b", "once")
    copy.send(feed.delete({"ID": 1, "Name": "b"}), feed.insert({"ID": 1, "Name": "c"}))
    assert copy.rows("id, name, note")[0] == (1, "c", None)


@pytest.mark.parametrize("together", [True, False])
def test_an_update_of_the_key_moves_the_row_whichever_message_comes_first(copy: Copy, together: bool) -> None:
    feed = copy.feed
    messages = [
        feed.insert({"ID": 1, "Name": "a"}),
        feed.update({"ID": 2, "Name": "a"}, before={"ID": 1, "Name": "a"}, changed=["ID"]),
        feed.insert({"ID": 1, "Name": "another"}),
    ]
    for order in itertools.permutations(messages):
        for chunk in [order] if together else [[each] for each in order]:
            copy.send(*chunk)
        assert copy.rows() == [(1, "another"), (2, "a")]


def test_a_key_that_may_have_changed_without_the_row_before_is_said_once(copy: Copy) -> None:
    copy.send(copy.feed.insert({"ID": 1, "Name": "a"}))
    with capture_logs() as logs:
        for _ in range(2):
            copy.send(copy.feed.update({"ID": 1, "Name": "b"}, changed=["ID", "Name"]))
    assert [each["event"] for each in logs] == ["key changed without the row before"]


def test_rows_of_a_snapshot_replace_what_is_older_and_nothing_that_is_newer(copy: Copy) -> None:
    feed = copy.feed
    copy.send(feed.insert({"ID": 1, "Name": "old"}), feed.insert({"ID": 2, "Name": "old"}), feed.delete({"ID": 3}))
    at = feed.lsn
    copy.send(feed.update({"ID": 2, "Name": "newer"}), feed.delete({"ID": 4, "Name": "x"}))
    copy.send(*(feed.read({"ID": number, "Name": "read"}, lsn=at) for number in (1, 2, 3, 4, 5)))
    assert copy.rows() == [(1, "read"), (2, "newer"), (3, "read"), (5, "read")]


def test_rows_that_were_deleted_in_a_gap_are_removed_once_the_snapshot_behind_it_is_whole(copy: Copy) -> None:
    feed = copy.feed
    copy.send(*(feed.insert({"ID": number, "Name": "old"}) for number in range(4)))
    copy.send(feed.read({"ID": 0, "Name": "early"}, snapshot="early"))
    copy.send(feed.gap(100))
    copy.send(feed.read({"ID": 0, "Name": "early"}, lsn=101, snapshot="early", last=True))
    assert len(copy.rows()) == 4  # it began before the gap
    copy.send(feed.read({"ID": 1, "Name": "read"}, lsn=100), feed.insert({"ID": 9, "Name": "new"}, lsn=102))
    copy.send(feed.read({"ID": 2, "Name": "read"}, lsn=100, last=True))
    assert copy.rows() == [(0, "early"), (1, "read"), (2, "read"), (9, "new")]
    late = feed.message(2, {"ID": 3, "Name": "late"}, lsn=50)
    copy.send(late)
    assert len(copy.rows()) == 4


def test_the_gap_may_come_behind_the_snapshots_last_row(copy: Copy) -> None:
    feed = copy.feed
    copy.send(feed.insert({"ID": 1, "Name": "old"}))
    copy.send(feed.read({"ID": 2, "Name": "read"}, lsn=100, last=True), feed.gap(100))
    assert copy.rows() == [(2, "read")]


def test_events_about_transactions_change_nothing(copy: Copy) -> None:
    copy.send(copy.feed.message(-3, {}, lsn=5), copy.feed.message(-4, {}, lsn=5))
    assert copy.rows() == []


# Columns


def test_a_schema_event_adds_columns_and_widens_types(copy: Copy) -> None:
    feed = copy.feed
    copy.send(feed.insert({"ID": 1, "Name": "a"}))
    columns = [("ID", "int", 1), ("Name", "nvarchar(50)", None), ("Total", "decimal(9,2)", None)]
    copy.send(feed.schema(columns), feed.insert({"ID": 2, "Name": "b", "Total": "1.50"}))
    wider = [*columns[:2], ("Total", "decimal(18,4)", None)]
    copy.send(feed.schema(wider), feed.update({"ID": 1, "Name": "a", "Total": "12345678901.1234"}))
    copy.send(feed.schema(columns))  # a late copy takes nothing away
    assert [str(each[0]) for each in copy.rows("total")] == ["1.5000", "12345678901.1234"]


def test_changes_with_an_unknown_column_wait_until_it_is_there(copy: Copy) -> None:
    message = copy.feed.insert({"ID": 1, "Name": "a", "Age": 3})
    for _ in range(2):
        with pytest.raises(EntityUnavailable, match="has no column for Age"):
            copy.send(message)
    copy.run("ALTER TABLE TABLE_ ADD COLUMN age int")
    copy.send(message)
    assert copy.rows("id, age") == [(1, 3)]


def test_unknown_columns_are_left_out_where_the_settings_say_so(make: Make) -> None:
    copy = make(schema_changes="ignore")
    copy.run("CREATE TABLE TABLE_ (id int PRIMARY KEY, _dstream_position bytea)")
    copy.run("ALTER TABLE TABLE_ OWNER TO dstream")
    copy.send(copy.feed.schema(PERSONS), copy.feed.insert({"ID": 1, "Name": "a"}))
    assert copy.rows("*")[0][0] == 1


def test_a_column_that_was_dropped_or_retyped_meanwhile_is_noticed(copy: Copy) -> None:
    copy.send(copy.feed.insert({"ID": 1, "Name": "1", "Note": "n"}))
    copy.run("ALTER TABLE TABLE_ ALTER COLUMN name TYPE int USING name::int")
    copy.send(copy.feed.insert({"ID": 2, "Name": "2", "Note": "n"}))
    assert copy.rows() == [(1, 1), (2, 2)]
    copy.run("ALTER TABLE TABLE_ DROP COLUMN note")
    with pytest.raises(EntityUnavailable, match="has no column for Note"):
        copy.send(copy.feed.insert({"ID": 3, "Name": "3", "Note": "n"}))


def test_a_table_that_is_dropped_and_made_again_is_used_again(copy: Copy) -> None:
    copy.send(copy.feed.insert({"ID": 1, "Name": "a"}))
    copy.run("DROP TABLE TABLE_")
    message = copy.feed.insert({"ID": 2, "Name": "b"})
    with pytest.raises(EntityMissing, match="does not exist"):
        copy.send(message)
    copy.send(copy.feed.schema(PERSONS), message)
    assert copy.rows() == [(2, "b")]


def test_a_table_without_a_primary_key_or_a_position_column_is_refused(make: Make) -> None:
    copy = make()
    copy.run("CREATE TABLE TABLE_ (id int)")
    with pytest.raises(EntityUnavailable, match="it has no primary key"):
        copy.sender.open()
    copy.run("ALTER TABLE TABLE_ ADD PRIMARY KEY (id)")
    with pytest.raises(EntityUnavailable, match="_dstream_position") as raised:
        copy.sender.open()
    assert raised.value.hint is not None
    copy.world.server.run(raised.value.hint)
    copy.run("ALTER TABLE TABLE_ OWNER TO dstream")
    copy.sender.open()


def test_names_of_any_length_and_any_characters(make: Make) -> None:
    copy = make()
    odd = {
        'a "b" 100% $1 {x}': "1",
        "n" * 70 + "1": "2",
        "n" * 70 + "2": "3",
        "select": "4",
        "c0": "5",
        "p": "6",
        "Ж": "7",
    }
    columns = [("ID", "int", 1), *((name, "nvarchar(9)", None) for name in odd)]
    copy.send(copy.feed.schema(columns), copy.feed.insert({"ID": 1, **odd}), copy.feed.update({"ID": 1, **odd}))
    assert copy.rows("*")[0][:-1] == (1, *odd.values())


def test_names_as_at_the_source(make: Make) -> None:
    copy = make(names="source")
    copy.send(copy.feed.schema(PERSONS), copy.feed.insert({"ID": 1, "Name": "a", "Note": None}))
    assert copy.stream.destination.startswith('"dbo"."Things')
    assert copy.rows('"ID", "Name"') == [(1, "a")]


# What a table does not take


def test_a_value_that_does_not_fit_waits_and_goes_on_when_it_does(copy: Copy) -> None:
    copy.run("ALTER TABLE TABLE_ ALTER COLUMN name TYPE varchar(3)")
    messages = [copy.feed.insert({"ID": number, "Name": "abcd" if number == 3 else "abc"}) for number in range(6)]
    with pytest.raises(EntityUnavailable) as raised:
        copy.send(*messages)
    assert str(messages[3].message_id) in str(raised.value)
    assert "abcd" not in str(raised.value)
    assert [each[0] for each in copy.rows()] == [0, 1, 2]
    copy.run("ALTER TABLE TABLE_ ALTER COLUMN name TYPE text")
    copy.send(*messages)
    assert len(copy.rows()) == 6


def test_a_value_that_does_not_fit_is_refused_where_the_settings_say_so(make: Make) -> None:
    copy = make(on_unfit="dead_letter")
    copy.send(copy.feed.schema(PERSONS))
    copy.run("ALTER TABLE TABLE_ ADD CONSTRAINT short CHECK (length(name) < 4)")
    messages = [copy.feed.insert({"ID": number, "Name": "abcd" if number == 3 else "abc"}) for number in range(6)]
    with pytest.raises(MessageRefused) as raised:
        copy.send(*messages)
    assert (raised.value.at, raised.value.accepted, raised.value.by_entity) == (3, frozenset({0, 1, 2}), True)
    assert 'constraint "short"' in str(raised.value)
    assert "abcd" not in str(raised.value)


def test_text_that_cannot_be_stored_is_refused_or_replaced(copy: Copy, make: Make) -> None:
    half = copy.feed.message(2, b'{"ID":2,"Name":"a\\ud83dz"}', lsn=900)
    for bad in (copy.feed.insert({"ID": 1, "Name": "a\0b"}), half):
        with pytest.raises(MessageUnwritable, match="column Name") as raised:
            copy.send(copy.feed.insert({"ID": 7, "Name": "fine \\u0000"}), bad)
        assert (raised.value.at, raised.value.accepted) == (1, frozenset({0}))
    other = make(unstorable_text="replace")
    other.send(other.feed.schema(PERSONS), other.feed.insert({"ID": 1, "Name": "a\0b"}))
    other.send(other.feed.message(2, b'{"ID":2,"Name":"a\\ud83dz"}', lsn=900))
    assert other.rows() == [(1, "a\ufffdb"), (2, "a\ufffdz")]
    assert copy.rows() == [(7, "fine \\u0000")]


def test_a_message_of_another_sender_is_refused(copy: Copy) -> None:
    for body in (b"{}", b"hello", b'{"data":{},"metadata":{"OperationID":77}}'):
        with pytest.raises(MessageUnwritable, match="cannot be applied"):
            copy.send(Message(body, "x"))


def test_two_spellings_of_one_key_are_applied_one_after_the_other(make: Make) -> None:
    copy = make()
    copy.send(copy.feed.schema([("ID", "uniqueidentifier", 1), ("Name", "nvarchar(9)", None)]))
    key = "6F9619FF-8B86-D011-B42D-00C04FC964FF"
    copy.send(copy.feed.insert({"ID": key, "Name": "a"}), copy.feed.update({"ID": key.lower(), "Name": "b"}))
    assert [name for _, name in copy.rows()] == ["b"]
    copy.send(copy.feed.delete({"ID": key}))
    assert copy.rows() == []


# Time


def test_no_time_is_left(copy: Copy) -> None:
    with pytest.raises(OutOfTime):
        copy.sender.send([copy.feed.insert({"ID": 1, "Name": "a"})], left=lambda: 0.0)
    assert copy.rows() == []


def test_a_lock_that_somebody_else_holds_ends_the_send_in_time(make: Make) -> None:
    copy = make(timeout=2.0)
    copy.send(copy.feed.schema(PERSONS))
    message = copy.feed.insert({"ID": 1, "Name": "a"})
    with copy.world.server.connect() as other:
        other.execute("BEGIN")
        other.execute(f"LOCK TABLE {copy.stream.destination}".encode())
        with pytest.raises(Exception, match=r"time|lock"):
            copy.send(message)
        other.execute("ROLLBACK")
    copy.send(message)
    assert copy.rows() == [(1, "a")]


def test_deletes_are_forgotten_after_a_while(copy: Copy) -> None:
    copy.send(copy.feed.delete({"ID": 1, "Name": "a"}), copy.feed.delete({"ID": 2, "Name": "a"}))
    assert copy.deleted() == 2
    copy.run("UPDATE dstream.deleted_rows SET deleted_at = now() - interval '8 days' WHERE key = '{1}'")
    other = copy.output.sender(copy.stream)
    other.send([copy.feed.insert({"ID": 3, "Name": "a"})])
    assert copy.deleted() == 1


def test_a_large_sweep_goes_on_where_it_stopped(copy: Copy, monkeypatch: pytest.MonkeyPatch) -> None:
    from router.outputs.postgres import target

    monkeypatch.setattr(target, "_SWEPT_PAGES", 1)
    feed = copy.feed
    copy.send(*(feed.insert({"ID": number, "Name": "x" * 100}) for number in range(400)))
    copy.send(feed.gap(1000))
    left = iter([30.0] * 4 + [0.0] * 10)
    last = feed.read({"ID": 5, "Name": "read"}, lsn=1000, last=True)
    with pytest.raises(OutOfTime) as raised:
        copy.sender.send([last], left=lambda: next(left))
    assert raised.value.accepted == frozenset()
    assert 1 < len(copy.rows()) < 400
    copy.send(last)
    assert copy.rows() == [(5, "read")]


def test_an_interrupted_sweep_that_another_router_has_ended_leaves_the_next_gap_alone(
    copy: Copy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("router.outputs.postgres.target._SWEPT_PAGES", 1)
    feed, other = copy.feed, copy.output.sender(copy.stream)
    rows = [{"ID": number, "Name": "x" * 200} for number in range(400)]
    copy.send(*(feed.insert(row) for row in rows))
    gap = [feed.gap(1000), *(feed.read(row, lsn=1000, snapshot="one", last=row["ID"] == 399) for row in rows)]
    left = iter([30.0] * 8 + [0.0] * 10)
    with pytest.raises(OutOfTime):
        copy.sender.send(gap, left=lambda: next(left))
    assert copy.world.server.rows(_SWEEPS.format(copy.stream.destination)) != [("",)]
    other.send(gap)
    assert copy.world.server.rows(_SWEEPS.format(copy.stream.destination)) == [("",)]
    copy.run("VACUUM FULL TABLE_")
    kept = [feed.read(row, lsn=2000, snapshot="two", last=row["ID"] == 399) for row in rows[300:]]
    copy.send(feed.gap(2000), *kept)
    assert len(copy.rows()) == 100


_SWEEPS = "SELECT gap FROM dstream.target_tables WHERE target = '{}'"


def test_more_deletes_than_are_forgotten_at_once_are_forgotten_all_the_same(
    copy: Copy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("router.outputs.postgres.target._FORGET_AT_ONCE", 10)
    feed = copy.feed
    copy.send(*(feed.delete({"ID": number, "Name": None}) for number in range(25)))
    copy.run("UPDATE dstream.deleted_rows SET deleted_at = now() - interval '8 days' WHERE target = 'TABLE_'")
    again = copy.output.sender(copy.stream)
    left = list[int]()
    for number in range(4):
        again.send([feed.insert({"ID": 100 + number, "Name": "x"})])
        left.append(copy.deleted())
    assert left == [15, 5, 0, 0]


def test_a_row_with_a_long_key_is_deleted_and_does_not_come_back(make: Make) -> None:
    copy = make()
    feed, columns = copy.feed, [("K", "varbinary(1600)", 1), ("N", "int", None)]
    rows = [{"K": b64encode(Random(seed).randbytes(1600)).decode(), "N": seed} for seed in range(2)]
    inserts = [feed.insert(row) for row in rows]
    copy.send(feed.schema(columns), *inserts)
    copy.send(feed.delete(rows[0]))
    copy.send(*inserts)
    assert (copy.rows("n"), copy.deleted()) == ([(1,)], 1)
    copy.send(feed.gap(1000), feed.read({"K": "AA==", "N": 9}, lsn=1000, last=True))
    copy.send(*inserts)
    assert (copy.rows("n"), copy.deleted()) == ([(9,)], 2)


@pytest.mark.parametrize("code", ["42501", "57014", "23514", "P0001"])
def test_a_trigger_that_quotes_the_row_brings_no_value_to_the_log(copy: Copy, code: str) -> None:
    name = copy.stream.destination.replace('"', "").replace(".", "_")
    copy.run(
        f"CREATE FUNCTION dbo.boom_{name}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        f"RAISE EXCEPTION 'row %', NEW USING ERRCODE = '{code}', CONSTRAINT = NEW.name, COLUMN = NEW.name; END $$"
    )
    copy.run(f"CREATE TRIGGER boom BEFORE INSERT ON TABLE_ FOR EACH ROW EXECUTE FUNCTION dbo.boom_{name}()")
    with pytest.raises(DStreamError, match=code) as raised:
        copy.send(copy.feed.insert({"ID": 1, "Name": "Diana"}))
    assert "Diana" not in f"{raised.value} {raised.value.hint}"


def test_a_schema_event_of_somebody_else_is_refused_behind_what_was_before_it(copy: Copy) -> None:
    odd = copy.feed.schema([("ID", "int", 1)])
    odd = replace(odd, body=odd.body.replace(b'"Name":"ID"', b'"Name":"\\u0000"'))
    with pytest.raises(MessageUnwritable) as raised:
        copy.send(copy.feed.insert({"ID": 1, "Name": "a"}), odd, copy.feed.insert({"ID": 2, "Name": "b"}))
    assert (raised.value.at, raised.value.accepted, copy.rows()) == (1, frozenset({0}), [(1, "a")])


def test_a_table_has_the_rows_of_one_database_until_a_person_gives_it_to_another(copy: Copy) -> None:
    feed = copy.feed
    other = [replace(each, body=each.body.replace(b'"shop"', b'"Shop2"')) for each in (feed.insert({"ID": 1}),)]
    copy.send(feed.insert({"ID": 1, "Name": "of shop"}))
    taker = copy.output.sender(copy.stream)
    for sender in (copy.sender, taker):
        with pytest.raises(
            EntityUnavailable, match=r"has rows of server\.shop, and these are of server\.shop2"
        ) as raised:
            sender.send(other)
    assert copy.rows() == [(1, "of shop")]
    copy.run("TRUNCATE TABLE_")
    hint = str(raised.value.hint)
    copy.run(hint[hint.index("UPDATE") :])
    taker.send(other)
    assert copy.rows() == [(1, None)]


def test_a_gap_is_said_once_with_the_statement_that_removes_what_is_older(copy: Copy) -> None:
    copy.send(copy.feed.insert({"ID": 1, "Name": "a"}), copy.feed.insert({"ID": 2, "Name": "b"}, lsn=100))
    with capture_logs() as logs:
        copy.send(copy.feed.gap(100))
        copy.send(copy.feed.gap(100))
    [hint] = [entry["hint"] for entry in logs if entry["event"].startswith("changes of a table are lost")]
    copy.run(hint[hint.index("DELETE") :])
    assert copy.rows() == [(2, "b")]


def test_a_table_that_a_crash_empties_is_found(copy: Copy) -> None:
    copy.run("ALTER TABLE TABLE_ SET UNLOGGED")
    texts = [each.text for each in copy.output.findings([copy.stream], provision="verify")]
    assert [text for text in texts if "UNLOGGED" in text]


def test_a_stream_of_transactions_needs_no_table(postgres: PostgresWorld) -> None:
    from common.names import TRANSACTIONS

    output = PostgresOutput(settings(postgres.port))
    nowhere = Stream("server.shop.cdc.transactions.events", TRANSACTIONS, '"cdc"."transactions"')
    sender = output.sender(nowhere)
    sender.open()
    sender.send([Feed(nowhere).message(-3, {}, lsn=5)])
    assert list(output.provision([nowhere], how="verify")) == []
    output.close()
