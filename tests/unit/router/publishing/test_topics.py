"""Which topics that turn up later get a publisher, and which of them may be created."""

from __future__ import annotations

from datetime import timedelta

import pytest

from common.bus.ports import SendInterrupted
from common.errors import ConfigurationError, PermanentError
from common.message import Message
from common.names import TableName
from router.publishing.awaited import NoTopic
from router.publishing.publishers import Publishers
from router.publishing.topics import Topics
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
        self.settings = SETTINGS.model_copy(
            update={"topics": {}, "topics_begin": ("srv.db.",), "create_under": ("srv.db.",), **settings}
        )
        self.now: RouterSettings | ConfigurationError = self.settings
        self.publishers: Publishers = Topics(
            self.settings, self.broker.sender, self._provide, self._latest, Tally()
        ).publishers()

    def _provide(self, topic: str) -> None:
        self.provided.append(topic)
        self.broker.create(topic)

    def _latest(self) -> RouterSettings:
        if isinstance(self.now, ConfigurationError):
            raise self.now
        return self.now

    def sent(self, topic: str) -> str:
        """What becomes of the first change for a topic without grace: "" when the topic has it, else why not."""
        if refused := self.publishers.admit([topic]):
            return refused[topic]
        try:
            self.publishers[topic].send([MESSAGE])
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
