"""What a start asks of the management API: how often, how much side by side, and what it makes of an answer that is no."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing

import pytest
from structlog.testing import capture_logs

from common.azure_amqp.address import ServiceBusAddress, read_address
from common.bus.ports import Provision, QueueNeed, TopicNeed
from common.errors import PermanentError, Stopped, TransientError
from common.message import Message
from common.retry import Backoff
from common.servicebus import management as servicebus_management
from common.servicebus import provision as provisioning
from common.servicebus.entities import Entities
from common.servicebus.namespace import ServiceBus
from common.servicebus.provision import provision
from emulators.servicebus.administration.api import AdminApi, Answer, refusal
from emulators.servicebus.description import QueueDescription, SubscriptionDescription, TopicDescription
from emulators.servicebus.server import ServiceBusEmulator

MANY = 120
"""More than a page of topics."""

CONFLICT = refusal(409, "SubCode=40901. Another conflicting operation is in progress. TrackingId:1")

Ask = Callable[[str, str, bytes], Answer | None]
"""(method, path, body) -> what is answered instead, or None."""


class World:
    """An emulator whose management API counts what it is asked, and answers as `instead` wants."""

    def __init__(self, emulator: ServiceBusEmulator) -> None:
        self.emulator = emulator
        self.address: ServiceBusAddress = read_address(emulator.connection_string)
        self.calls: Counter[str] = Counter()
        self.at_once = self._inside = 0
        self.instead: Ask = lambda method, path, body: None
        self._guard = threading.Lock()

    def answer(self, api: AdminApi, method: str, url: str, headers: Mapping[str, str], body: bytes) -> Answer:
        with self._guard:
            self.calls[method] += 1
            self._inside += 1
            self.at_once = max(self.at_once, self._inside)
        try:
            return self.instead(method, url.partition("?")[0], body) or ANSWER(api, method, url, headers, body)
        finally:
            with self._guard:
                self._inside -= 1

    def provision(
        self, *needs: QueueNeed | TopicNeed, how: Provision = "create", stop: threading.Event | None = None
    ) -> None:
        endpoint = f"http://127.0.0.1:{self.emulator.http_port}"
        provision(self.address, needs, how=how, management_endpoint=endpoint, stop=stop)

    def topics(self) -> set[str]:
        return {info.path for info in self.emulator.admin.topics()}


ANSWER = AdminApi.answer


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setattr(servicebus_management, "_AGAIN", Backoff(first=0.01, longest=0.01))
    with ServiceBusEmulator() as emulator:
        built = World(emulator)
        monkeypatch.setattr(
            AdminApi, "answer", lambda api, method, url, headers, body: built.answer(api, method, url, headers, body)
        )
        yield built


def many() -> list[TopicNeed]:
    return [TopicNeed(f"t{number}", ("sub1",)) for number in range(MANY)]


@pytest.mark.parametrize("how", ["create", "verify"])
def test_a_start_with_everything_there_asks_once_a_topic_and_changes_nothing(world: World, how: Provision) -> None:
    for need in many():
        world.emulator.admin.create(need.name, TopicDescription(requires_duplicate_detection=True))
        world.emulator.admin.create(f"{need.name}/Subscriptions/sub1", SubscriptionDescription())
    world.provision(*many(), how=how)
    pages = 2 * (MANY // 100 + 1)
    assert world.calls == {"GET": MANY + pages}
    assert world.at_once >= 4


def test_what_is_missing_among_many_is_created(world: World) -> None:
    for need in many()[1:]:
        world.emulator.admin.create(need.name, TopicDescription(requires_duplicate_detection=True))
    world.provision(*many())
    assert len(world.topics()) == MANY
    assert all(len(world.emulator.admin.subscriptions(need.name)) == 1 for need in many())


def test_topics_that_are_missing_are_named_all_at_once(world: World) -> None:
    world.emulator.admin.create("t0", TopicDescription())
    with pytest.raises(PermanentError) as refused:
        world.provision(*(TopicNeed(f"t{number}") for number in range(3)), how="verify")
    assert "t1" in str(refused.value)
    assert "t2" in str(refused.value)
    assert "t0" not in str(refused.value)


@pytest.mark.parametrize("how", ["create", "verify"])
def test_a_topic_that_cannot_be_read_just_now_holds_up_itself_alone(world: World, how: Provision) -> None:
    for need in many():
        world.emulator.admin.create(need.name, TopicDescription(requires_duplicate_detection=True))
        world.emulator.admin.create(f"{need.name}/Subscriptions/sub1", SubscriptionDescription())
    garbled = refusal(500, "SubCode=50000. The service was unable to process the request.")
    world.instead = lambda method, path, body: garbled if "/t7/" in path else None
    with capture_logs() as logs:
        world.provision(*many(), how=how)
    told = [(line["event"], "t7" in line["error"]) for line in logs if line["log_level"] == "error"]
    assert told == [("topic not provided; its changes wait" if how == "create" else "topic not verified", True)]


def test_subscriptions_are_listed_where_some_are_wanted_alone(world: World) -> None:
    wanted = [TopicNeed(f"t{number}") for number in range(3)]
    for need in wanted:
        world.emulator.admin.create(need.name, TopicDescription(requires_duplicate_detection=True))
    world.provision(*wanted)
    assert world.calls == {"GET": 2 * 3}


def test_what_was_throttled_is_asked_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servicebus_management, "PATIENCE", 0.0)
    for need in many():
        world.emulator.admin.create(need.name, TopicDescription(requires_duplicate_detection=True))
        world.emulator.admin.create(f"{need.name}/Subscriptions/sub1", SubscriptionDescription())
    busy, asked = refusal(429, "SubCode=50009. The request has been throttled."), list[str]()

    def throttled_at_first(method: str, path: str, body: bytes) -> Answer | None:
        asked.extend([path] if "/t7/" in path else [])
        return busy if "/t7/" in path and len(asked) <= 3 else None  # the client itself asks three times

    world.instead = throttled_at_first
    with capture_logs() as logs:
        world.provision(*many())
    assert len(asked) == 4
    assert [line for line in logs if line["log_level"] == "error"] == []


def first(times: int, answer: Answer, *, method: str = "PUT", path: str = "") -> Ask:
    """The first so many calls of a method, to paths that end so, are answered like that."""
    left = [times]

    def ask(asked: str, at: str, body: bytes) -> Answer | None:
        if asked != method or not at.endswith(path) or left[0] == 0:
            return None
        left[0] -= 1
        return answer

    return ask


@pytest.mark.parametrize("need", [TopicNeed("t", ("sub1",)), QueueNeed("q", sessions=True)])
def test_an_entity_that_another_process_creates_just_now_is_tried_again(
    world: World, need: QueueNeed | TopicNeed
) -> None:
    world.instead = first(3, CONFLICT)
    world.provision(need)
    assert world.emulator.admin.get(need.name)


def test_one_that_exists_and_is_not_found_yet_is_tried_again(world: World) -> None:
    world.instead = first(1, refusal(409, "SubCode=40900. Conflict."))
    world.provision(TopicNeed("t"))
    assert world.topics() == {"t"}


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_service_that_is_busy_is_asked_again(world: World, status: int) -> None:
    world.instead = first(4, refusal(status, "busy"))  # more than the client tries by itself
    world.provision(*many()[:3])
    assert len(world.topics()) == 3


def test_a_topic_that_cannot_be_made_just_now_holds_up_itself_alone(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(servicebus_management, "PATIENCE", 0.0)
    world.instead = first(1_000, CONFLICT, path="t1")
    with capture_logs() as logs:
        world.provision(*many()[:3])
    assert world.topics() == {"t0", "t2"}
    assert [line["event"] for line in logs if line["log_level"] == "error"] == ["topic not provided; its changes wait"]
    with pytest.raises(TransientError, match="creating t1"):
        world.provision(many()[1])


def refusing(*words: bytes) -> Ask:
    """A namespace that takes no queue and no topic whose description has one of these."""

    def ask(method: str, path: str, body: bytes) -> Answer | None:
        return refusal(400, "too much") if any(word in body for word in words) else None

    return ask


@pytest.mark.parametrize(
    ("refused", "megabytes", "deliveries"),
    [
        ([], 81_920, 2_000),
        ([b"MaxSizeInMegabytes>81920<"], 5_120, 2_000),
        ([b"MaxSizeInMegabytes>81920<", b"MaxSizeInMegabytes>5120<", b"MaxDeliveryCount>2000<"], 1_024, 10),
    ],
)
def test_queue_and_topics_are_created_as_large_as_the_namespace_allows(
    world: World, refused: list[bytes], megabytes: int, deliveries: int
) -> None:
    world.instead = refusing(*refused)
    world.provision(QueueNeed("q", sessions=True), *many()[:5])
    queue = world.emulator.admin.get("q").description
    assert isinstance(queue, QueueDescription)
    assert (queue.max_size_in_megabytes, queue.max_delivery_count) == (megabytes, deliveries)
    assert queue.dead_lettering_on_message_expiration
    for name in world.topics():
        topic = world.emulator.admin.get(name).description
        assert isinstance(topic, TopicDescription)
        assert topic.max_size_in_megabytes == megabytes
    # What the namespace took once is asked for first: 1 + 5 entities, 5 subscriptions, and each refusal once.
    assert world.calls["PUT"] <= 11 + len(provisioning.QUOTAS)


def test_a_stop_ends_it_although_a_call_hangs(world: World) -> None:
    stop, hanging, end = threading.Event(), threading.Event(), threading.Event()

    def ask(method: str, path: str, body: bytes) -> Answer | None:
        hanging.set()
        end.wait(60)
        return None

    world.instead = ask

    def stop_then() -> None:
        hanging.wait(30)
        stop.set()

    threading.Thread(target=stop_then).start()
    began = time.monotonic()
    try:
        with pytest.raises(Stopped):
            world.provision(*many()[:3], stop=stop)
        assert time.monotonic() - began < 20
    finally:
        end.set()


@pytest.mark.parametrize("others", [0, 30])
def test_how_full_queue_and_topics_are_is_read_in_few_calls(world: World, others: int) -> None:
    description = QueueDescription(max_size_in_megabytes=2)
    world.emulator.admin.create("q", description)
    names = ["T", *(f"t{number}" for number in range(others))]
    for name in names:
        world.emulator.admin.create(name, TopicDescription(max_size_in_megabytes=4))
    with closing(ServiceBus(world.address).sender("q")) as sender:
        sender.send([Message(b"x" * 200_000, str(number)) for number in range(6)])
    with closing(Entities(world.address, f"http://127.0.0.1:{world.emulator.http_port}")) as entities:
        queue = entities.queue_storage("q")
        topics = entities.topics_storage([*names, "missing"])
        assert entities.queue_storage("missing") is None
    assert queue is not None
    assert 0.5 < queue.share < 0.7
    assert (queue.active, queue.dead_letters) == (6, 0)
    assert set(topics) == set(names)
    assert {storage.limit for storage in topics.values()} == {4 * 2**20}
    assert world.calls["GET"] <= 8
