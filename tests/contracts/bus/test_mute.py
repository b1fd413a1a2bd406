"""A namespace that falls silent at any stage of a connection: each call ends in time, leaves no socket behind, and the next one works."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from typing import Any

import pytest

import common.servicebus.connection.client
import common.servicebus.management
import common.servicebus.queue_receivers
import common.servicebus.receiver
import common.servicebus.sender
from common.bus.ports import QueueNeed, SendInterrupted
from common.errors import PermanentError, TransientError
from common.message import Message
from common.servicebus.entities import Entities
from common.servicebus.lock_life import LockLife
from common.servicebus.namespace import ServiceBus
from common.servicebus.provision import provision
from common.servicebus.receiver import BusReceiver
from emulators.servicebus.description import QueueDescription
from emulators.servicebus.faults.catalogue import Mute
from emulators.servicebus.faults.silence import Stage
from emulators.servicebus.server import ServiceBusEmulator

from .descriptors import none_left

SOON = 0.4
"""Seconds that a call is given which is to run out of time."""

OPENING = (
    *(Stage.ACCEPT, Stage.HEADER, Stage.SASL, Stage.OPEN, Stage.BEGIN),
    *(Stage.CBS, Stage.ATTACH, Stage.HALF_FRAME),
)
SENDING = (Stage.FLOW, Stage.TRANSFER, Stage.ANSWER)


_MODULES = (
    common.servicebus.sender,
    common.servicebus.queue_receivers,
    common.servicebus.receiver,
    common.servicebus.connection.client,
)


@contextmanager
def muted(emulator: ServiceBusEmulator, *given: Any) -> Iterator[None]:
    """Only who meets silence is impatient: what the emulator answers may take its time."""
    with emulator.inject(Mute(*given)), pytest.MonkeyPatch.context() as patch:
        for module in _MODULES:
            for name in ("OPEN_TIMEOUT", "SEND_TIMEOUT", "SETTLE_TIMEOUT", "RENEW_TIMEOUT"):
                if hasattr(module, name):
                    patch.setattr(module, name, SOON)
        yield


@pytest.fixture
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in _MODULES:
        if hasattr(module, "CLOSE_TIMEOUT"):
            monkeypatch.setattr(module, "CLOSE_TIMEOUT", SOON)
    monkeypatch.setattr(common.servicebus.queue_receivers, "HEARTBEAT", 1)
    monkeypatch.setattr(common.servicebus.receiver, "SILENCE", 3.5)


@pytest.fixture
def emulator() -> Iterator[ServiceBusEmulator]:
    with ServiceBusEmulator() as running:
        running.admin.create("plain", QueueDescription())
        running.admin.create("lanes", QueueDescription(requires_session=True))
        yield running


@pytest.fixture
def bus(emulator: ServiceBusEmulator) -> ServiceBus:
    return ServiceBus.from_connection_string(emulator.connection_string)


def opened(bus: ServiceBus, queue: str) -> BusReceiver:
    receiver = bus.receivers(queue, sessions=queue == "lanes", prefetch=5).open(max_wait=60)
    assert isinstance(receiver, BusReceiver)
    return receiver


def held(emulator: ServiceBusEmulator, queue: str) -> int:
    return emulator.admin.get(queue).counts.active


def read(receiver: BusReceiver) -> None:
    for _ in range(200):
        receiver.receive(max_count=1, max_wait=0.1)


def message(name: str) -> Message:
    return Message(b"x", name, session_id="s")


pytestmark = pytest.mark.usefixtures("_impatient")


@pytest.mark.parametrize("stage", OPENING)
@pytest.mark.parametrize("way", ["sender", "queue", "session"])
def test_opening_ends_and_the_next_one_works(
    emulator: ServiceBusEmulator, bus: ServiceBus, way: str, stage: Stage
) -> None:
    with closing(bus.sender("lanes")) as sender:
        sender.send([message("there")])
    open_one: Callable[[], object] = {
        "sender": lambda: bus.sender("plain").open(),
        "queue": lambda: bus.receivers("plain", sessions=False, prefetch=1).open(max_wait=0.1),
        "session": lambda: bus.receivers("lanes", sessions=True, prefetch=1).open(max_wait=0.1),
    }[way]
    words = r"opening a (sender|receiver) for .* did not answer within 0\.[45] s"
    with none_left(), muted(emulator, stage, 0), pytest.raises(TransientError, match=words):
        open_one()
    if way == "sender":
        with closing(bus.sender("plain")) as sender:
            sender.open()
    else:
        opened(bus, "plain" if way == "queue" else "lanes").close()


@pytest.mark.parametrize("stage", SENDING)
def test_sending_ends_and_the_next_one_works(emulator: ServiceBusEmulator, bus: ServiceBus, stage: Stage) -> None:
    with closing(bus.sender("plain")) as sender, none_left():
        with muted(emulator, stage):
            with pytest.raises(
                SendInterrupted, match=r"(sending to|opening a sender for) plain: .* did not answer"
            ) as raised:
                sender.send([message("first")])
            assert raised.value.accepted == set()
        sender.send([message("second")])
        sender.close()
    assert held(emulator, "plain") == (2 if stage is Stage.ANSWER else 1)


@pytest.mark.parametrize("queue", ["plain", "lanes"])
@pytest.mark.parametrize("way", ["settle_many", "dead_letter", "one by one"])
def test_settling_ends_and_what_was_not_settled_comes_again(
    emulator: ServiceBusEmulator, bus: ServiceBus, monkeypatch: pytest.MonkeyPatch, queue: str, way: str
) -> None:
    if way == "one by one":
        monkeypatch.setattr("common.servicebus.settle.supported", lambda _: False)
    with closing(bus.sender(queue)) as sender:
        sender.send([message("m")])
    with none_left():
        receiver = opened(bus, queue)
        deliveries = receiver.receive(max_count=1, max_wait=60)
        settle: Callable[[], object] = (
            partial(receiver.dead_letter, deliveries[0], reason="r", description="d")
            if way == "dead_letter"
            else partial(receiver.settle_many, deliveries)
        )
        with muted(emulator, Stage.DISPOSITION), pytest.raises(TransientError, match="did not answer within"):
            settle()
        receiver.close()
    assert held(emulator, queue) == 1


@pytest.mark.parametrize("queue", ["plain", "lanes"])
def test_renewing_a_lock_ends(
    emulator: ServiceBusEmulator, bus: ServiceBus, monkeypatch: pytest.MonkeyPatch, queue: str
) -> None:
    monkeypatch.setattr(LockLife, "due", lambda self, now: True)
    with closing(bus.sender(queue)) as sender:
        sender.send([message("m")])
    with none_left():
        receiver = opened(bus, queue)
        deliveries = receiver.receive(max_count=1, max_wait=60)
        with (
            muted(emulator, Stage.MANAGEMENT),
            pytest.raises(TransientError, match=r"renewing .* did not answer"),
        ):
            receiver.renew(deliveries)
        receiver.close()


@pytest.mark.parametrize("queue", ["plain", "lanes"])
@pytest.mark.parametrize("stage", [Stage.FLOW, Stage.HALF_FRAME])
def test_a_receiver_notices_that_the_peer_does_not_even_say_that_it_is_there(
    emulator: ServiceBusEmulator, bus: ServiceBus, queue: str, stage: Stage
) -> None:
    with closing(bus.sender(queue)) as sender:
        sender.send([message("first")])
    with none_left(), ExitStack() as faults:
        if stage is Stage.FLOW:
            faults.enter_context(emulator.inject(Mute(stage, 0)))
        receiver = opened(bus, queue)
        if stage is not Stage.FLOW:
            faults.enter_context(emulator.inject(Mute(stage, 0)))
        with pytest.raises(TransientError, match=rf"receiving from .*{queue}: not a word from the service"):
            read(receiver)
        receiver.close()


@pytest.mark.parametrize("queue", ["plain", "lanes"])
def test_a_receiver_of_an_idle_queue_is_told_that_the_peer_is_there(
    emulator: ServiceBusEmulator, bus: ServiceBus, queue: str
) -> None:
    with closing(bus.sender(queue)) as sender:
        sender.send([message("first")])
        receiver = opened(bus, queue)
        assert not receiver.settle_many(receiver.receive(max_count=1, max_wait=60))
        for _ in range(45):
            assert receiver.receive(max_count=1, max_wait=0.1) == ()
        sender.send([message("second")])
        assert len(receiver.receive(max_count=1, max_wait=60)) == 1
        receiver.close()


@pytest.mark.parametrize("stage", [Stage.HTTP, Stage.HALF_ANSWER])
def test_managing_ends_and_the_next_call_works(
    emulator: ServiceBusEmulator, bus: ServiceBus, monkeypatch: pytest.MonkeyPatch, stage: Stage
) -> None:
    monkeypatch.setattr(common.servicebus.management, "MANAGEMENT_TIMEOUT", SOON)
    monkeypatch.setattr(common.servicebus.management, "READ_TIMEOUT", SOON)
    endpoint = f"http://127.0.0.1:{emulator.http_port}"
    with emulator.inject(Mute(stage, 0)), none_left():  # what is waited for no more ends by itself
        with pytest.raises(TransientError, match=r"creating new at .*: no answer from the management API"):
            provision(bus.address, [QueueNeed("new", True)], how="create", management_endpoint=endpoint)
        with (
            closing(Entities(bus.address, endpoint)) as entities,
            pytest.raises(TransientError, match=r"queue plain at .*: no answer from the management API"),
        ):
            entities.queue("plain")
    monkeypatch.undo()
    provision(bus.address, [QueueNeed("new", True)], how="create", management_endpoint=endpoint)
    assert emulator.admin.get("new")


def test_a_management_api_that_is_not_there_or_refuses_the_key_is_told_in_plain_words(
    emulator: ServiceBusEmulator, bus: ServiceBus
) -> None:
    endpoint = f"http://127.0.0.1:{emulator.http_port}"
    key = emulator.connection_string.partition("SharedAccessKey=")[2].partition(";")[0]
    wrong = ServiceBus.from_connection_string(emulator.connection_string.replace(key, "d3Jvbmcta2V5"))
    with closing(Entities(wrong.address, endpoint)) as entities, pytest.raises(PermanentError) as refused:
        entities.queue("plain")
    assert (refused.value.hint or "").startswith("check the policy's name and key")
    emulator.stop()
    with closing(Entities(bus.address, endpoint)) as entities, pytest.raises(TransientError) as away:
        entities.queue("plain")
    assert away.value.message.endswith("the management API refuses connections")
    assert "Errno" not in str(away.value)
