"""The whole router on an emulated namespace, through the unmodified SDK: as it runs in production, watched from both ends."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
import structlog
from azure.servicebus import ServiceBusClient, ServiceBusReceivedMessage, ServiceBusSubQueue
from azure.servicebus.amqp import AmqpAnnotatedMessage, AmqpMessageBodyType

from common.bus.ports import Need, Provision, QueueNeed, TopicNeed
from common.errors import PermanentError
from common.message import Message
from common.names import TableName
from common.servicebus.management import management_address
from common.servicebus.namespace import ServiceBus
from common.servicebus.provision import provision
from emulators.servicebus.administration.api import AdminApi, Answer
from emulators.servicebus.description import QueueDescription, SubscriptionDescription, TopicDescription
from emulators.servicebus.server import ServiceBusEmulator
from router.app import route, run
from router.receiving.pace import Pace
from router.settings import RouterSettings
from router.tally import Tally

PERSONS, ORDERS = "srv.db.persons.events", "srv.db.orders.events"
QUICK = Pace(batch=200, accept_wait=0.5)


def settings(emulator: ServiceBusEmulator, *, transport: str = "amqp", **changes: Any) -> RouterSettings:
    namespace = {
        "transport": transport,
        "type": "servicebus",
        "connection_string": emulator.connection_string,
        "management_endpoint": f"http://127.0.0.1:{emulator.http_port}",
    }
    values = {
        "source": namespace,
        "output": namespace,
        "queue_name": "ingest-queue",
        "ordering": "table",
        "topics": {PERSONS: TableName("dbo", "Persons"), ORDERS: TableName("dbo", "Orders")},
        "slots": 3,
        "create_under": ("srv.db.",),
    }
    return RouterSettings(**{**values, **changes})


@contextmanager
def routing(
    chosen: RouterSettings, until: Callable[[Tally], bool], *, seconds: float = 30, proven: bool = False
) -> Iterator[Tally]:
    """A running router; leaving waits for `until`, stops it and checks that it ended cleanly. `proven`: as one that is started again."""
    stop, tally, ended = threading.Event(), Tally(), list[int]()
    thread = threading.Thread(
        target=lambda: ended.append(
            (partial(route, proven=True) if proven else run)(chosen, stop, pace=QUICK, tally=tally)
        )
    )
    thread.start()
    try:
        yield tally
        deadline = time.monotonic() + seconds
        while not until(tally) and not stop.is_set() and time.monotonic() < deadline:
            stop.wait(0.02)
        assert until(tally), tally
    finally:
        stop.set()
        thread.join(30)
    assert ended == [0]


def routed(count: int) -> Callable[[Tally], bool]:
    return lambda tally: tally.routed.total() + tally.dead_lettered.total() >= count


def change(topic: str, number: int, session: str) -> Message:
    body = json.dumps({"data": {"ID": number}, "metadata": {"Destination": topic}}).encode()
    return Message(body, f"{topic}-{number}", session, application_properties={"destination": topic})


def put(emulator: ServiceBusEmulator, messages: list[Message], *, sessions: bool = True) -> None:
    """Into the ingest queue, created as the ingester would."""
    bus = ServiceBus.from_connection_string(emulator.connection_string)
    endpoint = f"http://127.0.0.1:{emulator.http_port}"
    provision(bus.address, [QueueNeed("ingest-queue", sessions=sessions)], how="create", management_endpoint=endpoint)
    sender = bus.sender("ingest-queue")
    sender.send(messages)
    # The SDK takes a second to end a sender's thread; nobody here waits for that.
    threading.Thread(target=sender.close).start()


def read(emulator: ServiceBusEmulator, topic: str, count: int) -> list[ServiceBusReceivedMessage]:
    """All messages of the topic's one subscription, which must be `count`."""
    with (
        ServiceBusClient.from_connection_string(emulator.connection_string) as client,
        client.get_subscription_receiver(
            topic, "sub1", receive_mode="receiveanddelete", prefetch_count=500
        ) as receiver,
    ):
        found: list[ServiceBusReceivedMessage] = []
        while len(found) < count and (more := receiver.receive_messages(count - len(found), max_wait_time=3)):
            found += more
    assert emulator.admin.get(f"{topic}/Subscriptions/sub1").counts.active == 0
    return found


def left(emulator: ServiceBusEmulator) -> tuple[int, int]:
    """(active, dead-lettered) messages in the ingest queue."""
    counts = emulator.admin.get("ingest-queue").counts
    return counts.active, counts.dead_letter


