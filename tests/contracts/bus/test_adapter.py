"""What the Service Bus adapter does beyond the port's promises: its private shortcut, its fall-back, its limits, its sign-in."""

from __future__ import annotations

import inspect
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusSubQueue
from azure.servicebus._pyamqp import _decode
from azure.servicebus._pyamqp.receiver import ReceiverLink
from structlog.testing import capture_logs

import common.servicebus.lock_times
import common.servicebus.receiver
import common.servicebus.sender
import common.servicebus.settle
import common.servicebus.wire.arrivals
from common.azure_amqp.address import read_address
from common.bus.ports import MessageRefused, MessageTooLarge, MessageUnwritable, Receivers, SendInterrupted
from common.errors import EntityUnavailable, TransientError
from common.message import Message, Opaque
from common.servicebus.namespace import ServiceBus
from common.servicebus.receiver import BusReceiver
from common.servicebus.sender import ENVELOPE
from emulators.servicebus.description import QueueDescription, TopicDescription
from emulators.servicebus.faults.catalogue import SendsRefused
from emulators.servicebus.server import ServiceBusEmulator
from tests.worlds.ports import free_port


class Clock:
    ahead = 0.0

    def __call__(self) -> float:
        return time.time() + self.ahead


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def emulator(clock: Clock) -> Iterator[ServiceBusEmulator]:
    with ServiceBusEmulator(clock=clock) as running:
        running.admin.create("plain", QueueDescription())
        running.admin.create("lanes", QueueDescription(requires_session=True))
        yield running


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing is known of the SDK yet, and what is found out is forgotten again."""
    monkeypatch.setattr("common.servicebus.settle._refused", [])
    decoders = list(_decode._DECODE_BY_CONSTRUCTOR)
    monkeypatch.setattr(_decode, "_DECODE_BY_CONSTRUCTOR", decoders)
    common.servicebus.wire.arrivals.warn_once.cache_clear()
    common.servicebus.settle._takes_ranges.cache_clear()
    yield
    common.servicebus.wire.arrivals.warn_once.cache_clear()
    common.servicebus.settle._takes_ranges.cache_clear()


@pytest.fixture
def bus(emulator: ServiceBusEmulator) -> ServiceBus:
    return ServiceBus.from_connection_string(emulator.connection_string)


def put(bus: ServiceBus, queue: str, messages: list[Message]) -> None:
    with closing(bus.sender(queue)) as sender:
        sender.send(messages)


def opened(receivers: Receivers) -> BusReceiver:
    receiver = receivers.open(max_wait=3)
    assert isinstance(receiver, BusReceiver)
    return receiver


def some(count: int, session: str | None = None) -> list[Message]:
    return [Message(b"%d" % number, f"m{number}", session) for number in range(count)]


@pytest.mark.parametrize("way", ["ours", "the SDK's"])
def test_every_property_arrives_as_it_was_sent(monkeypatch: pytest.MonkeyPatch, bus: ServiceBus, way: str) -> None:
    if way != "ours":
        monkeypatch.setattr("common.servicebus.wire.batches.supported", lambda: False)
        monkeypatch.setattr("common.servicebus.wire.batches.encoded", None)
    sent = [
        Message('{"name": "Zoë \U0001f600"}'.encode(), "Ünïcode", "s", application_properties={"näme": "wért"}),
        Message(
            b"x" * 70_000,
            "all",
            "s",
            subject="subject",
            content_type="text/plain",
            partition_key="s",
            correlation_id="correlated",
            reply_to="answers",
            to="somewhere",
            time_to_live=timedelta(seconds=90),
            application_properties={
                "text": "t" * 32_000,
                "empty": "",
                "numbers": -1,
                "large": 2**31 - 1,
                "least": -(2**31),
                "real": -0.1,
                "yes": True,
                "no": False,
            },
        ),
    ]
    assert received(bus, sent) == sent


def test_what_only_a_foreign_sender_can_write_is_sent_on(bus: ServiceBus) -> None:
    """The SDK reads these and refuses to write them: a router that asked it to would try for ever."""
    sent = [
        Message(b"", "m", "s", application_properties={"long": 2**31, "least": -(2**63), "ulong": 2**64 - 1}),
        Message(b"", "n", "s", application_properties={"octets": b"\xff\x00"}),
    ]
    assert received(bus, sent) == sent


def received(bus: ServiceBus, sent: list[Message]) -> list[Message]:
    put(bus, "lanes", sent)
    found: list[Message] = []
    with closing(opened(bus.receivers("lanes", sessions=True, prefetch=10))) as receiver:
        while len(found) < len(sent) and (more := receiver.receive(max_count=10, max_wait=3)):
            found += [delivery.message for delivery in more]
    return found


def active(emulator: ServiceBusEmulator, queue: str) -> int:
    return emulator.admin.get(queue).counts.active


def test_without_the_private_shortcut_messages_are_completed_one_by_one(
    monkeypatch: pytest.MonkeyPatch, emulator: ServiceBusEmulator, bus: ServiceBus, clock: Clock
) -> None:
    monkeypatch.setattr("common.servicebus.settle.supported", lambda _: False)
    monkeypatch.setattr("common.servicebus.settle.complete", None)
    put(bus, "plain", some(4))
    with closing(opened(bus.receivers("plain", sessions=False, prefetch=10))) as receiver:
        deliveries = list(receiver.receive(max_count=4, max_wait=3))
        while len(deliveries) < 4:
            deliveries += receiver.receive(max_count=4, max_wait=3)
        assert receiver.settle_many(deliveries[:2]) == []
        clock.ahead += 120
        assert list(receiver.settle_many(deliveries[2:])) == deliveries[2:]
    assert active(emulator, "plain") == 2


def test_settled_deliveries_leave_nothing_behind_in_the_sdk(bus: ServiceBus) -> None:
    put(bus, "plain", some(50))
    with closing(opened(bus.receivers("plain", sessions=False, prefetch=100))) as receiver:
        settled = 0
        while settled < 50:
            deliveries = receiver.receive(max_count=50, max_wait=3)
            assert receiver.settle_many(deliveries) == []
            settled += len(deliveries)
        handler: Any = receiver._receiver._handler  # what must not grow is private
        link = handler._link
        assert link._received_delivery_tags == set()
        assert link._pending_dispositions == {}


@pytest.fixture
def steady(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Moves the clock by which a receiver counts how long it has had its locks."""
    moved = Clock()
    monkeypatch.setattr(
        common.servicebus.receiver, "time", SimpleNamespace(monotonic=lambda: time.monotonic() + moved.ahead)
    )
    return moved


