"""Depths of many topics: those that hold nothing cost no request each, and one deadline ends everything."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage

from common.azure_amqp.address import read_address
from common.bus.depths import Depth, Unlisted
from common.errors import TransientError
from common.servicebus.operating.depths import Depths
from tests.contracts.check.conftest import Place

FULL, FULLER, EMPTY, NOWHERE = "full", "fuller", "empty-0", "nowhere"


@pytest.fixture
def many(place: Place) -> Iterator[tuple[list[str], dict[str, int]]]:
    """20 topics, two of which hold something."""
    names = [FULL, FULLER, *(f"empty-{number}" for number in range(18))]
    held = {FULL: 1, FULLER: 3}
    for name in names:
        place.admin.create_topic(name)
        place.admin.create_subscription(name, "sub1")
    with ServiceBusClient.from_connection_string(place.settings["bus"]) as client:
        for name, count in held.items():
            with client.get_topic_sender(name) as sender:
                sender.send_messages([ServiceBusMessage(b"x" * 100) for _ in range(count)])
    yield [*names, NOWHERE], held
    for name in names:
        place.admin.delete_topic(name)


def depths(place: Place, **options: float) -> Depths:
    return Depths(read_address(place.settings["bus"]), place.settings["management"], **options)  # type: ignore[arg-type]


def test_of_many_topics_those_that_hold_something_are_asked(
    place: Place, many: tuple[list[str], dict[str, int]]
) -> None:
    names, _ = many
    with closing(depths(place)) as asked:
        listed: list[str] = []
        ask = asked._subscriptions
        asked._subscriptions = lambda topic: listed.append(topic) or ask(topic)  # type: ignore[method-assign,func-returns-value]
        found = asked.topics(names)
    assert set(listed) == {FULL, FULLER}
    assert found[FULLER] == [Depth(FULLER, "sub1", 3, 0)]
    assert (found[EMPTY], found[NOWHERE]) == (Unlisted(1), None)


def test_of_many_topics_one_that_lacks_a_subscription_is_asked_first(
    place: Place, many: tuple[list[str], dict[str, int]]
) -> None:
    names, _ = many
    place.admin.delete_subscription(EMPTY, "sub1")
    with closing(depths(place, most_asked=1)) as asked:
        found = asked.topics(names, fewest=1)
    assert (found[EMPTY], found["empty-1"]) == ([], Unlisted(1))


def test_the_fullest_are_asked_first_and_what_is_left_out_says_so(
    place: Place, many: tuple[list[str], dict[str, int]]
) -> None:
    names, _ = many
    with closing(depths(place, most_asked=1)) as asked:
        found = asked.topics(names)
    assert found[FULLER] == [Depth(FULLER, "sub1", 3, 0)]
    assert isinstance(found[FULL], TransientError)
    assert "not asked" in str(found[FULL])


def test_when_the_time_is_over_nothing_more_is_asked(place: Place) -> None:
    place.make_queue()
    with (
        closing(depths(place, seconds=0.0)) as asked,
        pytest.raises(TransientError, match="the 0 s for all of it are over"),
    ):
        asked.queue(place.queue)


def test_a_queue_that_is_not_there_has_no_depth(place: Place) -> None:
    with closing(depths(place)) as asked:
        assert asked.queue("nowhere") is None