WHOLE = Message(
    body=b'{"data": {"Name": "\xc3\x84\\u00e9"},  "metadata": {}}\r\n',
    message_id="event-1",
    session_id="whole",
    subject="Update",
    content_type="application/json",
    partition_key="whole",
    correlation_id="corr",
    reply_to="back",
    to="there",
    time_to_live=timedelta(hours=5),
    application_properties={"destination": ORDERS, "lsn": "0" * 20, "n": 3, "flag": False, "x": 1.5},
)


@dataclass(frozen=True)
class Outcome:
    """What a router made of a mixed load, seen from both ends."""

    persons: list[ServiceBusReceivedMessage]
    orders: list[ServiceBusReceivedMessage]
    dead: dict[str | None, ServiceBusReceivedMessage]
    left: tuple[int, int]


@pytest.fixture(scope="module", params=["amqp", "websocket"])
def outcome(request: pytest.FixtureRequest) -> Iterator[Outcome]:
    """Two tables with 400 changes each, poison among them, and one message with all its properties."""
    with ServiceBusEmulator() as emulator:
        poison = [
            Message(b"not json", "malformed", PERSONS),
            Message(b"{}", "missing", PERSONS),
            change("srv.db.nowhere.events", 1, PERSONS),
        ]
        half = [change(topic, number, topic) for number in range(200) for topic in (PERSONS, ORDERS)]
        rest = [change(topic, number, topic) for number in range(200, 400) for topic in (PERSONS, ORDERS)]
        put(emulator, [*half, *poison, *rest, WHOLE])
        with ServiceBusClient.from_connection_string(emulator.connection_string) as client:
            with client.get_queue_sender("ingest-queue") as sender:
                value = AmqpAnnotatedMessage(value_body="text", properties={"message_id": "value", "group_id": PERSONS})
                assert value.body_type is AmqpMessageBodyType.VALUE
                sender.send_messages(value)
            with routing(settings(emulator, transport=request.param), routed(805)):
                pass
            with client.get_queue_receiver("ingest-queue", sub_queue=ServiceBusSubQueue.DEAD_LETTER) as receiver:
                dead = {found.message_id: found for found in receiver.receive_messages(4, max_wait_time=2)}
        yield Outcome(read(emulator, PERSONS, 400), read(emulator, ORDERS, 401), dead, left(emulator))


def test_all_changes_arrive_once_and_in_order_and_the_queue_is_empty(outcome: Outcome) -> None:
    orders = [found for found in outcome.orders if found.message_id != WHOLE.message_id]
    for topic, found in ((PERSONS, outcome.persons), (ORDERS, orders)):
        assert [each.message_id for each in found] == [f"{topic}-{number}" for number in range(400)]
        assert {each.session_id for each in found} == {topic}
    assert outcome.left == (0, 4)


def test_a_message_keeps_every_property_and_every_byte(outcome: Outcome) -> None:
    (found,) = (each for each in outcome.orders if each.message_id == WHOLE.message_id)
    assert b"".join(found.body) == WHOLE.body
    assert (found.session_id, found.partition_key) == ("whole", "whole")
    assert (found.subject, found.content_type, found.correlation_id) == ("Update", "application/json", "corr")
    assert (found.reply_to, found.to, found.time_to_live) == ("back", "there", timedelta(hours=5))
    assert {
        key.decode() if isinstance(key, bytes) else key: value.decode() if isinstance(value, bytes) else value
        for key, value in (found.application_properties or {}).items()
    } == WHOLE.application_properties


def test_poison_is_found_in_the_dead_letter_queue_with_its_reason(outcome: Outcome) -> None:
    assert {name: found.dead_letter_reason for name, found in outcome.dead.items()} == {
        "malformed": "MalformedMessage",
        "missing": "MissingDestination",
        "srv.db.nowhere.events-1": "UnknownDestination",
        "value": "MalformedMessage",
    }
    unknown = outcome.dead["srv.db.nowhere.events-1"]
    assert "srv.db.nowhere.events" in (unknown.dead_letter_error_description or "")