@pytest.mark.parametrize("service_ahead", [0, 90, -40, -3600])
def test_a_session_lock_past_its_half_is_renewed_though_the_machines_clock_is_off(
    bus: ServiceBus, clock: Clock, steady: Clock, service_ahead: float
) -> None:
    clock.ahead += service_ahead
    put(bus, "lanes", some(1, "a"))
    with closing(opened(bus.receivers("lanes", sessions=True, prefetch=10))) as receiver:
        deliveries = receiver.receive(max_count=1, max_wait=3)
        taken = receiver._lock.since
        receiver.renew(deliveries)
        # A fresh one is let be, unless it seems to be over: then the service is asked.
        assert (receiver._lock.since == taken) is (service_ahead > -60)
        for each in (clock, steady):
            each.ahead += 45
        receiver.renew(deliveries)
        clock.ahead += 45  # 90 s after the lock was taken: past its first end
        assert receiver.settle_many(deliveries) == []


@pytest.mark.parametrize("service_ahead", [0, 90, -40, -3600])
def test_message_locks_are_renewed_one_by_one(
    bus: ServiceBus, clock: Clock, steady: Clock, service_ahead: float
) -> None:
    clock.ahead += service_ahead
    put(bus, "plain", some(1))
    with closing(opened(bus.receivers("plain", sessions=False, prefetch=10))) as receiver:
        deliveries = receiver.receive(max_count=1, max_wait=3)
        for each in (clock, steady):
            each.ahead += 45
        receiver.renew(deliveries)
        clock.ahead += 45
        assert receiver.settle_many(deliveries) == []


