"""The sender over one index in memory: what is accepted, what is raised, and that an index equals its table whatever comes late."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any

import pytest
from structlog.testing import capture_logs

from common.bus.ports import MessageRefused, OutOfTime, SendInterrupted
from common.errors import EntityMissing, EntityUnavailable, TransientError
from common.message import Message
from router.outputs.elasticsearch.answers import Answer, Fate
from router.outputs.elasticsearch.operations import appended_chunk, rows_chunk
from router.outputs.elasticsearch.remarks import Remarks
from router.outputs.elasticsearch.sender import ElasticsearchSender
from router.outputs.rows.keys import Keys
from tests.outputs.elasticsearch.workload import KEY, Workload, rows_of
from tests.unit.router.envelopes.golden import native
from tests.unit.router.outputs.elasticsearch.fake_index import FakeIndex

_ROWS = partial(rows_chunk, keys=Keys({"Persons": ["ID"], "Lines": KEY}), deletes="remove")
_MARKS = partial(rows_chunk, keys=Keys({"Persons": ["ID"], "Lines": KEY}), deletes="mark")


class Clock:
    """A time that passes only while somebody sleeps."""

    def __init__(self) -> None:
        self.now, self.slept = 1000.0, list[float]()

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.slept.append(seconds)


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    for module in ("sender", "races"):
        monkeypatch.setattr(f"router.outputs.elasticsearch.{module}.time", found)
    return found


def sender(index: FakeIndex, make: Any = _ROWS) -> ElasticsearchSender:
    return ElasticsearchSender(index, make, seconds=30, remarks=Remarks("search"))


def row(
    id: int, place: int, *, text: str = "", session: str | None = "one", more: Mapping[str, object] | None = None
) -> Message:
    """An insert of row `id`, at a place of one transaction. `more`: columns."""
    body = json.loads(native("insert").body)
    body["data"] = {"ID": id, "Text": text, **(more or {})}
    body["metadata"] |= {"CommandID": place, "EventID": f"{id}-{place}"}
    return replace(native("insert"), body=json.dumps(body).encode(), message_id=f"{id}-{place}", session_id=session)


def texts(index: FakeIndex) -> dict[str, str]:
    return {id: document["Text"] for id, document in index.documents.items()}


def test_a_chunk_is_one_request_and_a_copy_of_it_changes_nothing() -> None:
    index = FakeIndex()
    chunk = [row(1, 1, text="a"), row(2, 2), row(1, 3, text="b")]
    sender(index).send(chunk)
    assert (index.requests, texts(index)) == (1, {"1": "b", "2": ""})
    sender(index).send(chunk)
    sender(index).send(chunk[:1])
    assert texts(index) == {"1": "b", "2": ""}


def test_changes_of_one_transaction_in_several_sends_are_all_written() -> None:
    index, one = FakeIndex(), None
    one = sender(index)
    for place in range(1, 100):
        one.send([row(1, place, text=str(place))])
    assert texts(index) == {"1": "99"}
    one.send([row(1, 40, text="late")])
    assert texts(index) == {"1": "99"}


def test_a_row_that_one_transaction_removes_and_inserts_in_two_sends_is_there() -> None:
    index, one = FakeIndex(), None
    one = sender(index)
    delete = json.loads(row(1, 2).body)
    delete["metadata"] |= {"OperationType": "Delete", "OperationID": 1}
    one.send([row(1, 1, text="old")])
    one.send([replace(row(1, 2), body=json.dumps(delete).encode())])
    assert texts(index) == {}
    one.send([row(1, 3, text="new")])
    assert texts(index) == {"1": "new"}


def test_a_refused_message_leaves_what_was_before_it_and_names_it() -> None:
    index = FakeIndex(refuses="bad")
    chunk = [row(1, 1, text="good"), row(2, 2), row(1, 3, text="bad"), row(1, 4, text="bad too"), row(3, 5)]
    with pytest.raises(MessageRefused, match="400 mapper_parsing_exception in field Total") as raised:
        sender(index).send(chunk)
    assert (raised.value.at, raised.value.accepted, raised.value.by_entity) == (2, frozenset({0, 1}), True)
    assert texts(index) == {"1": "good", "2": "", "3": ""}


def test_documents_that_bring_one_field_with_several_types_are_all_written() -> None:
    index, values = FakeIndex(), [1, "two", 3.5, True]
    sender(index).send([row(id, id, more={"New": value}) for id, value in enumerate(values, 1)])
    assert [document["New"] for document in index.documents.values()] == values
    assert index.requests == 2


def test_a_document_may_race_for_each_of_its_fields() -> None:
    """The rows before it have a value in one of the columns each, so it meets another new field each time."""
    index, names = FakeIndex(), [f"C{number}" for number in range(20)]
    rows = [row(0, 100, more=dict.fromkeys(names, "a text"))]
    rows += [row(id, id, more={name: at for at, name in enumerate(names) if at < id}) for id in range(1, 21)]
    sender(index).send(rows[::-1])
    assert len(index.documents) == 21


def delivered(
    one: ElasticsearchSender, clock: Clock, chunk: Sequence[Message], *, most: float = 60.0
) -> list[SendInterrupted]:
    """Sent again, what is left, until all is accepted. Returns what was raised on the way."""
    raised, end, turns = list[SendInterrupted](), clock.now + most, list[float]()
    while chunk and clock.now < end:
        began = clock.now
        try:
            one.send(chunk)
            chunk = []
        except SendInterrupted as error:
            raised.append(error)
            chunk = [each for at, each in enumerate(chunk) if at not in error.accepted]
        turns.append(clock.now - began)
        if raised and not isinstance(raised[-1], OutOfTime):
            clock.now += 5.0  # as the router backs off after a fault
    assert not chunk, raised[-1]
    assert max(turns) <= 1.0  # other sessions of the table wait for it
    return raised


@pytest.mark.parametrize("seconds", [0.1, 0.3, 0.5, 2.0, 10.0, 29.0])
def test_nodes_that_learn_late_of_a_field_refuse_nothing_and_keep_no_turn(clock: Clock, seconds: float) -> None:
    index = FakeIndex()
    index.fields, index.clock, index.slow = {"New": str}, clock.monotonic, clock.now + seconds
    chunk = [row(1, 1), row(2, 2, more={"New": 1}), row(3, 3), row(4, 4, session="two")]
    raised = delivered(sender(index), clock, chunk)
    assert len(index.documents) == 4
    assert all(isinstance(each, OutOfTime) for each in raised)  # no fault of the index: nobody waits for it
    assert not raised or raised[0].accepted == {0, 3}
    assert index.requests < 20 + 3 * seconds
    assert clock.slept[0] == 0.05
    assert max(clock.slept) <= 1.0


def test_nodes_that_do_not_learn_of_a_field_are_a_fault_with_cause_and_remedy_and_refuse_nothing(clock: Clock) -> None:
    index, one = FakeIndex(), None
    one = sender(index)
    index.fields, index.clock, index.slow = {"New": str}, clock.monotonic, clock.now + 55
    raised = delivered(one, clock, [row(1, 1, more={"New": 1})], most=5000)
    lasting = [each for each in raised if not isinstance(each, OutOfTime)]
    assert "in field New: its node has not learned in 30 s" in lasting[0].message
    assert "pending tasks" in str(lasting[0].hint)
    assert len(raised) - len(lasting) < 35
    assert len(index.documents) == 1


def test_a_mapping_that_cannot_be_read_refuses_nothing(clock: Clock) -> None:
    index = FakeIndex(torn="torn")
    index.hidden = TransientError("looking at it: 403", hint="give the right")
    one = sender(index)
    raised = list[SendInterrupted]()
    for _ in range(60):
        with pytest.raises(SendInterrupted) as found:
            one.send([row(1, 3, more={"Torn": "torn"})])
        raised.append(found.value)
    assert "cannot be read: looking at it: 403" in raised[-1].message
    assert raised[-1].hint == "give the right"


def test_a_race_does_not_outlive_the_time_of_its_send(clock: Clock) -> None:
    index = FakeIndex(torn="torn")
    with pytest.raises(OutOfTime):
        sender(index).send([row(1, 3, more={"Torn": "torn"})], left=lambda: 0.12)
    assert sum(clock.slept) < 0.12


def test_a_document_that_contradicts_itself_is_refused_when_nobody_has_brought_its_field(clock: Clock) -> None:
    """Those that race with it are written at once, and what is behind it comes after it."""
    index, one, began = FakeIndex(torn="torn"), None, clock.now
    one = sender(index)
    chunk = [row(1, 1, more={"New": 1}), row(2, 2, more={"New": "two"}), row(1, 3, more={"Torn": "torn"})]
    with pytest.raises(OutOfTime) as early:
        one.send(chunk)
    assert early.value.accepted == frozenset()  # the first is in the newer change of its row
    with pytest.raises(MessageRefused, match="400 illegal_argument_exception in field Torn") as raised:
        delivered(one, clock, chunk)
    assert (raised.value.at, raised.value.accepted) == (2, frozenset({0, 1}))
    assert {id: document["New"] for id, document in index.documents.items()} == {"1": 1, "2": "two"}
    assert 30 <= clock.now - began < 32


def test_documents_that_contradict_themselves_side_by_side_are_refused_one_after_the_other_at_once(
    clock: Clock,
) -> None:
    index, one, began = FakeIndex(torn="torn"), None, clock.now
    one = sender(index)
    chunk = [row(id, id, more={"Torn": "torn"}) for id in (1, 2, 3)]
    while chunk:
        with pytest.raises(MessageRefused) as raised:
            delivered(one, clock, chunk)
        del chunk[raised.value.at]
    assert clock.now - began < 32


def test_a_race_that_time_ends_refuses_nothing() -> None:
    index, one = FakeIndex(), None
    one = sender(index)
    one.open()
    index.said = [Answer(Fate.RACED, "400 in field New"), TransientError("no time is left")]
    with pytest.raises(SendInterrupted, match="no time is left") as raised:
        one.send([row(1, 1)])
    assert raised.value.accepted == frozenset()
    one.send([row(1, 1)])
    assert len(index.documents) == 1


def test_a_message_that_is_no_change_is_refused_and_other_sessions_are_accepted() -> None:
    chunk = [row(1, 1), Message(b"?", "id", session_id="one"), row(2, 2, session="two"), row(3, 3)]
    with pytest.raises(MessageRefused) as raised:
        sender(FakeIndex()).send(chunk)
    assert (raised.value.at, raised.value.accepted, raised.value.by_entity) == (1, frozenset({0, 2}), False)


@pytest.mark.parametrize(("fate", "throttled"), [(Fate.BUSY, True), (Fate.LATER, False)])
def test_what_the_server_did_not_take_is_not_accepted(fate: Fate, throttled: bool) -> None:
    index, one = FakeIndex(), None
    one = sender(index)
    one.open()
    index.said = [Answer(fate, "not now", "wait")]
    with pytest.raises(SendInterrupted, match="not now") as raised:
        one.send([row(1, 1), row(2, 2)])
    assert (raised.value.accepted, raised.value.throttled) == (frozenset(), throttled)
    one.send([row(1, 1), row(2, 2)])
    assert len(index.documents) == 2


@pytest.mark.parametrize(("fate", "error"), [(Fate.MISSING, EntityMissing), (Fate.UNFIT, EntityUnavailable)])
def test_a_fault_of_the_index_is_none_of_a_message(fate: Fate, error: type[Exception]) -> None:
    index, one = FakeIndex(), None
    one = sender(index)
    for opening in (True, False):
        index.said = [Answer(fate, "it is so")] if opening else [Answer(Fate.STALE), Answer(fate, "it is so")]
        with pytest.raises(error, match="it is so"):
            one.send([row(1, 1)])
    one.send([row(1, 1)])
    assert len(index.documents) == 1


def test_without_an_answer_nothing_is_accepted_and_the_cause_is_kept() -> None:
    index, one = FakeIndex(), None
    one = sender(index)
    one.open()
    index.said = [lost := TransientError("the connection failed", hint="look")]
    with pytest.raises(SendInterrupted, match="the connection failed") as raised:
        one.send([row(1, 1)])
    assert (raised.value.__cause__, raised.value.accepted) == (lost, frozenset())


def test_no_time_is_left() -> None:
    index = FakeIndex()
    with pytest.raises(OutOfTime):
        sender(index).send([row(1, 1)], left=lambda: 0.0)
    assert index.requests == 0


def test_an_appended_message_is_there_once() -> None:
    index = FakeIndex()
    for _ in range(2):
        sender(index, appended_chunk).send([native("insert"), native("gap")])
    assert set(index.documents) == {native("insert").message_id, native("gap").message_id}


def test_gaps_and_hidden_keys_are_said_once() -> None:
    body = json.loads(native("update").body)
    body["metadata"]["ChangedColumns"] = ["ID"]
    hidden = replace(native("update"), body=json.dumps(body).encode())
    one = sender(FakeIndex())
    with capture_logs() as logs:
        for _ in range(2):
            one.send([native("gap"), hidden])
    assert [entry["event"][:20] for entry in logs] == ["changes of a table a", "an update may have c"]


def test_a_gap_is_said_although_what_is_behind_it_is_refused() -> None:
    bad = Message(b"?", "id", session_id=native("gap").session_id)
    with capture_logs() as logs, pytest.raises(MessageRefused):
        sender(FakeIndex()).send([native("gap"), bad, replace(native("gap"), session_id=bad.session_id)])
    assert [entry["event"][:20] for entry in logs] == ["changes of a table a"]


def test_a_gap_that_was_not_accepted_is_not_said() -> None:
    bad = Message(b"?", "id", session_id=native("gap").session_id)
    with capture_logs() as logs, pytest.raises(MessageRefused):
        sender(FakeIndex()).send([bad, native("gap")])
    assert logs == []


def read(id: int, lsn: str, *, text: str) -> Message:
    """A row that a snapshot read."""
    body = json.loads(native("read").body)
    body["data"] = {"ID": id, "Text": text}
    body["metadata"] |= {"LSN": lsn}
    return replace(native("read"), body=json.dumps(body).encode())


def test_a_row_that_a_snapshot_read_holds_every_change_of_its_commit() -> None:
    index = FakeIndex()
    one, lsn = sender(index), json.loads(row(1, 3).body)["metadata"]["LSN"]
    one.send([row(1, 3, text="clear")])
    one.send([read(1, lsn, text="masked")])
    assert texts(index) == {"1": "masked"}
    one.send([row(1, 3, text="clear"), row(1, 9, text="late")])
    assert texts(index) == {"1": "masked"}
    one.send([read(1, lsn, text="another snapshot")])
    assert texts(index) == {"1": "another snapshot"}
    one.send([read(1, f"{int(lsn, 16) - 1:020x}", text="older")])
    assert texts(index) == {"1": "another snapshot"}


def test_a_key_that_moved_in_another_session_leaves_no_ghost() -> None:
    """The update of the key comes first, and the insert of the row that it moved only then: both in one band of versions."""
    index = FakeIndex()
    moved = json.loads(row(2, 5).body)
    moved["metadata"] |= {"OperationType": "Update", "OperationID": 4, "ChangedColumns": ["ID"]}
    moved["before"] = {"ID": 1, "Text": ""}
    sender(index, _MARKS).send([replace(row(2, 5), body=json.dumps(moved).encode())])
    sender(index, _MARKS).send([row(1, 1)])
    assert [id for id, document in index.documents.items() if "deleted" not in document["_dstream"]] == ["2"]


@pytest.mark.parametrize("make", [_ROWS, _MARKS], ids=["remove", "mark"])
@pytest.mark.parametrize("seed", range(4))
def test_an_index_equals_its_table_whatever_comes_again_and_late(make: Any, seed: int) -> None:
    """Chunks of any size, each sent once or twice; and requests of a sender that has died, of which nobody reads the answers."""
    random, work, index = Random(seed), Workload(seed), FakeIndex()
    past: list[Sequence[Message]] = []
    for _ in range(8):
        messages = [message for _ in range(30) for message in work.transaction()]
        while messages:
            size = random.choice([1, 2, 7, 60])
            chunk, messages = messages[:size], messages[size:]
            past = [*past, chunk][-50:]
            for _ in range(random.choice([1, 1, 2])):
                sender(index, make).send(chunk)
            late = make(random.choice(past))
            index.write([each.lines() for each in late.operations.values()], 0.0)
        left = [{**document} for document in index.documents.values() if "deleted" not in document["_dstream"]]
        for document in left:
            del document["_dstream"]
        assert sorted(json.dumps(document, sort_keys=True) for document in left) == rows_of(work)
