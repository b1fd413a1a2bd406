"""The way of a change, from real stores: each verdict, by event id and by key; and that no value of a row is told.

The ingester's and the router's acts are made by hand with their own parts: a message is what the ingester would send, an offset is committed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusReceivedMessage

from common.buses import bus_of, shelves_of
from common.config.bind import read
from common.errors import ConfigurationError
from common.message import Message
from desk.desk import NotFound
from desk.documents.messages import MessageFilter, Story, StoryOrder
from desk.documents.tables import Pause
from desk.messages.messages import DeskMessages, configured
from ingester import settings as ingester_settings
from ingester.commands.changes import change_finder
from ingester.operating.finding import Captured, ChangeFinder
from ingester.settings import IngesterSettings
from ingester.sqlserver.position import LogPosition, in_the_log
from router import settings as router_settings
from router.settings import RouterSettings
from tests.contracts.operating.conftest import PERSONS, Desk, Owner

SECRET = "Ada-Secret"
MASKED = 'shape { mask = { FirstName = "redact" } }'


@dataclass
class World:
    desk: Desk
    owner: Owner
    pause: Pause | None = None
    made: list[Any] = field(default_factory=list)

    @property
    def settings(self) -> tuple[IngesterSettings, RouterSettings]:
        document = read(self.desk.place.written(), {})
        ours, theirs = ingester_settings.from_document(document), router_settings.from_document(document)
        assert ours.value is not None, ours.problems
        assert theirs.value is not None, theirs.problems
        return ours.value, theirs.value

    def finder(self) -> ChangeFinder:
        found = change_finder(self.settings[0])
        self.made.append(found)
        return found

    def messages(self) -> DeskMessages:
        present = configured(*self.settings)
        made = DeskMessages(lambda: present, shelves_of, lambda table: self.pause)
        self.made.append(made)
        return made

    def captured(self) -> Sequence[Captured]:
        """All changes of ID 1, the oldest first."""
        return list(self.finder().of_key(PERSONS, {"ID": "1"}, 50).changes)[::-1]

    def send(self, *changes: Captured) -> None:
        """To the ingest queue, as the ingester would."""
        messages = [each.message for each in changes]
        bus = bus_of(self.settings[0].queue)
        with closing(bus), closing(bus.sender(self.desk.place.queue)) as sender:
            sender.send([each for each in messages if isinstance(each, Message)])

    def offset(self, to: Captured) -> None:
        """The ingester has sent everything up to this change."""
        seen = self.owner.offsets.look(PERSONS).position
        self.owner.offsets.commit(PERSONS, self.owner.lease.epoch, seen=seen, position=to.position)

    def received(self, entity: str, **more: Any) -> Iterator[tuple[Any, ServiceBusReceivedMessage]]:
        with (
            ServiceBusClient.from_connection_string(self.desk.place.settings["bus"]) as client,
            client.get_queue_receiver(entity, max_wait_time=5, **more) as receiver,
        ):
            for message in receiver.receive_messages(max_message_count=10, max_wait_time=5):
                yield receiver, message

    def story(self, event_id: str) -> Story:
        [found] = self.messages().stories(StoryOrder(event_id=event_id)).items
        assert SECRET not in found.model_dump_json()
        return found


@pytest.fixture
def world(desk: Desk) -> Iterator[World]:
    desk.place.make_queue()
    desk.place.make_topic("sub1")
    with desk.owner() as owner:
        made = World(desk, owner)
        yield made
        for each in made.made:
            each.close()
    desk.place.admin.delete_queue(desk.place.queue)
    desk.place.admin.delete_topic(desk.place.topic)


def change(world: World, *statements: str) -> None:
    """Rows with ID 1; each a transaction, all captured when this returns."""
    world.desk.insert(1)
    for each in statements:
        world.desk.place.execute(each)
    world.desk.insert(900 + len(statements))


UPDATE = f"UPDATE dbo.Persons SET FirstName = N'{SECRET}' WHERE ID = 1"


def states(story: Story) -> list[tuple[str, str]]:
    return [(step.place, step.state) for step in story.steps]


def test_a_change_waits_in_sql_server_and_its_table_may_be_paused(world: World) -> None:
    change(world)
    [one] = world.captured()
    story = world.story(one.event_id)
    assert (story.verdict, story.table, story.operation, story.lsn) == ("waiting", "dbo.Persons", "Insert", one.lsn)
    assert states(story)[:4] == [
        ("commit", "passed"),
        ("change_table", "here"),
        ("ingester", "waiting"),
        ("queue", "not_yet"),
    ]
    world.pause = Pause(at="2026-11-23T03:00:00Z", by="ada", reason="maintenance")
    story = world.story(one.event_id)
    assert (story.verdict, "ada: maintenance" in story.why) == ("paused", True)


def test_a_change_is_followed_from_the_queue_to_its_topic(world: World) -> None:
    change(world)
    [one] = world.captured()
    world.send(one)
    world.offset(one)
    story = world.story(one.event_id)
    assert story.verdict == "queued"
    assert ("queue", "here") in states(story)
    [step] = [each for each in story.steps if each.place == "queue"]
    shown = world.messages().message("queue", dead=False, sequence=step.sequence or 0)
    assert shown.event_id == one.event_id
    assert step.at == shown.enqueued_at
    assert step.after_seconds is not None

    assert one.message is not None
    for receiver, message in world.received(world.desk.place.queue, session_id=one.message.session_id):
        receiver.complete_message(message)
    story = world.story(one.event_id)
    assert story.verdict == "delivered"
    assert "leaves no trace" in story.why
    assert ("topic", "passed") in states(story)

    bus = bus_of(world.settings[1].output)
    with closing(bus), closing(bus.sender(world.desk.place.topic)) as sender:
        sender.send([one.message])
    story = world.story(one.event_id)
    assert (story.verdict, "waits for its subscriber" in story.why) == ("delivered", True)
    assert states(story)[-1] == ("subscription", "here")
    assert story.steps[-1].entity == f"topic/{world.desk.place.topic}/sub1"


def test_a_poison_change_is_found_among_the_dead_letters_with_its_reason(world: World) -> None:
    change(world)
    [one] = world.captured()
    world.send(one)
    world.offset(one)
    assert one.message is not None
    for receiver, message in world.received(world.desk.place.queue, session_id=one.message.session_id):
        receiver.dead_letter_message(message, reason="Refused", error_description="the topic says no")
    story = world.story(one.event_id)
    assert story.verdict == "poison"
    assert "Refused: the topic says no" in story.why
    assert "replay" in str(story.remedy)
    assert states(story)[-1] == ("dead_letter", "here")


@pytest.mark.parametrize(
    ("shape", "verdict", "part"),
    [
        ("shape { filter = \"data.FirstName != 'Ada-Secret'\" }", "filtered", "filter is not true"),
        ('shape { skip_operations = ["Update"] }', "skipped", "skip_operations"),
        ('shape { filter = "data.Nobody == 1" }', "waiting", "stops before it"),
    ],
)
def test_the_shape_in_force_says_why_a_change_is_not_sent(world: World, shape: str, verdict: str, part: str) -> None:
    change(world, UPDATE)
    inserted, updated = world.captured()
    if "stops" not in part:
        world.offset(updated)
    world.desk.place.settings["more"] = shape
    story = world.story(updated.event_id)
    assert (story.verdict, part in story.why) == (verdict, True), story
    if verdict != "waiting":
        assert ("ingester", "never") in states(story)
        assert world.story(inserted.event_id).verdict == "delivered"


def test_a_route_that_takes_nothing_of_it_is_a_filter_too(world: World, tmp_path: Any) -> None:
    change(world)
    [one] = world.captured()
    world.offset(one)
    ours, _ = world.settings
    written = world.desk.place.written()
    text = written.read_text()
    at = text.rindex("}")
    written.write_text(
        text[:at]
        + '  route {\n from = ["Persons"]\n when = "metadata.OperationType == \'Delete\'"\n to = ["default"]\n }\n}\n'
    )
    document = read(written, {})
    bound = router_settings.from_document(document)
    assert bound.value is not None, bound.problems
    present = configured(ours, bound.value)
    with closing(DeskMessages(lambda: present, shelves_of, lambda table: None)) as messages:
        [story] = messages.stories(StoryOrder(event_id=one.event_id)).items
    assert (story.verdict, "no route takes it" in story.why) == ("filtered", True)
    assert states(story)[-1] == ("router", "never")


def test_what_cleanup_removed_before_it_was_read_is_a_gap(world: World) -> None:
    change(world, UPDATE)
    one, two = world.captured()
    before = LogPosition.before(in_the_log(one.position).lsn)
    seen = world.owner.offsets.look(PERSONS).position
    world.owner.offsets.commit(PERSONS, world.owner.lease.epoch, seen=seen, position=before)
    world.desk.place.execute(
        f"EXEC sys.sp_cdc_cleanup_change_table @capture_instance = N'dbo_Persons', @low_water_mark = 0x{two.lsn}"
    )
    story = world.story(one.event_id)
    assert (story.verdict, "cleanup has removed it" in story.why) == ("gap", True)
    assert ("change_table", "passed") in states(story)
    world.offset(two)
    story = world.story(one.event_id)
    assert story.verdict == "no_trace"
    assert "older than what the change tables have" in story.why


def test_an_offset_that_was_moved_over_a_change_is_named_with_who_did_it(world: World) -> None:
    change(world)
    [one] = world.captured()
    before = LogPosition.before(in_the_log(one.position).lsn)
    seen = world.owner.offsets.look(PERSONS).position
    world.owner.offsets.commit(PERSONS, world.owner.lease.epoch, seen=seen, position=before)
    ran = world.desk.run("offsets", "set", "Persons", "--latest", "--skip", "--take")
    assert ran.status == 0, ran.err
    story = world.story(one.event_id)
    assert (story.verdict, "by sa" in story.why) == ("before_offset", True), story.why


def test_ids_that_are_of_no_change_have_no_trace(world: World) -> None:
    change(world)
    [one] = world.captured()
    world.offset(one)
    begin, _, place = one.event_id.rpartition(":")
    lsn = one.lsn
    for event_id, table, part in (
        ("whatever", "", "no configured table"),
        (f"other.dbo.Persons:{place}", "", "no configured table"),
        (f"{begin}:{place[:-1]}4", "dbo.Persons", "has no such change"),
        (f"{begin}:a1b2c3d4e5f6-125f539d5121b8b6b27a9bb2b300e0a2", "dbo.Persons", "a snapshot read"),
        (f"{begin}:gap-{lsn}-{lsn}", "dbo.Persons", "about a gap"),
        (f"{begin}:schema-2-332e2a0d0af7", "dbo.Persons", "about columns"),
        ("", "", "no configured table"),
    ):
        story = world.story(event_id)
        assert (story.verdict, story.table) == ("no_trace", table)
        assert part in story.why
    story = world.story(f"{begin}:{'f' * 20}-1-{'f' * 20}-2")
    assert (story.verdict, "capture has not come" in story.why) == ("waiting", True)


def test_a_table_without_capture_is_named(world: World) -> None:
    change(world)
    [one] = world.captured()
    world.desk.place.execute("EXEC sys.sp_cdc_disable_table N'dbo', N'Persons', N'all'")
    story = world.story(one.event_id)
    assert (story.verdict, "not under CDC" in story.why) == ("not_captured", True)


def test_the_changes_of_a_row_are_found_by_its_key_the_newest_first(world: World) -> None:
    change(world, UPDATE, "DELETE FROM dbo.Persons WHERE ID = 1")
    inserted, updated, deleted = world.captured()
    world.send(inserted)
    world.offset(updated)
    messages = world.messages()
    found = messages.stories(StoryOrder(table="persons", key={"id": "1"}))
    assert [each.operation for each in found.items] == ["Delete", "Update", "Insert"]
    assert [each.verdict for each in found.items] == ["waiting", "delivered", "queued"]
    assert not found.more
    assert SECRET not in found.model_dump_json()
    some = messages.stories(StoryOrder(table="dbo.Persons", key={"ID": "1"}, most=2))
    assert ([each.event_id for each in some.items], some.more) == ([deleted.event_id, updated.event_id], True)
    assert messages.stories(StoryOrder(table="Persons", key={"ID": "77"})).items == []


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({}, "either event_id, or table"),
    ({"event_id": "x", "table": "Persons"}, "either event_id, or table"),
    ({"event_id": "x", "key": {"ID": "1"}}, "has no meaning"),
    ({"table": "Persons"}, "columns of the table's key are needed"),
    ({"table": "Persons", "key": {"Name": "1"}}, "the columns of the key of dbo.Persons are ID"),
    ({"table": "Persons", "key": {"ID": "1", "id": "1"}}, "are ID"),
    ({"table": "Persons", "key": {"ID": "one' OR 1=1 --"}}, "no value of type int"),
    ({"table": "Persons", "key": {"ID": " "}}, "no value of type int"),
]


def test_an_order_that_cannot_be_right_is_refused(world: World) -> None:
    change(world)
    messages = world.messages()
    for order, part in REFUSED:
        with pytest.raises(ConfigurationError) as caught:
            messages.stories(StoryOrder(**order))
        assert part in str(caught.value)
        assert "OR 1=1" not in str(caught.value)
    with pytest.raises(NotFound, match="no such table"):
        messages.stories(StoryOrder(table="Nobody", key={"ID": "1"}))


def test_a_masked_value_is_in_no_answer(world: World) -> None:
    change(world, UPDATE)
    world.desk.place.settings["more"] = MASKED
    _, updated = world.captured()
    world.send(updated)
    world.offset(updated)
    assert updated.message is not None
    assert SECRET.encode() not in updated.message.body
    messages = world.messages()
    told = [
        messages.stories(StoryOrder(table="Persons", key={"ID": "1"})).model_dump_json(),
        messages.stories(StoryOrder(event_id=updated.event_id)).model_dump_json(),
        messages.page("queue", dead=False, chosen=MessageFilter(), after=None, most=10).model_dump_json(),
    ]
    assert all(SECRET not in each for each in told)
    assert json.loads(told[2])["items"][0]["event_id"] == updated.event_id


def test_through_the_published_functions_a_change_is_found_by_its_id(world: World) -> None:
    world.desk.place.settings["more"] = 'query_mode = "function"'
    change(world, UPDATE)
    _, updated = world.captured()
    assert "-0-" in updated.event_id
    assert world.story(updated.event_id).verdict == "waiting"


def test_what_cannot_be_asked_is_unknown_and_the_rest_is_told(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    change(world)
    [one] = world.captured()
    world.send(one)
    world.offset(one)
    world.desk.place.settings["port"] = 1
    messages = world.messages()
    [story] = messages.stories(StoryOrder(event_id=one.event_id)).items
    assert story.verdict == "queued"
    assert [each.what for each in story.unknown] == ["SQL Server"]
    assert all("test-Password" not in each.text for each in story.unknown)