def test_a_clock_that_is_far_ahead_is_told_of_once_and_nothing_fails(
    monkeypatch: pytest.MonkeyPatch, bus: ServiceBus, clock: Clock, steady: Clock
) -> None:
    monkeypatch.setattr(common.servicebus.lock_times, "_warned", threading.Event())
    clock.ahead -= 3600  # the service's
    put(bus, "lanes", some(3, "a"))
    with closing(opened(bus.receivers("lanes", sessions=True, prefetch=10))) as receiver, capture_logs() as lines:
        for _ in range(3):
            receiver.renew(())
            (delivery,) = receiver.receive(max_count=1, max_wait=3)
            assert receiver.lock_left([delivery]) > 0
            assert receiver.settle_many([delivery]) == []
            steady.ahead += 30
    (told,) = [line for line in lines if line["log_level"] == "warning"]
    assert (told["event"], told["clock"]) == ("this machine's clock differs from Service Bus's", "ahead")
    assert 3_500 < told["seconds"] < 3_600


def test_a_message_whose_lock_was_over_before_it_was_read_is_not_handed_over(
    monkeypatch: pytest.MonkeyPatch, bus: ServiceBus
) -> None:
    """As behind a topic that is slow: others are sent for longer than a lock lasts while it waits in this process."""
    until, passed = common.servicebus.lock_times._until, [0.0]
    monkeypatch.setattr(common.servicebus.lock_times, "_until", lambda moment: until(moment) - passed[0])
    put(bus, "plain", some(3))
    with closing(opened(bus.receivers("plain", sessions=False, prefetch=10))) as receiver:
        (first,) = receiver.receive(max_count=1, max_wait=5)
        assert receiver.lock_left([first]) > 30
        passed[0] = 90.0
        assert receiver.receive(max_count=1, max_wait=5) == []
        passed[0] = 20.0
        (third,) = receiver.receive(max_count=1, max_wait=5)
        assert 20 < receiver.lock_left([third]) < 45


def test_a_receiver_asks_to_be_reopened_long_before_the_sdk_fails(
    monkeypatch: pytest.MonkeyPatch, bus: ServiceBus, steady: Clock
) -> None:
    monkeypatch.setattr(common.servicebus.receiver, "MAX_RENEWALS", 1)
    put(bus, "lanes", some(1, "a"))
    with closing(opened(bus.receivers("lanes", sessions=True, prefetch=10))) as receiver:
        steady.ahead += 45
        receiver.renew(())
        with pytest.raises(TransientError, match="due to be reopened"):
            receiver.receive(max_count=1, max_wait=3)


def test_a_batch_that_the_service_finds_too_large_goes_in_halves(
    monkeypatch: pytest.MonkeyPatch, emulator: ServiceBusEmulator, bus: ServiceBus
) -> None:
    monkeypatch.setattr(
        common.servicebus.sender, "ENVELOPE", 0
    )  # full to the brim by the SDK's count, which forgets the envelope
    with closing(bus.sender("lanes")) as sender:
        flushed: list[int] = []
        flush = sender._flush

        def watched(link: Any, batch: Any, held: Sequence[int], sending: Any) -> None:
            flushed.append(len(held))
            flush(link, batch, held, sending)

        monkeypatch.setattr(sender, "_flush", watched)
        sender.send([Message(b"x", f"m{number:04d}", "s" * 100) for number in range(2_500)])
    assert flushed[1] == flushed[0] // 2
    assert active(emulator, "lanes") == 2_500


KILOBYTES = pytest.mark.parametrize("kilobytes", [256, 1024])


@KILOBYTES
def test_a_batch_is_what_the_link_takes_at_most_1_mb(
    emulator: ServiceBusEmulator, bus: ServiceBus, kilobytes: int
) -> None:
    emulator.admin.create("sized", QueueDescription(max_message_size_in_kilobytes=kilobytes))
    emulator.admin.create("huge", QueueDescription(max_message_size_in_kilobytes=100 * 1024))
    with closing(bus.sender("sized")) as sender:
        assert sender.batch_bytes() == kilobytes * 1024 - ENVELOPE
    with closing(bus.sender("huge")) as sender:
        assert sender.batch_bytes() == 1024 * 1024 - ENVELOPE


