"""Schema events: before the first messages with other columns, and the same message whenever and by whomever they are sent again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from common.errors import TransientError
from ingester.change import Change
from ingester.schema.store import KeptSchema
from ingester.shape.table_shape import TableShape
from ingester.shape.versions import version_of
from ingester.slices import Slice, Trouble
from ingester.source import CapturedColumn, CaptureInstance, Part
from ingester.task.schema_events import SchemaTeller
from tests.fakes.ingester import PERSONS, FakeSource, instance, position
from tests.fakes.schemas import FakeSchemas
from tests.unit.ingester.task.test_drain import EXPECTED, ROWS, Bench
from tests.unit.ingester.task.test_read_chunk import Bench as ChunkBench

OLD = instance()
AGE = CapturedColumn("Age", "int", 3)
NEW = replace(OLD, columns=(*OLD.columns, AGE))
V1, V2 = version_of(OLD.columns), version_of(NEW.columns)
TOLD = f"database.dbo.Persons:schema-2-{V2}"
EVENTS = TableShape(schema_events=True)
INITIAL = TableShape(schema_events=True, initial_schema_events=True)


class Told(Bench):
    """A bench whose table has events; version 1 is kept."""

    def __init__(self) -> None:
        super().__init__()
        self.schemas = FakeSchemas()
        self.drain = replace(self.drain, schemas=self.schemas)
        SchemaTeller(self.schemas, self.of(OLD)).told(OLD.columns, ROWS[0], lambda event: False)
        self.schemas.asked = 0

    def of(self, found: CaptureInstance, **more: Any) -> Slice:
        return replace(self.todo, instance=found, shape=EVENTS, **more)

    def kept(self) -> list[tuple[int, str]]:
        return [(one.number, one.version) for one in self.schemas.kept.get(PERSONS, [])]


def test_the_first_version_is_kept_without_an_event() -> None:
    bench = Told()
    bench.schemas.kept.clear()
    bench.drain.run(bench.of(OLD))
    assert bench.sent() == EXPECTED
    assert bench.kept() == [(1, V1)]


def test_other_columns_are_told_once_before_their_first_change() -> None:
    bench = Told()
    result = bench.drain.run(bench.of(NEW))
    assert bench.sent() == [TOLD, *EXPECTED]
    assert (result.changes, result.pages, bench.kept()) == (12, 3, [(1, V1), (2, V2)])
    assert bench.schemas.asked == 1
    event = bench.sender.sent[0]
    body = json.loads(event.body)
    assert (body["data"], event.subject, body["metadata"]["OperationID"]) == ({}, "Schema", -2)
    assert (event.session_id, event.application_properties["schema_version"]) == ("server.database.persons.events", V2)
    assert body["metadata"]["LSN"] == ROWS[0].lsn.hex
    assert body["metadata"]["SchemaChange"] == {
        "Version": V2,
        "Previous": V1,
        "Columns": [
            {"Name": "ID", "Type": "int", "Key": 1},
            {"Name": "Name", "Type": "nvarchar"},
            {"Name": "Age", "Type": "int"},
        ],
    }


def test_without_the_setting_nothing_is_told_and_nothing_is_asked() -> None:
    bench = Told()
    bench.drain.run(replace(bench.todo, instance=NEW))
    assert bench.sent() == EXPECTED
    assert (bench.kept(), bench.schemas.asked) == ([(1, V1)], 0)


def test_an_alter_between_two_pages_is_told_between_them() -> None:
    bench = Told()
    source = bench.source

    class Altered(FakeSource):
        def page(self, query: Any) -> Any:
            page = source.page(query)
            return page if source.pages == 1 else replace(page, columns=NEW.columns)

    bench.drain = replace(bench.drain, source=Altered())
    bench.drain.run(bench.of(OLD))
    assert bench.sent() == [*EXPECTED[:5], TOLD, *EXPECTED[5:]]


def test_a_version_that_comes_back_is_another_event() -> None:
    bench = Told()
    for number, found in enumerate((NEW, OLD, NEW), 1):
        bench.offsets.stored[PERSONS] = ROWS[number * 3 - 1]
        bench.drain.run(bench.of(found, upto=ROWS[number * 3]))
    assert [one for one in bench.sent() if "schema" in one] == [
        f"database.dbo.Persons:schema-{number}-{version}" for number, version in ((2, V2), (3, V1), (4, V2))
    ]


def test_a_hand_over_to_an_instance_with_other_columns_is_told_behind_the_last_change_of_the_old_one() -> None:
    bench = Told()
    later = replace(NEW, name="again", start=LAST_OF_OLD)
    bench.source.rows["again"] = ROWS[8:]
    bench.drain.run(bench.of(OLD, upto=LAST_OF_OLD))
    bench.offsets.stored[PERSONS] = LAST_OF_OLD  # the driver moves it to the border
    bench.drain.run(bench.of(later))
    assert bench.sent() == [*EXPECTED[:8], TOLD, *EXPECTED[8:]]


def test_a_hand_over_to_an_instance_with_the_same_columns_is_not_told() -> None:
    bench = Told()
    bench.source.rows["again"] = list(ROWS)
    bench.drain.run(bench.of(replace(OLD, name="again")))
    assert bench.sent() == EXPECTED


LAST_OF_OLD = position(2, seq=9)


@pytest.mark.parametrize(
    "death", ["before the event", "after it", "before the record", "after it was kept", "after the page"]
)
def test_whoever_goes_on_after_a_death_tells_the_same_message_and_no_change_comes_before_it(death: str) -> None:
    """Each death is an error that ends the slice where a kill would."""
    bench, error = Told(), TransientError("killed")
    match death:
        case "before the event":
            bench.sender.fail_after = 0
        case "after it":
            bench.sender.fail_after = 1
        case "before the record":
            bench.schemas.fail = error
        case "after it was kept":
            bench.schemas.unanswered = error
        case _:
            bench.offsets.fail = error
    assert bench.drain.run(bench.of(NEW)).trouble is Trouble.TRANSIENT
    bench.schemas.newest = 8
    bench.offsets.claim(PERSONS, 8)
    bench.drain.run(bench.of(NEW, epoch=8))
    sent = bench.sent()
    assert list(dict.fromkeys(sent)) == [TOLD, *EXPECTED]
    assert sent.count(TOLD) == (2 if death in ("after it", "before the record") else 1)
    assert bench.kept() == [(1, V1), (2, V2)]


def test_a_superseded_owner_keeps_nothing_and_sends_no_change_behind_its_event() -> None:
    bench = Told()
    bench.schemas.newest = 8
    result = bench.drain.run(bench.of(NEW))
    assert (result.trouble, bench.sent(), bench.kept()) == (Trouble.LEASE_LOST, [TOLD], [(1, V1)])


def test_parts_of_a_stride_tell_the_same_message_and_keep_one_version() -> None:
    bench = Told()
    events: list[Change] = []
    tellers = [SchemaTeller(bench.schemas, bench.of(NEW)) for _ in range(2)]

    def both(event: Change) -> bool:
        """While the first one sends, the second one tells it all."""
        events.append(event)
        if len(events) == 1:
            assert tellers[1].told(NEW.columns, ROWS[1], both)
        return True

    assert tellers[0].told(NEW.columns, ROWS[0], both)
    assert [event.position.place()[0] for event in events] == [f"schema-2-{V2}"] * 2
    assert bench.kept() == [(1, V1), (2, V2)]
    parts = [Part(1, number, 2, ("ID",), 6) for number in range(2)]
    for part in parts:
        bench.drain.run(bench.of(NEW, part=part, upto=ROWS[-1]))
    assert sorted(bench.sent()) == sorted(EXPECTED)


def test_two_tasks_with_different_columns_do_not_share_a_number() -> None:
    bench = Told()
    other = (*OLD.columns, replace(AGE, type="bigint"))
    mine, theirs = SchemaTeller(bench.schemas, bench.of(NEW)), SchemaTeller(bench.schemas, bench.of(OLD))

    def meanwhile(event: Change) -> bool:
        return theirs.told(other, ROWS[0], lambda told: True)

    with pytest.raises(TransientError, match="another version"):
        mine.told(NEW.columns, ROWS[0], meanwhile)
    assert bench.kept() == [(1, V1), (2, version_of(other))]


def test_an_event_that_was_not_accepted_ends_the_slice_and_is_not_kept() -> None:
    bench = Told()
    teller = SchemaTeller(bench.schemas, bench.of(NEW))
    assert not teller.told(NEW.columns, ROWS[0], lambda event: False)
    assert bench.kept() == [(1, V1)]


def test_the_first_version_of_all_is_told_where_the_shape_says_so() -> None:
    bench = Told()
    bench.schemas.kept.clear()
    bench.drain.run(replace(bench.of(OLD), shape=INITIAL))
    assert bench.sent() == [f"database.dbo.Persons:schema-1-{V1}", *EXPECTED]
    assert bench.kept() == [(1, V1)]
    told = json.loads(bench.sender.sent[0].body)["metadata"]["SchemaChange"]
    assert (told["Version"], told["Previous"]) == (V1, V1)


class ToldChunk(ChunkBench):
    """A bench of chunks whose table has events; version 1 is kept, and the rows are read with the columns of version 2."""

    def __init__(self) -> None:
        super().__init__()
        self.schemas = FakeSchemas()
        self.keep(schemas=self.schemas)
        self.schemas.kept[PERSONS] = [KeptSchema(1, V1, ())]
        self.todo = replace(self.todo, shape=EVENTS)
        self.chunk = replace(self.chunk, table=replace(self.chunk.table, instance=NEW))

    def ids(self) -> list[str]:
        return [str(json.loads(m.body)["data"].get("ID", m.subject)) for m in self.sender.sent]


@pytest.fixture
def chunk() -> Iterator[ToldChunk]:
    made = ToldChunk()
    yield made
    made.reader.close()


@pytest.mark.parametrize("exact", [False, True])
def test_rows_of_a_snapshot_with_other_columns_are_told_before_them_once_for_all_chunks(
    chunk: ToldChunk, exact: bool
) -> None:
    chunk.run(upto=("4",), exact=exact)
    chunk.run(after=("4",), upto=("8",), number=5, exact=exact)
    assert chunk.ids() == ["Schema", *map(str, range(1, 9))]
    assert {m.application_properties["schema_version"] for m in chunk.sender.sent} == {V2}


def test_a_chunk_whose_event_was_not_kept_begins_again_with_the_same_event(chunk: ToldChunk) -> None:
    chunk.schemas.fail = TransientError("killed")
    assert chunk.run(upto=("4",)).trouble is Trouble.TRANSIENT
    chunk.run(upto=("4",), attempt=2)
    assert chunk.ids() == ["Schema", "Schema", "1", "2", "3", "4"]
    assert len({m.message_id for m in chunk.sender.sent}) == 5


def test_a_snapshot_to_another_topic_tells_nothing_of_the_tables_own(chunk: ToldChunk) -> None:
    chunk.run(upto=("4",), topic="server.database.persons.copy")
    assert chunk.ids() == ["1", "2", "3", "4"]
    assert chunk.schemas.asked == 0


def test_each_chunk_of_a_snapshot_begins_with_the_columns_where_the_shape_says_so(chunk: ToldChunk) -> None:
    """Chunks are sent side by side, so any may be the first; their events are one message, and the queue drops its copies."""
    chunk.schemas.kept[PERSONS] = [KeptSchema(2, V2, ())]
    chunk.todo = replace(chunk.todo, shape=INITIAL)
    chunk.run(upto=("4",))
    chunk.run(after=("4",), upto=("8",), number=5)
    assert chunk.ids() == ["Schema", "1", "2", "3", "4", "Schema", "5", "6", "7", "8"]
    events = {m.message_id for m in chunk.sender.sent if m.subject == "Schema"}
    assert events == {f"database.dbo.Persons:schema-2-{V2}-{chunk.chunk.snapshot}"}
    assert [one.number for one in chunk.schemas.kept[PERSONS]] == [2]
