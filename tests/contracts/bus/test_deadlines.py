"""Every call to Service Bus ends, whatever the peer does or leaves undone, and leaves no socket behind."""

from __future__ import annotations

import os
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from azure.servicebus import ServiceBusClient, TransportType

import common.azure_amqp.deadline
import common.servicebus.connection.client
import common.servicebus.queue_receivers
import common.servicebus.receiver
import common.servicebus.sender
from common.azure_amqp.deadline import Guard
from common.bus.ports import OutOfTime
from common.errors import TransientError
from common.message import Message
from common.servicebus.namespace import ServiceBus
from emulators.servicebus.description import QueueDescription
from emulators.servicebus.faults.catalogue import AnswersDelayed
from emulators.servicebus.server import ServiceBusEmulator

from .descriptors import none_left

SOON = 0.3
"""Seconds that a call is given which is to run out of time."""

KEY = "SharedAccessKeyName=p;SharedAccessKey=a2V5"


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in (
        (common.servicebus.sender, "OPEN_TIMEOUT"),
        (common.servicebus.sender, "SEND_TIMEOUT"),
        (common.servicebus.queue_receivers, "OPEN_TIMEOUT"),
        (common.servicebus.receiver, "SETTLE_TIMEOUT"),
        (common.servicebus.receiver, "RENEW_TIMEOUT"),
        (common.servicebus.receiver, "RECEIVE_SLACK"),
        (common.servicebus.connection.client, "CLOSE_TIMEOUT"),
    ):
        monkeypatch.setattr(module, name, SOON)


# The guard itself


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def guarded(ours: socket.socket) -> Guard:
    guard = Guard("example.servicebus.windows.net")
    guard.handle = SimpleNamespace(
        _handler=SimpleNamespace(_connection=SimpleNamespace(_transport=SimpleNamespace(sock=ours)))
    )
    return guard


def read(ours: socket.socket) -> None:
    """As the SDK does: until the peer hangs up."""
    while ours.recv(1):
        continue
    raise OSError("Server unexpectedly closed connection")


def test_calls_are_ended_again_once_the_watching_thread_can_be_started(
    pair: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    watch = common.azure_amqp.deadline._Watch()
    monkeypatch.setattr(common.azure_amqp.deadline, "_watch", watch)
    guard = guarded(pair[0])
    with monkeypatch.context() as limited:
        limited.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError), guard.within(SOON, "reading"):
            raise AssertionError("nobody would end this call")
    pair[0].settimeout(30)
    with pytest.raises(TransientError, match="did not answer"), guard.within(SOON, "reading"):
        read(pair[0])
    assert guard.over
    assert watch._thread is not None
    watch._thread.name = "watched one test"  # it never ends, and others count those of the process