@KILOBYTES
def test_around_the_limit_a_message_is_taken_or_named_and_the_link_goes_on(
    emulator: ServiceBusEmulator, bus: ServiceBus, kilobytes: int
) -> None:
    """A body just below the limit is refused by the service alone, which counts its properties."""
    emulator.admin.create("sized", QueueDescription(max_message_size_in_kilobytes=kilobytes, requires_session=True))
    limit = kilobytes * 1024
    with closing(bus.sender("sized")) as sender:
        for number, (size, fits) in enumerate([(limit - 1_000, True), (limit - 20, False), (limit + 1, False)]):
            small = Message(b"small", f"small-{number}", "s")
            large = Message(b"x" * size, f"large-{number}", "s")
            if fits:
                sender.send([small, large])
                continue
            with pytest.raises(MessageTooLarge) as refused:
                sender.send([small, large])
            assert refused.value.refused is large
            assert (refused.value.accepted, refused.value.size, refused.value.limit) == (frozenset({0}), size, limit)
        sender.send([Message(b"last", "last", "s")])
    with closing(opened(bus.receivers("sized", sessions=True, prefetch=50))) as receiver:
        found: list[str | None] = []
        while len(found) < 5 and (more := receiver.receive(max_count=5, max_wait=3)):
            found += [delivery.message.message_id for delivery in more]
    assert found == ["small-0", "large-0", "small-1", "small-2", "last"]


def test_a_link_that_was_quiet_for_long_is_opened_anew_without_an_error(
    monkeypatch: pytest.MonkeyPatch, emulator: ServiceBusEmulator, bus: ServiceBus
) -> None:
    with closing(bus.sender("plain")) as sender:
        sender.send(some(1))
        emulator.drop_connections()
        monkeypatch.setattr(common.servicebus.sender, "STALE_AFTER", 0.0)
        sender.send(some(2))
    assert active(emulator, "plain") == 3


def test_a_wrong_key_is_permanent_and_shows_no_secret(emulator: ServiceBusEmulator) -> None:
    key = emulator.connection_string.partition("SharedAccessKey=")[2].partition(";")[0]
    bus = ServiceBus.from_connection_string(emulator.connection_string.replace(key, "d3Jvbmcta2V5"))
    with pytest.raises(EntityUnavailable, match="signature") as refused:
        bus.sender("plain").open()
    assert "d3Jvbmcta2V5" not in str(refused.value)


@pytest.mark.parametrize("proven", [False, True], ids=["by itself", "by another process"])
def test_a_right_to_receive_that_is_refused_after_it_worked_is_asked_for_again(proven: bool) -> None:
    """A key that is changed and changed back, on the same port."""
    port = free_port()
    with ServiceBusEmulator(port=port, keys={"worker": "a2V5"}) as emulator:
        emulator.admin.create("plain", QueueDescription())
        bus = ServiceBus(read_address(emulator.connection_string), proven=proven)
        receivers = bus.receivers("plain", sessions=False, prefetch=1)
        if not proven:
            opened(receivers).close()
    for key, let_in in (("b3RoZXI", False), ("a2V5", True)):
        with ServiceBusEmulator(port=port, keys={"worker": key}) as emulator:
            emulator.admin.create("plain", QueueDescription())
            if let_in:
                opened(receivers).close()
                return
            with pytest.raises(TransientError, match="signature") as refused:
                receivers.open(max_wait=1)
            assert "policy's name and key" in (refused.value.hint or "")


def test_a_right_to_send_that_is_refused_after_it_worked_elsewhere_passes_when_the_link_is_opened(
    emulator: ServiceBusEmulator,
) -> None:
    """What is sent all the same meets the refusal as it is: whoever sends knows how to wait for a person."""
    wrong = read_address(emulator.connection_string.replace("SharedAccessKey=SAS_KEY_VALUE", "SharedAccessKey=b3RoZXI"))
    with pytest.raises(TransientError, match="signature"):
        ServiceBus(wrong, proven=True).sender("plain").open()
    with pytest.raises(EntityUnavailable, match="signature"):
        ServiceBus(wrong, proven=True).sender("plain").send(some(1))


