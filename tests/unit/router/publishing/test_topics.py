"""Which topics that turn up later get a publisher, and which of them may be created."""

from __future__ import annotations

from datetime import timedelta

import pytest
from structlog.testing import capture_logs

from common.bus.ports import OpenableSender, SendInterrupted
from common.errors import ConfigurationError, DStreamError, EntityMissing, PermanentError, TransientError
from common.message import Message, Property
from common.names import Origin, TableName
from common.table_selection import TableSelection, entry
from router.outputs.port import Stream
from router.publishing import publishers
from router.publishing.awaited import NoTopic
from router.publishing.further import LISTED_AGAIN, Further
from router.publishing.publishers import Publishers
from router.publishing.topics import Topics
from router.routing.table import key_of
from router.settings import RouterSettings
from router.tally import Tally
from tests.fakes.bus import FakeBroker
from tests.unit.router.test_restarts import SETTINGS

MESSAGE = Message(b"{}", "m-1")


class World:
    """A namespace, and the settings as the configuration says now."""

    def __init__(self, **settings: object) -> None:
        self.broker = FakeBroker()
        self.provided: list[str] = []
        self.unprovided: list[DStreamError] = []
        self.settings = SETTINGS.model_copy(
            update={"topics": {}, "topics_begin": ("srv.db.",), "create_under": ("srv.db.",), **settings}
        )
        self.now: RouterSettings | ConfigurationError = self.settings
        self.publishers = self._made(Further(self.settings, self._latest))

    def _made(self, further: Further) -> Publishers:
        settings = self.settings
        streams = settings.streams["default"]
        return Topics(settings, settings.output, streams, self._sender, self._provide, further, Tally()).publishers()

    def _sender(self, stream: Stream) -> OpenableSender:
        return self.broker.sender(stream.destination)

    def _provide(self, stream: Stream) -> None:
        if self.unprovided:
            raise self.unprovided.pop()
        self.provided.append(stream.destination)
        self.broker.create(stream.destination)

    def _latest(self) -> RouterSettings:
        if isinstance(self.now, ConfigurationError):
            raise self.now
        return self.now

    def sent(self, topic: str, message: Message = MESSAGE) -> str:
        """What becomes of the first change for a topic without grace: "" when the topic has it, else why not."""
        if refused := self.publishers.admit([topic]):
            return refused[topic]
        try:
            self.publishers[topic].send([message])
        except (SendInterrupted, NoTopic) as error:
            return error.message
        return ""


def world(**settings: object) -> World:
    return World(unknown_grace=timedelta(0), **settings)


def test_a_topic_that_no_table_has_is_created_where_that_is_allowed() -> None:
    creating = world(unknown_destination="create")
    assert creating.sent("srv.db.t1.events") == ""
    assert creating.provided == ["srv.db.t1.events"]
    assert creating.broker.entity("srv.db.t1.events").bodies == [b"{}"]


def test_no_more_topics_are_created_than_are_allowed_and_none_elsewhere() -> None:
    creating = world(unknown_destination="create", create_at_most=1, create_under=("srv.db.", "srv.archive."))
    assert creating.sent("srv.archive.t1.events") == ""
    assert "router.create_at_most" in creating.sent("srv.db.t2.events")
    assert "no table of this configuration could have it" in creating.sent("srv.payroll.t1.events")
    assert creating.sent("ingest-queue") == "it is the ingest queue"
    assert creating.provided == ["srv.archive.t1.events"]


def test_a_topic_that_may_not_be_created_is_had_once_the_configuration_names_it() -> None:
    creating = world(unknown_destination="create", create_under=("srv.other.",))
    assert "router.create_under" in creating.sent("srv.db.t1.events")
    creating.now = creating.settings.model_copy(update={"topics": {"srv.db.t2.events": TableName("dbo", "T2")}})
    assert creating.sent("srv.db.t2.events") == ""


@pytest.mark.parametrize("unknown", ["dead_letter", "create"])
def test_a_configuration_that_cannot_be_read_is_no_answer(unknown: str) -> None:
    reading = world(unknown_destination=unknown, create_under=())
    reading.now = ConfigurationError(["dstream.hcl:3: half a file"])
    assert "checking again" in reading.sent("srv.db.t1.events")


