"""The router when a topic, a lock or a message fails it, on an emulated namespace through the unmodified SDK: everything is accounted for."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusSubQueue
from azure.servicebus.exceptions import SessionCannotBeLockedError

from common.message import Message
from emulators.servicebus.description import QueueDescription, SubscriptionDescription, TopicDescription
from emulators.servicebus.faults.catalogue import LocksLost, SendsRefused
from emulators.servicebus.server import ServiceBusEmulator
from tests.contracts.bus.test_router import (
    ORDERS,
    PERSONS,
    change,
    left,
    put,
    read,
    routed,
    routing,
    settings,
)

INVOICES = "srv.db.invoices.events"


def ids(emulator: ServiceBusEmulator, topic: str, count: int) -> list[str | None]:
    return [found.message_id for found in read(emulator, topic, count)]


def locked(emulator: ServiceBusEmulator) -> bool:
    """Whether somebody has the session of PERSONS."""
    with ServiceBusClient.from_connection_string(emulator.connection_string) as client:
        try:
            with client.get_queue_receiver("ingest-queue", session_id=PERSONS):
                return False
        except SessionCannotBeLockedError:
            return True


def numbered(topic: str, count: int, first: int = 0) -> list[str]:
    return [f"{topic}-{number}" for number in range(first, first + count)]


def waited_for(condition: Callable[[], bool], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def sessions_of(topic: str, sessions: int, each: int) -> list[Message]:
    return [change(topic, number, f"{topic}#{number % sessions}") for number in range(sessions * each)]


def test_sessions_of_a_throttled_topic_leave_the_slots_to_the_others(emulator: ServiceBusEmulator) -> None:
    put(emulator, sessions_of(PERSONS, 4, 10))
    chosen = settings(emulator, ordering="key", slots=2)
    with (
        routing(chosen, lambda tally: tally.routed[PERSONS] == 40) as tally,
        emulator.inject(SendsRefused(PERSONS, "com.microsoft:server-busy")),
    ):
        waited_for(lambda: tally.retries[PERSONS] >= 4)  # both slots have met it, and more than once
        put(emulator, sessions_of(ORDERS, 4, 10))
        waited_for(lambda: tally.routed[ORDERS] == 40)
        assert tally.routed[PERSONS] == 0
    lanes: dict[str | None, list[str | None]] = {}
    for found in read(emulator, PERSONS, 40):
        lanes.setdefault(found.session_id, []).append(found.message_id)
    assert lanes == {f"{PERSONS}#{lane}": [f"{PERSONS}-{n}" for n in range(lane, 40, 4)] for lane in range(4)}
    assert left(emulator) == (0, 0)


@pytest.mark.parametrize("ordering", ["none", "table"])
def test_a_stop_leaves_nothing_locked_of_what_waits_for_its_destination(
    emulator: ServiceBusEmulator, ordering: str
) -> None:
    """Without sessions the end of a link is not the end of its locks: whoever comes next would wait for them to run out."""
    messages = [change(PERSONS, number, PERSONS) for number in range(10)]
    put(emulator, messages, sessions=ordering != "none")
    with (
        emulator.inject(SendsRefused(PERSONS, "amqp:internal-error")),
        routing(settings(emulator, ordering=ordering), lambda tally: tally.retries[PERSONS] > 0),
    ):
        pass
    began = time.monotonic()
    with routing(settings(emulator, ordering=ordering), routed(10)):
        pass
    assert time.monotonic() - began < 20  # a lock of the queue is longer
    assert sorted(found or "" for found in ids(emulator, PERSONS, 10)) == sorted(numbered(PERSONS, 10))


def test_lost_locks_are_counted_and_their_messages_come_again(emulator: ServiceBusEmulator) -> None:
    put(emulator, [change(PERSONS, number, PERSONS) for number in range(300)])
    with (
        emulator.inject(LocksLost("ingest-queue", 1)),
        routing(settings(emulator), lambda tally: left(emulator)[0] == 0) as tally,
    ):
        pass
    assert tally.lost_locks + tally.routed.total() >= 300
    assert tally.lost_locks > 0
    assert ids(emulator, PERSONS, 300) == numbered(PERSONS, 300)


def test_stop_keeps_a_poisoned_session_locked_and_in_order_until_a_restart(emulator: ServiceBusEmulator) -> None:
    poisoned = [change(PERSONS, 0, PERSONS), Message(b"{", "bad", PERSONS), change(PERSONS, 1, PERSONS)]
    put(emulator, [*poisoned, *(change(ORDERS, number, ORDERS) for number in range(50))])
    stopping = settings(emulator, on_poison="stop", slots=1)
    with routing(stopping, lambda tally: tally.routed.total() == 51):
        pass
    assert left(emulator) == (2, 0)
    assert ids(emulator, PERSONS, 1) == [f"{PERSONS}-0"]
    assert ids(emulator, ORDERS, 50) == numbered(ORDERS, 50)

    with routing(settings(emulator), routed(2)) as tally:
        pass
    assert tally.dead_lettered == {"MalformedMessage": 1}
    assert ids(emulator, PERSONS, 1) == [f"{PERSONS}-1"]


def test_another_router_does_not_get_a_session_that_is_stopped(emulator: ServiceBusEmulator) -> None:
    put(emulator, [Message(b"{", "bad", PERSONS), change(PERSONS, 1, PERSONS)])
    with routing(settings(emulator, on_poison="stop"), lambda tally: True):
        waited_for(lambda: locked(emulator))
        with routing(settings(emulator), lambda tally: True) as other:
            put(emulator, [change(ORDERS, 1, ORDERS)])
            waited_for(lambda: left(emulator)[0] == 2)
        assert other.dead_lettered == {}
    assert left(emulator) == (2, 0)


def test_a_topic_of_no_configured_table_is_made_with_its_subscription(emulator: ServiceBusEmulator) -> None:
    put(emulator, [change(INVOICES, number, INVOICES) for number in range(50)])
    with routing(settings(emulator, unknown_destination="create"), routed(50)):
        pass
    assert ids(emulator, INVOICES, 50) == numbered(INVOICES, 50)
    assert left(emulator) == (0, 0)


@pytest.mark.parametrize(
    ("topic", "part"), [("no such name", "not a valid topic name"), ("ingest-queue", "it is the ingest queue")]
)
def test_a_name_that_cannot_be_a_destination_is_dead_lettered(
    emulator: ServiceBusEmulator, topic: str, part: str
) -> None:
    put(emulator, [change(topic, 1, PERSONS), change(PERSONS, 1, PERSONS)])
    with routing(settings(emulator, unknown_destination="create"), routed(2)):
        pass
    with (
        ServiceBusClient.from_connection_string(emulator.connection_string) as client,
        client.get_queue_receiver("ingest-queue", sub_queue=ServiceBusSubQueue.DEAD_LETTER) as receiver,
    ):
        [dead] = receiver.receive_messages(1, max_wait_time=2)
    assert dead.dead_letter_reason == "UnknownDestination"
    assert part in (dead.dead_letter_error_description or "")


def test_topics_are_made_under_the_prefixes_alone_and_so_many_at_most(emulator: ServiceBusEmulator) -> None:
    """Who may send to the queue may not choose any topic of the namespace, nor fill it with topics."""
    emulator.admin.create("payroll", TopicDescription())
    asked = ["payroll", "srv.db.a.events", "srv.db.b.events"]
    put(emulator, [change(topic, 1, "names") for topic in asked])
    chosen = settings(emulator, unknown_destination="create", create_at_most=1, unknown_grace="0s")
    with routing(chosen, routed(3)) as tally:
        pass
    assert tally.routed == {"srv.db.a.events": 1}
    assert {info.path for info in emulator.admin.topics()} == {"payroll", PERSONS, ORDERS, "srv.db.a.events"}
    with (
        ServiceBusClient.from_connection_string(emulator.connection_string) as client,
        client.get_queue_receiver("ingest-queue", sub_queue=ServiceBusSubQueue.DEAD_LETTER) as receiver,
    ):
        dead = [found.dead_letter_error_description or "" for found in receiver.receive_messages(2, max_wait_time=2)]
    assert [("payroll" in text, "create_under" in text, "create_at_most" in text) for text in sorted(dead)] == [
        (True, True, False),
        (False, False, True),
    ]


def test_queue_and_topics_are_made_with_the_windows_of_the_settings(emulator: ServiceBusEmulator) -> None:
    hour, day = timedelta(hours=1), timedelta(days=1)
    with routing(settings(emulator, duplicate_window=day, queue_duplicate_window=hour), lambda tally: True):
        waited_for(lambda: len(list(emulator.admin.topics())) == 2)
    found = [emulator.admin.get(path).description for path in ("ingest-queue", PERSONS)]
    assert isinstance(found[0], QueueDescription)
    assert isinstance(found[1], TopicDescription)
    assert found[0].duplicate_detection_history_time_window == hour
    assert found[1].duplicate_detection_history_time_window == day


@pytest.mark.parametrize("how", ["by its owner", "by the router"])
def test_a_topic_deleted_while_the_router_runs_is_sent_to_again_when_it_is_back(
    emulator: ServiceBusEmulator, how: str, capsys: pytest.CaptureFixture[str]
) -> None:
    put(emulator, [change(PERSONS, 0, PERSONS)])
    chosen = settings(emulator, unknown_destination="create" if how == "by the router" else "dead_letter")
    with routing(chosen, lambda tally: tally.routed[PERSONS] == 21) as tally:
        waited_for(lambda: tally.routed[PERSONS] == 1)
        emulator.admin.delete(PERSONS)
        put(emulator, [change(PERSONS, number, PERSONS) for number in range(1, 21)])
        if how == "by its owner":
            waited_for(lambda: tally.retries[PERSONS] >= 2)
            emulator.admin.create(PERSONS, TopicDescription())
            emulator.admin.create(f"{PERSONS}/Subscriptions/sub1", SubscriptionDescription())
    assert ids(emulator, PERSONS, 20) == numbered(PERSONS, 20, 1)
    assert left(emulator) == (0, 0)
    told = [line for line in capsys.readouterr().out.splitlines() if "topic was deleted, and is created again" in line]
    assert len(told) == (how == "by the router")


def test_a_topic_deleted_while_the_router_runs_is_an_error_with_the_remedy_and_shows_in_the_readiness(
    emulator: ServiceBusEmulator, capsys: pytest.CaptureFixture[str]
) -> None:
    put(emulator, [change(PERSONS, 0, PERSONS)])
    with routing(settings(emulator), lambda tally: tally.routed[PERSONS] == 6) as tally:
        waited_for(lambda: tally.routed[PERSONS] == 1)
        emulator.admin.delete(PERSONS)
        put(emulator, [change(PERSONS, number, PERSONS) for number in range(1, 6)])
        waited_for(lambda: PERSONS in (tally.figures().ready() or ""), 60)
        emulator.admin.create(PERSONS, TopicDescription())
    told = [line for line in capsys.readouterr().out.splitlines() if "topic unavailable" in line and "[error" in line]
    assert len(told) == 1
    assert "hint=" in told[0]
    assert left(emulator) == (0, 0)