def test_a_policy_that_may_only_send_is_told_when_it_listens() -> None:
    with ServiceBusEmulator(keys={"worker": "a2V5"}, rights={"worker": ["Send"]}) as emulator:
        emulator.admin.create("plain", QueueDescription())
        bus = ServiceBus.from_connection_string(emulator.connection_string)
        put(bus, "plain", some(1))
        with pytest.raises(EntityUnavailable, match=r"the policy worker of .* lacks the right Listen on plain"):
            bus.receivers("plain", sessions=False, prefetch=1).open(max_wait=1)


def test_nobody_at_the_address_is_a_transient_error_at_once(bus: ServiceBus, emulator: ServiceBusEmulator) -> None:
    emulator.stop()
    with pytest.raises(TransientError, match="refuses connections"):
        bus.sender("plain").open()
    with pytest.raises(TransientError, match="refuses connections"):
        bus.receivers("lanes", sessions=True, prefetch=1).open(max_wait=1)


@pytest.mark.parametrize(("queue", "session"), [("plain", None), ("lanes", "s")])
def test_a_receiver_has_one_reader_since_two_would_mix_up_the_order(
    bus: ServiceBus, queue: str, session: str | None
) -> None:
    """The SDK's keep-alive thread reads frames without a lock over reading and queueing them: seen as 3 swaps in 40,000."""
    put(bus, queue, some(1, session))
    with closing(opened(bus.receivers(queue, sessions=session is not None, prefetch=1))) as receiver:
        handler: Any = receiver._receiver._handler
        assert handler._keep_alive_thread is None


def test_a_queue_that_is_not_there_is_said_with_how_to_have_it(bus: ServiceBus) -> None:
    """The service says so when it is shown a token, before there is a link; the SDK calls that a failed sign-in."""
    with closing(bus.sender("nowhere")) as sender, pytest.raises(EntityUnavailable) as refused:
        sender.open()
    assert "could not be found" in refused.value.message
    assert (refused.value.hint or "").startswith("create the entity")


@pytest.mark.parametrize("entity", ["plain", "events"])
def test_an_entity_that_was_deleted_while_it_was_in_use_is_said_to_be(
    emulator: ServiceBusEmulator, bus: ServiceBus, entity: str
) -> None:
    if entity == "events":
        emulator.admin.create("events", TopicDescription())
    with closing(bus.sender(entity)) as sender:
        sender.send(some(1))
        emulator.admin.delete(entity)
        for _ in range(2):  # on the link that was detached, and on a new one
            with pytest.raises(
                EntityUnavailable, match=rf"{entity}.* (has been deleted|could not be found)"
            ) as refused:
                sender.send(some(1))
            assert (refused.value.hint or "").startswith("it was deleted while it was in use")


def test_an_entity_that_is_switched_off_is_told_from_a_lost_link(emulator: ServiceBusEmulator, bus: ServiceBus) -> None:
    with (
        closing(bus.sender("plain")) as sender,
        emulator.inject(SendsRefused("plain", "com.microsoft:entity-disabled")),
        pytest.raises(SendInterrupted, match="disabled") as refused,
    ):
        sender.send(some(1))
    assert refused.value.disabled
    assert refused.value.hint == "enable the entity in the portal"


OF_A_MESSAGE = (
    "amqp:not-allowed",
    "amqp:not-implemented",
    "amqp:invalid-field",
    "amqp:decode-error",
    "com.microsoft:argument-error",
    "com.microsoft:argument-out-of-range",
)

OF_THE_ENTITY: dict[str, type[Exception]] = {
    "amqp:not-found": EntityUnavailable,
    "amqp:unauthorized-access": EntityUnavailable,
    "com.microsoft:entity-disabled": TransientError,
    "amqp:resource-limit-exceeded": TransientError,
    "com.microsoft:server-busy": TransientError,
    "amqp:internal-error": TransientError,
    "com.microsoft:timeout": TransientError,
}


