"""Changes that fit no message: the table stops and says which, or a stand-in is sent in their place; the others arrive in order."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace

import pytest

from common.bus.ports import MessageTooLarge
from common.clock import SteadyTime, UnixTime
from common.errors import TransientError
from common.message import Message
from common.names import Origin, TableName
from ingester.change import Change, Operation
from ingester.oversize import Outgoing, Oversized, oversized
from ingester.slices import Slice, SliceResult, Trouble
from ingester.source import CapturedColumn
from ingester.sqlserver.position import LogPosition
from ingester.task.drain import Drain
from ingester.task.encode import Encoder
from tests.fakes.ingester import PERSONS, FakeOffsets, FakeSender, FakeSource, encoder, instance, lsn, position

LIMIT = 5_000
ROWS = [position(n, seq=s) for n in (1, 2, 3) for s in (1, 2, 3, 4)]
BIG = ROWS[5]  # the second of transaction 2


def bench(*, stand_ins: bool, wide: tuple[LogPosition, ...] = (BIG,), ordering: str = "table") -> tuple[Drain, Slice]:
    source = FakeSource(rows={"dbo_Persons": list(ROWS)}, max_lsn=lsn(3), wide=dict.fromkeys(wide, LIMIT))
    offsets = FakeOffsets()
    offsets.claim(PERSONS, 7)
    encode = Encoder(Origin("server", "database"), "ingest-queue", "key" if ordering == "key" else "table")
    drain = Drain(
        source, offsets, FakeSender(limit=LIMIT), encode, lambda: UnixTime(1000.0), lambda: SteadyTime(5.0), stand_ins
    )
    todo = Slice(
        PERSONS,
        instance(),
        LogPosition.before(lsn(1)),
        LogPosition.end_of(lsn(3)),
        epoch=7,
        rows=100,
        seconds=10,
        row_bytes=1,
    )
    return drain, todo


def sent(drain: Drain) -> list[Message]:
    assert isinstance(drain.sender, FakeSender)
    return drain.sender.sent


def ids(positions: list[LogPosition]) -> list[str]:
    return [f"database.dbo.Persons:{p.lsn.hex}-{p.command_id}-{p.seqval.hex()}-{p.operation}" for p in positions]


def test_fail_stops_the_table_and_names_key_position_size_limit_and_remedy_but_no_other_value() -> None:
    drain, todo = bench(stand_ins=False)
    result = drain.run(todo)
    assert result.trouble is Trouble.PERMANENT
    for fact in ("dbo.Persons", '{"ID":2}', BIG.lsn.hex, BIG.seqval.hex(), str(LIMIT)):
        assert fact in result.message
    assert "xxx" not in result.message
    assert 'on_oversize = "dead_letter"' in str(result.hint)


@pytest.mark.parametrize("rows", range(1, 14))
def test_fail_sends_and_commits_what_comes_before_so_that_a_restart_repeats_nothing(rows: int) -> None:
    drain, todo = bench(stand_ins=False)
    result = drain.run(replace(todo, rows=rows))
    assert (result.position, result.changes) == (ROWS[4], 5)
    again = drain.run(todo)
    assert (again.position, again.changes, again.trouble) == (ROWS[4], 0, Trouble.PERMANENT)
    assert [message.message_id for message in sent(drain)] == ids(ROWS[:5])


def test_fail_at_the_very_first_change_commits_nothing() -> None:
    drain, todo = bench(stand_ins=False, wide=(ROWS[0],))
    result = drain.run(todo)
    assert (result.position, result.changes, result.pages, sent(drain)) == (None, 0, 0, [])


@pytest.mark.parametrize("rows", range(1, 14))
def test_dead_letter_sends_a_stand_in_in_its_place_and_goes_on(rows: int) -> None:
    drain, todo = bench(stand_ins=True, wide=(ROWS[0], BIG, ROWS[6], ROWS[11]))
    result = drain.run(replace(todo, rows=rows))
    assert (result.trouble, result.position, result.changes) == (None, ROWS[11], 12)
    assert [message.message_id for message in sent(drain)] == ids(ROWS)
    assert [found.position for found in result.set_aside] == [ROWS[0], BIG, ROWS[6], ROWS[11]]
    assert [at for at, message in enumerate(sent(drain)) if "oversize" in message.application_properties] == [
        0,
        5,
        6,
        11,
    ]


@pytest.mark.parametrize("stand_ins", [False, True])
def test_with_a_session_a_bucket_of_keys_no_session_loses_its_order(stand_ins: bool) -> None:
    drain, todo = bench(stand_ins=stand_ins, ordering="key", wide=(BIG, ROWS[7]))
    drain.run(todo)
    order = ids(ROWS)
    arrived = sent(drain)
    by_session: dict[str | None, list[int]] = {}
    for message in arrived:
        by_session.setdefault(message.session_id, []).append(order.index(str(message.message_id)))
    assert len(by_session) > 1
    assert all(places == sorted(places) for places in by_session.values())
    expected = set(order) if stand_ins else set(order[:5])
    assert expected <= {str(message.message_id) for message in arrived}
    assert len({message.message_id for message in arrived}) == len(arrived)


def test_a_stand_in_that_does_not_fit_either_stops_the_table() -> None:
    drain, todo = bench(stand_ins=True)
    assert isinstance(drain.sender, FakeSender)
    drain.sender.limit = 100
    result = drain.run(todo)
    assert result.trouble is Trouble.PERMANENT
    assert "too large for a message" in result.message
    assert result.set_aside == ()


def test_a_change_is_told_to_be_set_aside_only_once_it_is_committed() -> None:
    drain, todo = bench(stand_ins=True)
    assert isinstance(drain.offsets, FakeOffsets)
    drain.offsets.fail = TransientError("committing: the connection broke")
    assert drain.run(todo).set_aside == ()
    assert len(drain.run(todo).set_aside) == 1


def test_a_slice_that_failed_later_still_tells_what_was_set_aside() -> None:
    drain, todo = bench(stand_ins=True)
    assert isinstance(drain.source, FakeSource)
    source = drain.source

    def break_later() -> None:
        if source.pages == 3:
            raise TransientError("reading: the connection broke")

    source.after_page = break_later
    result = drain.run(replace(todo, rows=4))
    assert (result.trouble, len(result.set_aside)) == (Trouble.TRANSIENT, 1)


def test_a_stand_in_has_the_changes_identity_and_metadata_and_only_its_key_as_data() -> None:
    change = Change(PERSONS, "dbo_Persons", BIG, Operation.UPDATE, {"ID": 7, "Name": "x"}, before={"ID": 6}, key=(7,))
    full = encoder().message(change)
    what = Oversized(PERSONS, '{"ID":7}', BIG, 300_000, 262_144)
    reduced = encoder().stand_in(change, what)
    assert replace(reduced, body=b"", application_properties={}) == replace(full, body=b"", application_properties={})
    assert reduced.application_properties == {**full.application_properties, "oversize": True}
    metadata = json.loads(full.body)["metadata"]
    assert json.loads(reduced.body) == {
        "data": {"ID": 7},
        "metadata": {**metadata, "Oversize": {"Bytes": 300_000, "Limit": 262_144}},
    }


def test_a_composite_key_is_told_in_key_order_and_a_table_without_one_says_so() -> None:
    change = Change(PERSONS, "c", BIG, Operation.INSERT, {"B": "secret", "A": 1, "C": "x"})
    columns = [
        CapturedColumn("A", "int", 1, key_ordinal=2),
        CapturedColumn("B", "int", 2),
        CapturedColumn("C", "int", 3, key_ordinal=1),
    ]
    error = MessageTooLarge("q", Message(b"x" * 10, "id"), at=0, limit=9)
    assert oversized(change, columns, error).key == '{"C":"x","A":1}'
    bare = oversized(change, [], error)
    assert bare.key == "{}"
    assert "without a primary key" in bare.refusal().message


def test_a_very_long_key_is_cut_where_a_person_reads_it() -> None:
    what = Oversized(TableName("dbo", "T"), '{"K":"' + "k" * 900 + '"}', BIG, 1, 1)
    assert len(what.key_text) < 600
    assert "k" * 900 not in what.refusal().message


def test_a_result_with_changes_set_aside_travels_between_processes() -> None:
    drain, todo = bench(stand_ins=True)
    result = drain.run(todo)
    assert isinstance(result, SliceResult)
    assert pickle.loads(pickle.dumps(result)) == result


def test_a_page_follows_what_its_rows_were_encoded_to_and_the_next_slice_knows() -> None:
    drain, todo = bench(stand_ins=True, wide=())
    assert isinstance(drain.source, FakeSource)
    first = drain.run(replace(todo, row_bytes=None))
    assert drain.source.asked[0] == 100
    assert first.row_bytes is not None
    assert first.row_bytes > 500
    assert isinstance(drain.offsets, FakeOffsets)
    drain.offsets.stored[PERSONS] = None
    drain.source.asked.clear()
    drain.run(replace(todo, row_bytes=LIMIT))
    assert drain.source.asked[0] == 8


def test_what_was_accepted_before_a_refusal_is_not_sent_again() -> None:
    messages = [Message(b"%d" % n, str(n)) for n in range(4)]
    out = Outgoing(messages)
    at = out.refused(MessageTooLarge("q", messages[2], at=2, limit=0, accepted=[0, 3]))
    assert at == 2
    assert out.left == [messages[1], messages[2]]
    out.stop_before(at)
    assert out.left == [messages[1]]


def test_a_message_that_is_in_a_page_twice_is_accepted_by_its_place() -> None:
    one, other = Message(b"1", "1"), Message(b"2", "2")
    out = Outgoing([one, one, other, one])
    out.accept([1])
    assert (out.left, out.prefix, out.even) == ([one, other, one], 0, False)
    out.accept([0, 2])  # places in what was left then
    assert (out.left, out.prefix, out.even) == ([other], 2, False)


def test_a_stand_in_behind_the_change_that_stops_the_table_is_not_told_yet() -> None:
    """With a session a bucket of keys a later change may have been replaced before an earlier one is refused."""
    out = Outgoing([Message(b"%d" % n, str(n)) for n in range(4)])
    early, late = (Oversized(PERSONS, "{}", ROWS[n], 1, 1) for n in (0, 3))
    out.stand_in(3, Message(b"stand-in", "3"), late)
    out.stand_in(0, Message(b"stand-in", "0"), early)
    assert list(out.set_aside) == [early, late]
    out.stop_before(1)
    assert list(out.set_aside) == [early]