@pytest.mark.parametrize(("unknown", "again"), [("dead_letter", False), ("create", True)])
def test_a_configured_topic_that_worked_and_was_deleted_is_made_again_where_unknown_ones_are(
    unknown: str, again: bool
) -> None:
    having = world(unknown_destination=unknown, topics={"srv.db.t1.events": TableName("dbo", "T1")})
    entity = having.broker.create("srv.db.t1.events")
    assert having.sent("srv.db.t1.events") == ""
    entity.faults.extend([PermanentError("it does not exist")] * 2)
    for _ in range(2):
        having.sent("srv.db.t1.events")
    assert having.provided == ["srv.db.t1.events"] * again


class Side(World):
    """With side topics: what their listing answers, and how often it was asked."""

    def __init__(self, **settings: object) -> None:
        super().__init__(**{"unknown_grace": timedelta(0), **settings})
        self.answer: set[str] | DStreamError = set()
        self.listed = 0
        self.clock = 0.0
        self.publishers = self._made(Further(self.settings, self._latest, self._marked, lambda: self.clock))

    def _marked(self) -> set[str]:
        self.listed += 1
        if isinstance(self.answer, DStreamError):
            raise self.answer
        return self.answer


@pytest.mark.parametrize("how", ["dead_letter", "create"])
def test_a_side_topic_is_used_whatever_its_name_and_never_provided(how: str) -> None:
    known = Side(unknown_destination=how)
    known.answer = {"copy"}
    known.broker.create("copy")
    assert known.sent("copy") == ""
    assert known.provided == []


def test_a_side_topic_that_is_deleted_is_not_created_for_a_message() -> None:
    known = Side()
    known.answer = {"copy"}
    assert "copy" in known.sent("copy")
    assert known.provided == []


def test_another_topic_is_refused_at_once_where_no_table_could_have_it_and_after_the_grace_where_one_could() -> None:
    known = Side(unknown_grace=timedelta(minutes=5))
    known.broker.create("theirs")
    assert "no table of this configuration could have it" in known.sent("theirs")
    assert "after a wait" not in known.sent("theirs")
    assert "it is not a side topic" in known.sent("srv.db.new.events")
    assert "belongs to no configured table" not in known.sent("srv.db.new.events")


def test_many_invented_names_cost_one_listing_a_second() -> None:
    known = Side()
    for number in range(50):
        known.sent(f"invented-{number}")
    assert known.listed == 1
    known.clock = LISTED_AGAIN
    known.sent("another")
    assert known.listed == 2


def test_while_the_listing_fails_messages_wait_and_without_the_right_to_it_they_do_not() -> None:
    known = Side()
    known.answer = TransientError("the service is busy")
    assert "checking again" in known.sent("copy")
    known.answer = PermanentError("no Manage right")
    assert "side topics cannot be listed: no Manage right" in known.sent("other")


ORIGIN = Origin("srv", "db")


def of_patterns(*entries: str) -> dict[str, object]:
    return {"selection": TableSelection.of(map(entry, entries)), "origin": ORIGIN}


def test_the_topic_of_a_table_that_a_pattern_matches_is_made_at_its_first_change() -> None:
    matching = world(**of_patterns("sales.*", "Audit?", "!sales.Audit*"), create_at_most=1)
    found = ["srv.db.sales.orders.events", "srv.db.sales.order_x0020_details.events", "srv.db.audit1.events"]
    assert [matching.sent(topic) for topic in found] == ["", "", ""]
    assert matching.provided == found
    for topic in ("srv.db.sales.auditlog.events", "srv.db.audit.events", "srv.db.sales.a.b.events", "srv.db.sales.x"):
        assert "belongs to no configured table" in matching.sent(topic)
    assert matching.provided == found