@pytest.mark.parametrize("unknown", ["dead_letter", "create"])
def test_no_management_call_is_made_for_a_message(
    emulator: ServiceBusEmulator, monkeypatch: pytest.MonkeyPatch, unknown: str
) -> None:
    """Entities are seen to at the start; what is routed later, and what is dead-lettered, asks for nothing."""
    asked: list[str] = []
    answer = AdminApi.answer

    def counted(self: AdminApi, method: str, url: str, headers: Mapping[str, str], body: bytes) -> Answer:
        asked.append(url)
        return answer(self, method, url, headers, body)

    put(emulator, [change(PERSONS, 0, PERSONS)])
    monkeypatch.setattr(AdminApi, "answer", counted)
    with routing(settings(emulator, unknown_destination=unknown), routed(100)) as tally:
        while not tally.routed.total():
            time.sleep(0.01)
        assert len(asked) >= 3  # the queue and both topics
        before = len(asked)
        bus = ServiceBus.from_connection_string(emulator.connection_string)
        with closing(bus.sender("ingest-queue")) as sender:
            sender.send([change(topic, n, topic) for topic in (PERSONS, ORDERS) for n in range(1, 50)])
            sender.send([Message(b"{", "bad", PERSONS)])
    assert len(asked) == before


def test_stand_ins_and_what_is_set_aside_are_dead_lettered_from_between_changes_that_are_delivered(
    emulator: ServiceBusEmulator,
) -> None:
    changes = [change(PERSONS, number, PERSONS) for number in range(6)]
    properties = {**changes[2].application_properties, "oversize": True, "schema": "dbo", "table": "Persons"}
    changes[2] = replace(changes[2], application_properties=properties)
    aside = {**changes[4].application_properties, "set_aside": "the filter fails"}
    changes[4] = replace(changes[4], application_properties=aside)
    put(emulator, changes)
    with routing(settings(emulator), routed(6)) as tally:
        pass
    assert tally.dead_lettered == {"Oversize": 1, "FilterFailed": 1}
    assert left(emulator) == (0, 2)
    assert [found.message_id for found in read(emulator, PERSONS, 4)] == [f"{PERSONS}-{n}" for n in (0, 1, 3, 5)]


def test_a_queue_without_sessions_is_routed_by_one_slot_in_order(emulator: ServiceBusEmulator) -> None:
    put(emulator, [change(PERSONS, number, PERSONS) for number in range(300)], sessions=False)
    with routing(settings(emulator, ordering="none", slots=1), routed(300)):
        pass
    assert [found.message_id for found in read(emulator, PERSONS, 300)] == [f"{PERSONS}-{n}" for n in range(300)]
    assert left(emulator) == (0, 0)


def test_order_holds_within_each_session_when_there_are_more_sessions_than_slots(emulator: ServiceBusEmulator) -> None:
    put(emulator, [change(PERSONS, number, f"persons/{number % 6}") for number in range(120)])
    with routing(settings(emulator, ordering="key", slots=2), routed(120)):
        pass
    lanes: dict[str | None, list[str | None]] = {}
    for found in read(emulator, PERSONS, 120):
        lanes.setdefault(found.session_id, []).append(found.message_id)
    assert lanes == {f"persons/{lane}": [f"{PERSONS}-{number}" for number in range(lane, 120, 6)] for lane in range(6)}


def test_a_stop_in_the_middle_leaves_nothing_locked_and_the_next_start_finishes(emulator: ServiceBusEmulator) -> None:
    put(emulator, [change(PERSONS, number, PERSONS) for number in range(2_000)])
    with routing(settings(emulator), lambda tally: tally.routed.total() > 0):
        pass
    unrouted = left(emulator)[0]
    with ServiceBusClient.from_connection_string(emulator.connection_string) as client:
        if unrouted:  # a lock left behind would make this wait for its end
            receiver = client.get_queue_receiver("ingest-queue", session_id=PERSONS, max_wait_time=2)
            with receiver:
                (first,) = receiver.receive_messages(1, max_wait_time=2)
                assert first.delivery_count == 0
    with routing(settings(emulator), lambda tally: left(emulator)[0] == 0):
        pass
    assert [found.message_id for found in read(emulator, PERSONS, 2_000)] == [f"{PERSONS}-{n}" for n in range(2_000)]


def test_cut_connections_lose_nothing_and_the_topics_drop_what_came_twice(emulator: ServiceBusEmulator) -> None:
    put(emulator, [change(PERSONS, number, PERSONS) for number in range(2_000)])
    with routing(settings(emulator), lambda tally: left(emulator)[0] == 0) as tally:
        for routed_by_then in (200, 900):
            while tally.routed.total() < routed_by_then:
                time.sleep(0.005)
            emulator.drop_connections()
    assert [found.message_id for found in read(emulator, PERSONS, 2_000)] == [f"{PERSONS}-{n}" for n in range(2_000)]


