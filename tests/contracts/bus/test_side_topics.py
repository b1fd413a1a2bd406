"""Side topics on an emulated namespace: what `snapshot start --to` and `replay` create, and which of them a router sends to."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from common.errors import ConfigurationError, PermanentError
from emulators.servicebus.description import SubscriptionDescription, TopicDescription
from emulators.servicebus.server import ServiceBusEmulator
from router.side_topic import provide
from tests.contracts.bus.test_new_tables import File, routing
from tests.contracts.bus.test_router import PERSONS, change, left, put, read, settings
from tests.contracts.bus.test_router_faults import numbered, waited_for

COPY = "orders-copy"


@pytest.fixture(scope="module")
def shared() -> Iterator[ServiceBusEmulator]:
    with ServiceBusEmulator() as emulator:
        yield emulator


def test_a_side_topic_is_made_with_its_subscription_once_and_is_one_the_second_time_too(
    shared: ServiceBusEmulator,
) -> None:
    known = settings(shared)
    for _ in range(2):
        assert provide(known, "Made-Here", "reader") == "made-here"
    paths = {info.path for info in shared.admin.topics()}
    assert "made-here" in paths
    assert [info.path for info in shared.admin.subscriptions("made-here")] == ["made-here/Subscriptions/reader"]


def test_without_a_subscription_it_gets_those_of_the_router(shared: ServiceBusEmulator) -> None:
    provide(settings(shared, subscriptions=("a", "b")), "for-both")
    assert len(list(shared.admin.subscriptions("for-both"))) == 2


def test_a_topic_of_somebody_else_is_one_for_a_replay_and_none_for_messages_of_the_queue(
    shared: ServiceBusEmulator,
) -> None:
    known = settings(shared)
    shared.admin.create("theirs", TopicDescription())
    assert provide(known, "theirs", routed=False) == "theirs"
    with pytest.raises(PermanentError, match="checking topic theirs: no router sends to it"):
        provide(known, "theirs")
    allowed = settings(shared, unknown_destination="create", create_under=("theirs",))
    assert provide(allowed, "theirs") == "theirs"


def test_the_mark_is_of_one_queue(shared: ServiceBusEmulator) -> None:
    provide(settings(shared), "of-one")
    with pytest.raises(PermanentError, match="no router sends to it"):
        provide(settings(shared, queue_name="another-queue"), "of-one")


def test_a_router_that_cannot_see_marks_needs_the_topic_in_its_configuration(shared: ServiceBusEmulator) -> None:
    with pytest.raises(ConfigurationError, match=r"router\.provision is none"):
        provide(settings(shared, provision="none"), COPY)
    with pytest.raises(PermanentError, match="verifying"):
        provide(settings(shared, provision="verify"), "not-there")


def test_a_running_router_sends_to_a_side_topic_and_to_no_other_that_no_table_has() -> None:
    with ServiceBusEmulator() as emulator:
        known = settings(emulator, topics_begin=("srv.db.",))
        with routing(known, File(known)) as tally:
            emulator.admin.create("theirs", TopicDescription())
            emulator.admin.create("theirs/Subscriptions/sub1", SubscriptionDescription())
            provide(known, COPY)
            put(emulator, [change("stray", 1, "theirs"), change("absent", 1, "not-there")])
            put(emulator, [change(COPY, number, COPY) for number in range(5)])
            put(emulator, [change(PERSONS, number, PERSONS) for number in range(5)])
            waited_for(lambda: (tally.routed[COPY], tally.routed[PERSONS]) == (5, 5))
            waited_for(lambda: tally.dead_lettered == {"UnknownDestination": 2})
        assert [found.message_id for found in read(emulator, COPY, 5)] == numbered(COPY, 5)
        assert emulator.admin.get("theirs/Subscriptions/sub1").counts.active == 0
        assert "not-there" not in {info.path for info in emulator.admin.topics()}
        assert left(emulator) == (0, 2)