def test_a_name_that_does_not_show_its_table_is_matched_by_what_its_change_says() -> None:
    matching = world(**of_patterns("sales.*"))
    long = TableName("sales", "\u0436" * 60)
    topic = ORIGIN.topic(long)
    assert ORIGIN.table_of(topic) is None
    told = {Property.SCHEMA: "sales", Property.TABLE: long.table}
    other = {Property.SCHEMA: "sales", Property.TABLE: "Orders"}
    assert matching.sent(topic, Message(b"{}", "m-1", application_properties=told)) == ""
    lying = ORIGIN.topic(TableName("hr", "\u0436" * 60))
    assert "belongs to no configured table" in matching.sent(lying, Message(b"{}", "m-1", application_properties=other))


def test_patterns_are_those_of_the_file_and_while_it_cannot_be_read_those_of_the_start() -> None:
    matching = world(**of_patterns("sales.*"))
    matching.now = matching.settings.model_copy(update=of_patterns("hr.*"))
    assert matching.sent("srv.db.hr.people.events") == ""
    assert "belongs to no configured table" in matching.sent("srv.db.sales.orders.events")
    matching.now = ConfigurationError(["dstream.hcl:3: half a file"])
    assert matching.sent("srv.db.sales.items.events") == ""


def test_changes_wait_where_more_tables_match_than_may() -> None:
    """A sender to the queue can invent names: they are neither created without limit nor dead-lettered, for they may be real."""
    matching = world(**of_patterns("*.*"), match_at_most=2, unknown_destination="create")
    assert [matching.sent(f"srv.db.t{number}.events") for number in range(2)] == ["", ""]
    with capture_logs() as logs:
        assert "checking again" in matching.sent("srv.db.t2.events")
        assert matching.sent("srv.db.t1.events") == ""
    assert [(line["log_level"], line["event"]) for line in logs] == [("error", "topic unavailable; its changes wait")]
    assert "router.match_at_most" in logs[0]["error"]
    assert len(matching.provided) == 2


def test_a_matched_table_has_room_however_many_unknown_topics_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a start each of thousands of tables is unknown until its first change."""
    monkeypatch.setattr(publishers, "MOST_AWAITED", 1)
    matching = world(**of_patterns("sales.*"), match_at_most=3)
    found = [f"srv.db.sales.t{number}.events" for number in range(3)]
    assert matching.publishers.admit(["srv.db.invented.events", *found]) == {}
    assert "other unknown topics" in matching.publishers.admit(["srv.db.another.events"])["srv.db.another.events"]
    assert [matching.sent(topic) for topic in found] == ["", "", ""]
    assert "other unknown topics" in matching.sent("srv.db.sales.t3.events")


def test_changes_of_a_matched_table_wait_for_a_topic_that_somebody_else_makes() -> None:
    matching = world(**of_patterns("sales.*"))
    matching.unprovided = [PermanentError("the topic does not exist")] * 2
    with capture_logs() as logs:
        assert [matching.sent("srv.db.sales.orders.events") for _ in range(3)] == ["the topic does not exist"] * 2 + [
            ""
        ]
    assert [line["event"] for line in logs] == ["topic unavailable", "topic available again"]
    assert matching.sent("srv.db.sales.orders.events") == ""


def test_a_topic_that_nobody_has_made_is_not_called_added_and_the_log_says_whose_it_is() -> None:
    """With `provision = "none"` only the link shows that it does not exist."""
    matching = world(**of_patterns("sales.*"))
    matching.unprovided = [EntityMissing("the topic does not exist", hint="correct its name in the configuration")]
    with capture_logs() as logs:
        matching.sent("srv.db.sales.orders.events")
    [line] = logs
    assert line["event"] == "topic unavailable"
    assert line["hint"].startswith(
        "it is the topic of a table that the pattern sales.* of `tables` matches: create the topic, or"
    )
    with capture_logs() as logs:
        assert matching.sent("srv.db.sales.items.events") == ""
    assert [line["event"] for line in logs] == ["topic added"]


def test_a_message_that_does_not_say_its_table_goes_where_its_topic_says() -> None:
    matching = world(**of_patterns("sales.*"))
    key = key_of("srv.db.sales.orders.events", "Archive.{schema}.{table}")
    assert matching.sent(key) == ""
    assert matching.provided == ["Archive.sales.orders"]