def in_order(bus: ServiceBus, count: int) -> list[str | None]:
    receiver = opened(bus.receivers("plain", sessions=False, prefetch=50))
    found: list[str | None] = []
    while more := receiver.receive(max_count=500, max_wait=0.5 if len(found) >= count else 5):
        found += [each.message.message_id for each in more]
    receiver.close()
    return found


def test_the_message_that_is_refused_is_told_from_its_batch_and_those_before_it_are_in(
    emulator: ServiceBusEmulator, bus: ServiceBus
) -> None:
    arrived: list[str | None] = []
    with closing(bus.sender("plain")) as sender:
        for condition in OF_A_MESSAGE:
            sent = [Message(b"", f"{condition} {number}") for number in range(20)]
            with emulator.inject(SendsRefused("plain", condition, None, f"{condition} 13")):
                with pytest.raises(
                    MessageRefused, match=f"message {condition} 13 was refused: .*{condition}"
                ) as raised:
                    sender.send(sent)
                sender.send(sent[14:])
            assert not isinstance(raised.value, MessageTooLarge)
            assert (raised.value.refused, raised.value.at) == (sent[13], 13)
            assert raised.value.accepted == set(range(13))
            assert raised.value.hint
            arrived += [message.message_id for message in sent if message is not sent[13]]
    assert in_order(bus, len(arrived)) == arrived


def test_what_concerns_the_entity_or_the_moment_is_no_message_s_fault(
    emulator: ServiceBusEmulator, bus: ServiceBus
) -> None:
    with closing(bus.sender("plain")) as sender:
        for condition, kind in OF_THE_ENTITY.items():
            with emulator.inject(SendsRefused("plain", condition)), pytest.raises(kind) as raised:
                sender.send(some(3))
            assert not isinstance(raised.value, MessageRefused)


def test_a_link_that_is_refused_is_no_message_s_fault(bus: ServiceBus) -> None:
    """amqp:not-allowed is also the answer to a link that nothing can be sent on."""
    with closing(bus.sender("plain/$deadletterqueue")) as sender, pytest.raises(EntityUnavailable) as raised:
        sender.send(some(1))
    assert not isinstance(raised.value, MessageRefused)


@pytest.mark.parametrize("way", ["ours", "the SDK's"])
def test_a_message_that_cannot_be_written_is_told_and_those_before_it_are_in(
    monkeypatch: pytest.MonkeyPatch, bus: ServiceBus, way: str
) -> None:
    if way != "ours":
        monkeypatch.setattr("common.servicebus.wire.batches.supported", lambda: False)
    unwritable = [
        Message(b"{}", "x" * 129),
        Message(b"{}", "surrogate", subject="\ud800"),
        Message(b"{}", "kind", application_properties={"odd": object()}),  # type: ignore[dict-item]
        Message(b"{}", "number", application_properties={"n": 2**80}),
    ]
    arrived: list[str | None] = []
    with closing(bus.sender("plain")) as sender:
        for each, bad in enumerate(unwritable):
            sent = [*(Message(b"", f"{each}-{number}") for number in range(3)), bad, *some(3)]
            with pytest.raises(MessageUnwritable, match="cannot be written") as raised:
                sender.send(sent)
            assert raised.value.refused is bad
            assert raised.value.at == 3
            assert raised.value.accepted == {0, 1, 2}
            arrived += [message.message_id for message in sent[:3]]
    assert in_order(bus, len(arrived)) == arrived


