"""A body that is put together from what was written before has the bytes of one that is written as a whole."""

from __future__ import annotations

import tracemalloc
from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st

from common.names import Origin, TableName
from ingester.change import Change, Operation
from ingester.sqlserver.position import LogPosition, Lsn
from ingester.task.envelope import NativeEnvelope
from ingester.task.identity import Identity, identity

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20) | st.sampled_from(['"', "\\", "\0", "%s", "ž🐎"])
NAMES = TEXTS.filter(bool)
VALUES: st.SearchStrategy[Any] = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(), TEXTS, st.just(orjson.Fragment(b"1.50"))
)
ROWS = st.dictionaries(NAMES, VALUES, max_size=4)
COLUMNS = st.lists(NAMES, max_size=3).map(tuple)
TABLES = st.sampled_from([TableName("dbo", "T"), TableName("dbo", 'a"\\b'), TableName("ž", "🐎" * 40)])
BYTES = st.binary(min_size=10, max_size=10)
HISTORIES: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.builds(lambda text: {"Replay": {"Id": text, "EventID": "e"}}, TEXTS),
    st.builds(lambda chunk: {"Snapshot": {"Id": "s", "Chunk": chunk, "Last": False}}, st.integers(0, 9)),
)
TRANSACTIONS: st.SearchStrategy[Any] = st.none() | st.builds(
    lambda place: {"Id": "00", "TableOrder": place}, st.integers(1, 9)
)


@st.composite
def changes(draw: st.DrawFn) -> Change:
    data = draw(ROWS)
    operation = draw(st.sampled_from([Operation.INSERT, Operation.UPDATE, Operation.DELETE, Operation.READ]))
    return Change(
        draw(TABLES),
        draw(NAMES),
        LogPosition(Lsn(draw(BYTES)), draw(st.integers(0, 2**31 - 1)), draw(BYTES), int(operation)),
        operation,
        data,
        before=draw(st.none() | st.just(data) | ROWS),
        changed_columns=draw(COLUMNS),
        unavailable=draw(COLUMNS),
        commit_time=draw(st.none() | TEXTS),
        history=draw(HISTORIES),
        transaction=draw(TRANSACTIONS),
        schema_version=draw(TEXTS),
        topic=draw(st.none() | NAMES),
    )


def plainly(envelope: NativeEnvelope, change: Change, identified: Identity) -> bytes:
    """As one dictionary, written at once."""
    body: dict[str, object] = {"data": change.data, "metadata": envelope.metadata(change, identified)}
    if change.before is not None:
        body["before"] = change.before
    return orjson.dumps(body)


ORIGIN = Origin("server", 'data"base')
ENVELOPE = NativeEnvelope(ORIGIN, 'a "queue"')


@given(st.lists(changes(), min_size=1, max_size=4))
def test_a_body_has_the_bytes_of_its_dictionary(given: list[Change]) -> None:
    for change in (*given, *given):  # again, when their kinds are known
        identified = identity(change, ORIGIN, "table", 1)
        assert ENVELOPE.change(change, identified) == plainly(ENVELOPE, change, identified)


def test_changes_of_one_kind_share_what_is_written_and_nothing_of_their_own() -> None:
    table = TableName("dbo", "T")
    for number in range(20):
        lsn = Lsn(number.to_bytes(10, "big"))
        change = Change(table, "dbo_T", LogPosition(lsn, number, bytes(10), 2), Operation.INSERT, {"ID": number})
        identified = identity(change, ORIGIN, "table", 1)
        assert ENVELOPE.change(change, identified) == plainly(ENVELOPE, change, identified)


def test_what_is_remembered_of_a_wide_table_with_any_columns_written_stays_small() -> None:
    envelope = NativeEnvelope(Origin("server", "database"), "queue")
    position = LogPosition(Lsn(bytes(10)), 1, bytes(10), int(Operation.UPDATE))
    names = tuple(f"SomeColumnName{number:03d}" for number in range(200))
    tracemalloc.start()
    try:
        for number in range(1, 2_000):
            written = tuple(name for at, name in enumerate(names) if number * 2_654_435_761 >> at % 40 & 1)
            change = Change(TableName("dbo", "T"), "dbo_T", position, Operation.UPDATE, {}, changed_columns=written)
            envelope.change(change, Identity("id", None, "queue", "lsn", 1, "seqval"))
        assert tracemalloc.get_traced_memory()[0] < 3 * 2**20
    finally:
        tracemalloc.stop()