@pytest.mark.parametrize(("ordering", "subscriptions"), [("table", ("sub1", "audit")), ("key", ()), ("none", ())])
def test_provision_creates_queue_topics_and_subscriptions_as_the_settings_ask(
    emulator: ServiceBusEmulator, ordering: str, subscriptions: tuple[str, ...]
) -> None:
    with routing(
        settings(emulator, ordering=ordering, subscriptions=subscriptions),
        lambda tally: tally.figures().ready() is None,
    ):
        pass
    queue = emulator.admin.get("ingest-queue").description
    assert isinstance(queue, QueueDescription)
    assert (queue.requires_session, queue.requires_duplicate_detection) == (ordering != "none", True)
    for topic in (PERSONS, ORDERS):
        description = emulator.admin.get(topic).description
        assert isinstance(description, TopicDescription)
        assert description.requires_duplicate_detection
        assert len(emulator.admin.subscriptions(topic)) == len(subscriptions)


@pytest.mark.parametrize("how", ["verify", "none"])
def test_a_missing_topic_ends_the_start_with_one_error_that_names_it(emulator: ServiceBusEmulator, how: str) -> None:
    emulator.admin.create("ingest-queue", QueueDescription(requires_session=True, requires_duplicate_detection=True))
    emulator.admin.create(PERSONS, TopicDescription())
    emulator.admin.create(f"{PERSONS}/Subscriptions/sub1", SubscriptionDescription())
    with pytest.raises(PermanentError, match=ORDERS) as refused:
        run(settings(emulator, provision=how), threading.Event(), pace=QUICK)
    assert PERSONS not in str(refused.value)


@pytest.mark.parametrize("how", ["verify", "none"])
def test_a_missing_queue_ends_the_start_with_one_error_that_names_it(emulator: ServiceBusEmulator, how: str) -> None:
    for topic in (PERSONS, ORDERS):
        emulator.admin.create(topic, TopicDescription())
        emulator.admin.create(f"{topic}/Subscriptions/sub1", SubscriptionDescription())
    with pytest.raises(PermanentError, match="ingest-queue"):
        run(settings(emulator, provision=how), threading.Event(), pace=QUICK)


def test_a_queue_without_sessions_is_refused_where_the_ordering_needs_them(emulator: ServiceBusEmulator) -> None:
    emulator.admin.create("ingest-queue", QueueDescription())
    with pytest.raises(PermanentError, match="sessions"):
        run(settings(emulator, provision="create"), threading.Event(), pace=QUICK)


