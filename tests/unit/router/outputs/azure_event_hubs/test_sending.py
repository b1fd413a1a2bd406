"""Partition keys, octets, the pool of links and the translation of errors: without a socket."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from azure.eventhub import EventDataBatch
from azure.eventhub._pyamqp.error import AMQPLinkError, MessageException, TokenAuthFailure
from azure.eventhub.exceptions import AuthenticationError, ConnectError, EventDataSendError

from common.azure_amqp.deadline import Guard
from common.azure_amqp.refusals import Credential
from common.bus.ports import MessageRefused, MessageTooLarge, OutOfTime, SendInterrupted
from common.clock import SteadyTime
from common.errors import EntityDisabled, EntityMissing, EntityUnavailable, PermanentError, Throttled, TransientError
from common.message import Message
from emulators.eventhubs.event import read
from router.outputs.azure_event_hubs.batches import add, annotated, supported
from router.outputs.azure_event_hubs.errors import refusal, rejected, too_large, translate
from router.outputs.azure_event_hubs.pool import BUSY, LinkPool
from router.outputs.azure_event_hubs.sender import BUCKETS, HubSender, by_key, key_of

WHO = Credential("the policy p of hubs", identity=False, service="Azure Event Hubs")


def message(number: int, session: str | None = "s", size: int = 10) -> Message:
    return Message(b"x" * size, f"id {number}", session_id=session, application_properties={"table": "T"})


# -- keys


def test_a_session_is_its_key() -> None:
    found = dict(by_key([message(0, "a"), message(1, "b"), message(2, "a")]))
    assert found == {"a": [0, 2], "b": [1]}


def test_without_a_session_copies_share_a_key_and_there_are_few_keys() -> None:
    keys = {key_of(message(number, None)) for number in range(2000)}
    assert len(keys) == BUCKETS
    assert key_of(message(7, None)) == key_of(message(7, None, size=99))


# -- octets


def test_this_sdk_is_the_one_that_batches_are_filled_for() -> None:
    assert supported()


def test_a_batch_filled_here_is_the_sdks() -> None:
    ours, theirs = EventDataBatch(partition_key="k"), EventDataBatch(partition_key="k")
    sent = [message(number, "k", size) for number, size in enumerate((0, 200, 300, 70_000))]
    for each in sent:
        assert add(ours, each, "k")
        theirs.add(annotated(each))
    assert [bytes(each) for each in ours._message[5]] == [bytes(each) for each in theirs._message[5]]
    assert (len(ours), ours.size_in_bytes) == (len(theirs), theirs.size_in_bytes)
    assert [read(0, bytes(each)).key for each in ours._message[5]] == ["k"] * 4


def test_a_full_batch_says_so_and_stays_as_it_was() -> None:
    batch = EventDataBatch(max_size_in_bytes=1000, partition_key="k")
    assert add(batch, message(0, size=500), "k")
    size = batch.size_in_bytes
    assert not add(batch, message(1, size=500), "k")
    assert (len(batch), batch.size_in_bytes) == (1, size)


# -- errors


def met(condition: bytes, kind: Any = AMQPLinkError, public: Any = ConnectError, words: bytes = b"words") -> Exception:
    """As the SDK raises it: `from None`, inside the handling of its own."""
    try:
        try:
            raise kind(condition, description=words)
        except Exception as error:
            raise public(str(error), error) from None
    except Exception as raised:
        return raised


@pytest.mark.parametrize(
    ("condition", "kind"),
    [
        (b"amqp:not-found", EntityMissing),
        (b"com.microsoft:server-busy", Throttled),
        (b"com.microsoft:entity-disabled", EntityDisabled),
        (b"amqp:resource-limit-exceeded", TransientError),
        (b"amqp:unauthorized-access", EntityUnavailable),
        (b"com.microsoft:timeout", TransientError),
        (b"amqp:link:detach-forced", TransientError),
    ],
)
def test_a_condition_means_what_it_says(condition: bytes, kind: type[Exception]) -> None:
    found = translate(met(condition), "sending to h", who=WHO)
    assert type(found) is kind
    assert found.message.startswith("sending to h: ")


def test_a_refused_token_names_the_policy_and_what_to_do() -> None:
    failure: Any = TokenAuthFailure
    error = AuthenticationError("x")
    error.__context__ = failure(401, b"InvalidSignature: The token has an invalid signature.")
    found = translate(error, "sending to h", who=WHO)
    assert isinstance(found, PermanentError)
    assert "the policy p of hubs is refused: wrong key" in found.message
    assert isinstance(translate(error, "sending to h", who=WHO, proven=True), TransientError)


def test_a_missing_right_names_the_role() -> None:
    words = b"Unauthorized access. 'Send' claim(s) are required to perform this operation. Resource: 'h'."
    who = Credential("the identity at hubs", policy=False, service="Azure Event Hubs")
    found = translate(met(b"amqp:unauthorized-access", words=words), "sending to h", who=who)
    assert "Azure Event Hubs Data Sender" in str(found.hint)


def test_what_concerns_a_message_alone() -> None:
    large = met(b"amqp:link:message-size-exceeded", MessageException, EventDataSendError)
    wrong = met(b"amqp:not-allowed", MessageException, EventDataSendError)
    busy = met(b"com.microsoft:server-busy", MessageException, EventDataSendError)
    lost = met(b"amqp:unknown-error", MessageException, EventDataSendError)
    assert [too_large(each) for each in (large, wrong, busy, lost)] == [True, False, False, False]
    assert [refusal(each) is not None for each in (large, wrong, busy, lost)] == [False, True, False, False]
    assert [rejected(each) for each in (large, wrong, busy, lost)] == [True, True, True, False]


# -- sending


class FakeLink:
    """A link whose service answers as it is told to."""

    def __init__(self, hub: str, world: World) -> None:
        self.hub, self.largest = hub, 1000
        self.guard = Guard("fake")
        self.sound, self.fresh, self.closed = False, True, 0
        self._world = world

    def open(self, seconds: float) -> None:
        self._world.opened += 1
        self.sound = True

    def batch(self, key: str) -> EventDataBatch:
        return EventDataBatch(max_size_in_bytes=self.largest, partition_key=key)

    def send(self, batch: EventDataBatch, seconds: float) -> None:
        ids = [str(read(0, bytes(each)).events[0].message_id) for each in batch._message[5]]
        self._world.batches.append(ids)
        error = self._world.answer(ids)
        if error is not None:
            self.sound = rejected(error)
            raise error
        self._world.accepted += ids

    def close(self) -> None:
        self.closed += 1


class World:
    def __init__(self) -> None:
        self.links: list[FakeLink] = []
        self.batches: list[list[str]] = []
        self.accepted: list[str] = []
        self.opened = 0
        self.now = 1000.0
        self.answer: Callable[[list[str]], Exception | None] = lambda ids: None
        self.pool = LinkPool(self._made, clock=lambda: SteadyTime(self.now))
        self.sender = HubSender(self.pool, "h", who=WHO, timeout=30)

    def _made(self, hub: str) -> Any:
        self.links.append(FakeLink(hub, self))
        return self.links[-1]


def test_a_batch_follows_when_the_last_was_accepted() -> None:
    world, refused = World(), met(b"com.microsoft:timeout")
    world.answer = lambda ids: refused if "id 9" in ids else None
    sent = [message(number, size=150) for number in range(20)]
    with pytest.raises(SendInterrupted) as raised:
        world.sender.send(sent)
    count = len(raised.value.accepted)
    assert raised.value.accepted == frozenset(range(count))
    assert 0 < count < 10
    assert world.accepted == [f"id {number}" for number in range(count)]
    assert "id 9" in world.batches[-1]


def test_the_message_at_fault_is_found_and_those_before_it_are_sent() -> None:
    world, wrong = World(), met(b"amqp:not-allowed", MessageException, EventDataSendError)
    world.answer = lambda ids: wrong if "id 3" in ids else None
    with pytest.raises(MessageRefused) as raised:
        world.sender.send([message(number) for number in range(5)])
    assert (raised.value.at, sorted(raised.value.accepted)) == (3, [0, 1, 2])
    assert world.opened == 1, "a rejection leaves the link as it was"


def test_what_is_larger_than_a_link_takes_is_refused_unsent() -> None:
    world = World()
    with pytest.raises(MessageTooLarge) as raised:
        world.sender.send([message(0), message(1, size=2000), message(2)])
    assert (raised.value.at, sorted(raised.value.accepted), raised.value.limit) == (1, [0], 1000)
    assert world.accepted == ["id 0"]


def test_a_busy_namespace_is_not_asked_again_for_as_long_as_it_wishes() -> None:
    world = World()
    world.answer = lambda ids: met(b"com.microsoft:server-busy", MessageException, EventDataSendError)
    for _ in range(3):
        with pytest.raises(SendInterrupted) as raised:
            world.sender.send([message(0)])
        assert raised.value.throttled
    assert len(world.batches) == 1
    world.answer = lambda ids: None
    world.now += BUSY
    world.sender.send([message(0)])
    assert world.accepted == ["id 0"]


def test_no_time_is_left() -> None:
    world = World()
    with pytest.raises(OutOfTime):
        world.sender.send([message(0)], left=lambda: 0.0)
    assert world.batches == []


def test_senders_of_one_hub_share_its_links() -> None:
    world = World()
    senders = [HubSender(world.pool, "h", who=WHO, timeout=30) for _ in range(100)]
    for number, sender in enumerate(senders):
        sender.send([message(number)])
    assert (len(world.links), world.opened) == (1, 1)


def test_a_link_that_failed_is_not_used_again() -> None:
    world, broken = World(), met(b"amqp:link:detach-forced")
    world.answer = lambda ids: broken
    with pytest.raises(SendInterrupted):
        world.sender.send([message(0)])
    assert world.links[0].closed == 1
    world.answer = lambda ids: None
    world.sender.send([message(0)])
    assert len(world.links) == 2


def test_a_link_that_rested_is_replaced_before_it_is_used() -> None:
    world = World()
    world.sender.send([message(0)])
    world.links[0].fresh = False
    world.sender.send([message(1)])
    assert (len(world.links), world.links[0].closed) == (2, 1)


def test_a_closed_pool_gives_no_link() -> None:
    world = World()
    world.sender.send([message(0)])
    world.pool.close()
    assert world.links[0].closed == 1
    with pytest.raises(SendInterrupted, match="closed"):
        world.sender.send([message(1)])