@pytest.mark.parametrize("error", [TypeError("'NoneType' object is not callable"), KeyError("x"), AssertionError()])
def test_an_error_of_the_sdk_while_it_reads_ahead_ends_this_receiver_alone(
    monkeypatch: pytest.MonkeyPatch, bus: ServiceBus, error: Exception
) -> None:
    """What came before it is handed over; behind it, a message may be missing."""
    put(bus, "plain", some(3))
    with closing(opened(bus.receivers("plain", sessions=False, prefetch=10))) as receiver:
        handler: Any = receiver._receiver._handler
        monkeypatch.setattr(common.servicebus.receiver, "readable", lambda *_: True)
        real = handler.do_work

        def broken(**_: Any) -> bool:
            raise error

        def once(**kwargs: Any) -> bool:
            handler.do_work = broken
            return bool(real(**kwargs))

        handler.do_work = once
        assert len(receiver.receive(max_count=10, max_wait=3)) >= 1
        with pytest.raises(TransientError, match=type(error).__name__):
            receiver.receive(max_count=10, max_wait=0.1)


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize("way", ["range", "one by one"])
def test_an_error_of_the_sdk_while_it_settles_ends_this_receiver_alone(
    monkeypatch: pytest.MonkeyPatch, bus: ServiceBus, way: str
) -> None:
    if way != "range":
        monkeypatch.setattr("common.servicebus.settle.supported", lambda _: False)
    put(bus, "plain", some(1))
    with closing(opened(bus.receivers("plain", sessions=False, prefetch=10))) as receiver:
        deliveries = receiver.receive(max_count=1, max_wait=3)
        inner: Any = receiver._receiver

        def broken(*_: Any, **__: Any) -> None:
            raise TypeError("'NoneType' object is not callable")

        monkeypatch.setattr(inner._handler._connection, "listen", broken)
        with pytest.raises(TransientError, match="NoneType"):
            receiver.settle_many(deliveries)


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize("change", ["signature", "tags", "listen", "raises"])
def test_a_patched_sdk_is_found_out_on_a_link_and_told_once(
    monkeypatch: pytest.MonkeyPatch, emulator: ServiceBusEmulator, bus: ServiceBus, clock: Clock, change: str
) -> None:
    """It has what `complete_message` needs, and not what completing a range needs."""
    real: Any = ReceiverLink.send_disposition
    if change == "signature":
        monkeypatch.setattr(ReceiverLink, "send_disposition", lambda self, **told: real(self, **told))
    elif change == "tags":
        made: Any = ReceiverLink.__init__

        def other(self: Any, *args: Any, **kwargs: Any) -> None:
            made(self, *args, **kwargs)
            self._received_delivery_tags = Tags()

        monkeypatch.setattr(ReceiverLink, "__init__", other)
    elif change == "listen":
        monkeypatch.setattr(
            "common.servicebus.settle._missing", lambda handler: "its connections cannot be listened to"
        )
    else:

        def strict(self: Any, *, wait: Any = False, await_outcome: bool = False, **told: Any) -> None:
            if told["last_delivery_id"] is not None and not await_outcome:
                raise TypeError("last_delivery_id is gone")
            real(self, wait=wait, await_outcome=await_outcome, **told)

        strict.__signature__ = inspect.signature(real)  # type: ignore[attr-defined]
        monkeypatch.setattr(ReceiverLink, "send_disposition", strict)
    put(bus, "plain", some(3))
    with capture_logs() as told:
        for _ in range(4):
            with (
                closing(opened(bus.receivers("plain", sessions=False, prefetch=10))) as receiver,
                suppress(TransientError),
            ):
                while active(emulator, "plain"):
                    assert list(receiver.settle_many(receiver.receive(max_count=10, max_wait=3))) == []
            clock.ahead += 120  # what was not settled comes again
    assert active(emulator, "plain") == 0
    assert [line["log_level"] for line in told if "one by one" in line["event"]] == ["warning"]


LARGE = b"x" * (2 << 20)
"""More than a batch holds: the SDK writes such a message, and knows fewer types than there are."""