class TestProvision:
    """common/servicebus/provision.py against the management API."""

    def needs(self) -> list[QueueNeed]:
        return [QueueNeed("q", sessions=True)]

    def endpoint(self, emulator: ServiceBusEmulator) -> str:
        return f"http://127.0.0.1:{emulator.http_port}"

    def test_none_makes_no_call_at_all(self, emulator: ServiceBusEmulator) -> None:
        address = ServiceBus.from_connection_string(emulator.connection_string).address
        provision(address, self.needs(), how="none", management_endpoint="http://127.0.0.1:1")

    def test_verify_tells_what_is_missing_and_creates_nothing(self, emulator: ServiceBusEmulator) -> None:
        address = ServiceBus.from_connection_string(emulator.connection_string).address
        with pytest.raises(PermanentError, match="queue q: it does not exist"):
            provision(address, self.needs(), how="verify", management_endpoint=self.endpoint(emulator))
        assert list(emulator.admin.queues()) == []

    def test_processes_that_start_together_do_not_disturb_one_another(self, emulator: ServiceBusEmulator) -> None:
        address = ServiceBus.from_connection_string(emulator.connection_string).address
        barrier, failed = threading.Barrier(4), list[BaseException]()

        def start() -> None:
            barrier.wait()
            try:
                provision(address, self.needs(), how="create", management_endpoint=self.endpoint(emulator))
            except BaseException as error:
                failed.append(error)

        threads = [threading.Thread(target=start) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert failed == []
        assert [info.path for info in emulator.admin.queues()] == ["q"]

    def test_a_policy_without_manage_is_told_the_right_and_the_way_out(self) -> None:
        with ServiceBusEmulator(keys={"worker": "a2V5"}, rights={"worker": ["Send", "Listen"]}) as emulator:
            address = ServiceBus.from_connection_string(emulator.connection_string).address
            with pytest.raises(PermanentError, match="Manage") as refused:
                provision(address, self.needs(), how="create", management_endpoint=self.endpoint(emulator))
            assert 'provision = "none"' in str(refused.value)
            assert "a2V5" not in str(refused.value)

    def test_without_an_endpoint_the_emulators_port_is_taken(self, emulator: ServiceBusEmulator) -> None:
        address = ServiceBus.from_connection_string(emulator.connection_string).address
        assert management_address(address, None) == ("http", "127.0.0.1:5300")

    def test_what_exists_is_left_as_it_is(self, emulator: ServiceBusEmulator) -> None:
        created = QueueDescription(requires_session=True, max_delivery_count=3)
        emulator.admin.create("q", created)
        address = ServiceBus.from_connection_string(emulator.connection_string).address
        provision(address, self.needs(), how="create", management_endpoint=self.endpoint(emulator))
        provision(address, self.needs(), how="verify", management_endpoint=self.endpoint(emulator))
        assert emulator.admin.get("q").description == created

    def test_what_exists_with_other_settings_is_told_and_not_changed(self, emulator: ServiceBusEmulator) -> None:
        queue = QueueDescription(
            requires_session=True, requires_duplicate_detection=True, lock_duration=timedelta(seconds=5)
        )
        topic = TopicDescription(
            requires_duplicate_detection=True, duplicate_detection_history_time_window=timedelta(minutes=1)
        )
        emulator.admin.create("q", queue)
        emulator.admin.create("t", topic)
        address = ServiceBus.from_connection_string(emulator.connection_string).address
        needs: list[Need] = [*self.needs(), TopicNeed("t", ("sub1",))]
        both: tuple[Provision, ...] = ("create", "verify")
        for how in both:
            with structlog.testing.capture_logs() as logs:
                provision(address, needs, how=how, management_endpoint=self.endpoint(emulator))
            told = {entry["entity"]: entry["what"] for entry in logs if entry["log_level"] == "warning"}
            assert told == {
                "queue q": "its locks last 5s, and messages come again when one is lost",
                "topic t": "duplicates are remembered for 1m, and a failover may take 10m",
            }
        assert (emulator.admin.get("q").description, emulator.admin.get("t").description) == (queue, topic)

    def test_a_queue_that_forgets_is_refused_by_verify_and_blamed_in_the_log_otherwise(
        self, emulator: ServiceBusEmulator
    ) -> None:
        forgetful = QueueDescription(requires_session=True, default_message_time_to_live=timedelta(days=14))
        emulator.admin.create("q", forgetful)
        address = ServiceBus.from_connection_string(emulator.connection_string).address
        with structlog.testing.capture_logs() as logs:
            provision(address, self.needs(), how="create", management_endpoint=self.endpoint(emulator))
        [blamed] = [entry for entry in logs if entry["log_level"] == "error"]
        assert "14 days is deleted without a trace" in blamed["what"]
        with pytest.raises(PermanentError, match="14 days is deleted without a trace"):
            provision(address, self.needs(), how="verify", management_endpoint=self.endpoint(emulator))

    @pytest.mark.parametrize("how", ["create", "verify"])
    def test_a_name_that_something_else_has_is_refused(self, emulator: ServiceBusEmulator, how: Provision) -> None:
        emulator.admin.create("q", TopicDescription())
        emulator.admin.create("t", QueueDescription())
        address = ServiceBus.from_connection_string(emulator.connection_string).address
        needs: list[Need] = [*self.needs(), TopicNeed("t")]
        for need in needs:
            with pytest.raises(PermanentError, match=r"something else of that name|does not exist"):
                provision(address, [need], how=how, management_endpoint=self.endpoint(emulator))

    def test_a_topic_that_is_switched_off_is_told_and_holds_nobody_else_up(self, emulator: ServiceBusEmulator) -> None:
        emulator.admin.create("t", TopicDescription(status="Disabled"))
        address = ServiceBus.from_connection_string(emulator.connection_string).address
        with structlog.testing.capture_logs() as logs:
            provision(address, [TopicNeed("t")], how="create", management_endpoint=self.endpoint(emulator))
        assert [entry["what"] for entry in logs if entry["log_level"] == "error"] == ["its status is Disabled"]