def test_a_call_that_is_overdue_is_ended_and_says_what_it_was_doing_and_where(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    with (
        pytest.raises(TransientError, match=r"sending to q: example\..* did not answer within 0\.3 s") as raised,
        guarded(pair[0]).within(SOON, "sending to q"),
    ):
        read(pair[0])
    assert raised.value.hint
    assert isinstance(raised.value.__cause__, OSError)


def test_octets_that_trickle_do_not_put_the_end_off(pair: tuple[socket.socket, socket.socket]) -> None:
    stop = threading.Event()

    def trickle() -> None:
        while not stop.wait(SOON / 10):
            try:
                pair[1].send(b"x")
            except OSError:
                return

    thread = threading.Thread(target=trickle)
    thread.start()
    try:
        with pytest.raises(TransientError, match="did not answer"), guarded(pair[0]).within(SOON, "receiving"):
            read(pair[0])
    finally:
        stop.set()
        thread.join()


def test_a_call_that_has_returned_is_never_cut_and_the_next_one_has_its_whole_time(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    guard = guarded(pair[0])
    for _ in range(200):
        with guard.within(1.0, "sending"):
            pass
    time.sleep(1.1)
    with guard.within(60, "sending"):
        time.sleep(0.05)
        pair[1].send(b"x")
        assert pair[0].recv(1) == b"x"


def test_a_call_that_returned_just_before_it_was_cut_has_returned(pair: tuple[socket.socket, socket.socket]) -> None:
    with guarded(pair[0]).within(0.01, "sending"):
        assert pair[0].recv(1) == b""


def test_calls_of_many_threads_end_each_in_its_own_time() -> None:
    ended: list[int] = []

    def call(number: int) -> None:
        ours, theirs = socket.socketpair()
        with ours, theirs, pytest.raises(TransientError), guarded(ours).within(SOON * (1 + number % 3), "sending"):
            read(ours)
        ended.append(number)

    threads = [threading.Thread(target=call, args=(number,)) for number in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(ended) == list(range(24))
    assert sum(thread.name == "amqp-deadlines" for thread in threading.enumerate()) == 1


def test_a_process_that_was_forked_ends_its_own_calls(pair: tuple[socket.socket, socket.socket]) -> None:
    with guarded(pair[0]).within(60, "sending"):
        child = os.fork()
        if child == 0:
            status = 1
            try:
                ours, _theirs = socket.socketpair()
                with guarded(ours).within(SOON, "sending"):
                    read(ours)
            except TransientError:
                status = 0
            finally:
                os._exit(status)
        until = time.monotonic() + 60
        while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0) and time.monotonic() < until:
            time.sleep(0.02)
        if ended == (0, 0):
            os.kill(child, 9)
            os.waitpid(child, 0)
    assert ended == (child, 0)


# Where nobody answers


@contextmanager
def silent() -> Iterator[int]:
    """A port that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


def bus_at(port: int) -> ServiceBus:
    return ServiceBus.from_connection_string(f"Endpoint=sb://127.0.0.1:{port};{KEY};UseDevelopmentEmulator=true")


def test_a_peer_that_takes_the_connection_and_says_nothing_holds_up_nobody() -> None:
    with silent() as port, none_left():
        with pytest.raises(TransientError, match=r"opening a sender for q: 127\.0\.0\.1:.* did not answer within"):
            bus_at(port).sender("q").open()
        with pytest.raises(TransientError, match=r"opening a receiver for q: .* did not answer within"):
            bus_at(port).receivers("q", sessions=True, prefetch=1).open(max_wait=0.1)


def test_a_tls_handshake_that_is_not_answered_holds_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    with silent() as port, none_left():
        elsewhere: dict[str, Any] = {
            "custom_endpoint_address": f"sb://127.0.0.1:{port}",
            "transport_type": TransportType.Amqp,
        }
        through = partial(ServiceBusClient.from_connection_string, **elsewhere)
        monkeypatch.setattr(ServiceBusClient, "from_connection_string", through)
        bus = ServiceBus.from_connection_string(f"Endpoint=sb://example.servicebus.windows.net/;{KEY}")
        with pytest.raises(TransientError, match=r"example.*did not answer within"):
            bus.sender("q").open()


def test_a_peer_that_trickles_holds_up_nobody() -> None:
    def trickle(listener: socket.socket, came: threading.Event, stop: threading.Event) -> None:
        peer, _ = listener.accept()
        came.set()
        with peer:
            for octet in b"AMQP\x03\x01\x00\x00\x00\x00\xff\xff" + bytes(10_000):
                if stop.wait(SOON / 10):
                    return
                try:
                    peer.send(bytes([octet]))
                except OSError:
                    return

    came, stop, until = threading.Event(), threading.Event(), time.monotonic() + 60
    with socket.create_server(("127.0.0.1", 0)) as listener, none_left():
        thread = threading.Thread(target=trickle, args=(listener, came, stop), daemon=True)
        thread.start()
        while not came.is_set():  # on a busy machine the time may be over before anybody has connected
            assert time.monotonic() < until
            with pytest.raises(TransientError, match="did not answer within"):
                bus_at(listener.getsockname()[1]).sender("q").open()
        stop.set()
        thread.join()


def test_a_name_that_nobody_resolves_in_time_holds_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: release.wait(60))
    try:
        bus = ServiceBus.from_connection_string(f"Endpoint=sb://unresolved.example;{KEY}")
        with pytest.raises(TransientError, match=r"DNS did not answer for unresolved\.example") as raised:
            bus.sender("q").open()
        assert "DNS" in (raised.value.hint or "")
    finally:
        release.set()


def test_a_name_that_does_not_exist_is_told_in_plain_words() -> None:
    bus = ServiceBus.from_connection_string(f"Endpoint=sb://nowhere.invalid;{KEY}")
    with pytest.raises(TransientError, match=r"the name nowhere\.invalid cannot be resolved|DNS did not answer"):
        bus.sender("q").open()


# The sender's own threads


@pytest.fixture
def emulator(monkeypatch: pytest.MonkeyPatch) -> Iterator[ServiceBusEmulator]:
    """Its answers may take their time."""
    monkeypatch.setattr(common.servicebus.sender, "OPEN_TIMEOUT", 60.0)
    monkeypatch.setattr(common.servicebus.sender, "SEND_TIMEOUT", 60.0)
    with ServiceBusEmulator() as running:
        running.admin.create("q", QueueDescription())
        running.admin.create("lanes", QueueDescription(requires_session=True))
        yield running


def test_a_sender_keeps_no_thread_which_could_lose_a_delivery(emulator: ServiceBusEmulator) -> None:
    with closing(ServiceBus.from_connection_string(emulator.connection_string).sender("q")) as sender:
        sender.send([Message(b"x", "x")])
        handle: Any = sender._sender
        assert handle._handler._keep_alive_thread is None


# A caller's own time


def test_no_batch_is_sent_once_the_callers_time_is_up_and_those_before_it_are_told(
    emulator: ServiceBusEmulator,
) -> None:
    def left() -> float:
        return 60 - 30 * active(emulator, "lanes")

    sent = [Message(b"x", str(number), session_id=f"s{number}") for number in range(5)]
    with closing(ServiceBus.from_connection_string(emulator.connection_string).sender("lanes")) as sender:
        with pytest.raises(OutOfTime, match="sending to lanes") as raised:
            sender.send(sent, left=left)
        assert raised.value.accepted == {0, 1}
        assert active(emulator, "lanes") == 2
        sender.send(sent[2:], left=lambda: 60)
    assert active(emulator, "lanes") == 5


def test_no_batch_is_waited_for_longer_than_the_callers_time(emulator: ServiceBusEmulator) -> None:
    with closing(ServiceBus.from_connection_string(emulator.connection_string).sender("q")) as sender:
        sender.send([Message(b"x", "first")])
        until = time.monotonic() + SOON / 2
        with emulator.inject(AnswersDelayed(60_000)), pytest.raises(OutOfTime) as raised:
            sender.send([Message(b"x", "second")], left=lambda: until - time.monotonic())
        assert raised.value.accepted == set()
        sender.send([Message(b"x", "third")])


def active(emulator: ServiceBusEmulator, queue: str) -> int:
    return emulator.admin.get(queue).counts.active


def test_a_socket_that_is_cut_closes_with_a_reset() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as one:
        peer, _ = server.accept()
        guard = Guard("a namespace")
        guard.handle = SimpleNamespace(
            _handler=SimpleNamespace(_connection=SimpleNamespace(_transport=SimpleNamespace(sock=one)))
        )
        guard.within(5.0, "sending").cut()
        assert struct.unpack("ii", one.getsockopt(socket.SOL_SOCKET, socket.SO_LINGER, 8)) == (1, 0)
        peer.close()