def test_foreign_types_of_a_message_larger_than_a_batch_are_kept_where_the_sdk_can_write_them(
    emulator: ServiceBusEmulator, bus: ServiceBus
) -> None:
    emulator.admin.create("huge", QueueDescription(max_message_size_in_kilobytes=10 * 1024))
    held = {
        "long": b"\x55\x07",
        "ulong": b"\x53\x07",
        "stamp": b"\x83" + (1_700_000_000_123).to_bytes(8),
        "float": b"\x72\x3f\x00\x00\x00",
        "ubyte": b"\x50\x07",
        "symbol": b"\xa3\x01s",
        "binary": b"\xa0\x01b",
    }
    values = {name: Opaque(octets) for name, octets in held.items()}
    foreign = {"message_id": Opaque(b"\x98" + b"u" * 16), "content_encoding": Opaque(b"\xa3\x04gzip")}
    told = str(uuid.UUID(bytes=b"u" * 16))
    sent = Message(
        LARGE, told, time_to_live=timedelta(milliseconds=90_500), application_properties=values, foreign=foreign
    )
    char = Message(LARGE, "char", application_properties={"char": Opaque(b"\x73\x00\x00\x00\x41")})
    with closing(bus.sender("huge")) as sender:
        sender.send([sent])
        with pytest.raises(MessageUnwritable, match=r"cannot be written: .* type 0x73"):
            sender.send([char])
        with pytest.raises(MessageUnwritable, match=r"cannot be written: .* subject of type 0x73"):
            sender.send([Message(LARGE, "char", subject="A", foreign={"subject": Opaque(b"\x73\x00\x00\x00\x41")})])
    with closing(opened(bus.receivers("huge", sessions=False, prefetch=1))) as receiver:
        (delivery,) = receiver.receive(max_count=1, max_wait=5)
    assert delivery.message == sent


@pytest.mark.usefixtures("fresh")
def test_the_sdk_is_the_one_that_this_was_written_against(bus: ServiceBus) -> None:
    put(bus, "plain", some(1))
    with (
        capture_logs() as told,
        closing(opened(bus.receivers("plain", sessions=False, prefetch=10))) as receiver,
    ):
        deliveries = receiver.receive(max_count=10, max_wait=3)
        assert receiver._ranged
        assert receiver.settle_many(deliveries) == []
    assert [line for line in told if line["log_level"] != "debug"] == []


class Tags(list[bytes]):
    """As the set of tags, and none."""

    add = list.append


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize("change", ["names", "frames"])
def test_with_a_patched_sdk_messages_are_read_by_it_and_that_is_told_once(
    monkeypatch: pytest.MonkeyPatch, bus: ServiceBus, change: str
) -> None:
    if change == "names":
        monkeypatch.setattr("common.servicebus.wire.arrivals.callable", lambda _: False, raising=False)
    else:
        monkeypatch.setattr("common.servicebus.wire.arrivals._FIELDS", 13)
    whole = Message(b"{}", "m", "s", application_properties={"text": "t", "number": 1, "yes": True})
    with capture_logs() as told:
        assert received(bus, [whole]) == [whole]
        put(bus, "plain", some(1))
        with closing(opened(bus.receivers("plain", sessions=False, prefetch=10))) as receiver:
            (delivery,) = receiver.receive(max_count=10, max_wait=3)
            assert receiver.settle_many([delivery]) == []
    assert [line["log_level"] for line in told if "reads messages by itself" in line["event"]] == ["warning"]


def dead(emulator: ServiceBusEmulator, queue: str) -> tuple[str | None, str | None]:
    with (
        ServiceBusClient.from_connection_string(emulator.connection_string) as client,
        client.get_queue_receiver(queue, sub_queue=ServiceBusSubQueue.DEAD_LETTER) as receiver,
    ):
        (message,) = receiver.receive_messages(1, max_wait_time=5)
        return message.dead_letter_reason, message.dead_letter_error_description


def test_a_dead_letter_s_texts_are_cut_in_bytes_and_can_be_written(
    bus: ServiceBus, emulator: ServiceBusEmulator
) -> None:
    put(bus, "plain", some(1))
    with closing(opened(bus.receivers("plain", sessions=False, prefetch=10))) as receiver:
        (delivery,) = receiver.receive(max_count=1, max_wait=3)
        receiver.dead_letter(delivery, reason="\ud800" + "ä" * 9_000, description="\udfff" + "\U0001f600" * 9_000)
    reason, description = dead(emulator, "plain")
    assert reason is not None
    assert description is not None
    assert reason.startswith("\\ud800ä")
    assert description.startswith("\\udfff\U0001f600")
    assert (len(reason.encode()), len(description.encode())) == (256, 3_998)
