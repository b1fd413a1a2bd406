"""Each named fault, as Azure's own client meets it: what breaks, what remains, and that nothing is lost or doubled beyond that."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import socket
import ssl
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage, ServiceBusReceiver, ServiceBusSender, aio
from azure.servicebus.exceptions import (
    MessageLockLostError,
    MessagingEntityDisabledError,
    ServiceBusError,
    ServiceBusQuotaExceededError,
    ServiceBusServerBusyError,
    SessionLockLostError,
)

from emulators.certificates import TlsSettings
from emulators.servicebus.__main__ import main
from emulators.servicebus.amqp.frames import SASL_HEADER
from emulators.servicebus.description import QueueDescription
from emulators.servicebus.faults import catalogue as faults
from emulators.servicebus.faults.injection import Fault
from emulators.servicebus.server import ServiceBusEmulator
from tests.emulators.servicebus.conftest import forget_sockets
from tests.worlds.ports import free_port

pytestmark = pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")  # the SDK forgets failed connections


@pytest.fixture(scope="module")
def emulator() -> Iterator[ServiceBusEmulator]:
    with ServiceBusEmulator(port=free_port(), http_port=free_port()) as running:
        yield running
    forget_sockets()


@pytest.fixture
def queue(emulator: ServiceBusEmulator, request: pytest.FixtureRequest) -> str:
    name = re.sub(r"\W+", "-", str(request.node.name)).strip("-")
    detecting = QueueDescription(
        requires_duplicate_detection="exactly_once" in name, requires_session="session" in name
    )
    emulator.admin.create(name, detecting)
    return name


@pytest.fixture
def client(emulator: ServiceBusEmulator) -> Iterator[ServiceBusClient]:
    """Gives up at once."""
    with ServiceBusClient.from_connection_string(emulator.connection_string, retry_total=0, keep_alive=0) as giving_up:
        yield giving_up


@pytest.fixture
def patient(emulator: ServiceBusEmulator) -> Iterator[ServiceBusClient]:
    """Tries again and again, without waiting long."""
    with ServiceBusClient.from_connection_string(
        emulator.connection_string, retry_total=20, retry_backoff_factor=0.01, retry_backoff_max=0.05, keep_alive=0
    ) as trying:
        yield trying


def take(receiver: ServiceBusReceiver, count: int = 1) -> list[Any]:
    messages = receiver.receive_messages(count, max_wait_time=5)
    assert len(messages) == count
    return list(messages)


def send_often(sender: ServiceBusSender, body: str, times: int) -> None:
    for _ in range(times):
        sender.send_messages(ServiceBusMessage(body))


def rest(emulator: ServiceBusEmulator, client: ServiceBusClient, queue: str) -> list[str]:
    """What is in the queue, taken out."""
    bodies: list[str] = []
    with client.get_queue_receiver(queue, receive_mode="receiveanddelete") as receiver:
        while emulator.admin.get(queue).counts.active:
            bodies += [str(message) for message in receiver.receive_messages(100, max_wait_time=2)]
    return bodies


# Refusals


def test_a_busy_server_refuses_every_second_send_and_the_rest_is_there(
    emulator: ServiceBusEmulator, client: ServiceBusClient, queue: str
) -> None:
    with client.get_queue_sender(queue) as sender, emulator.inject(faults.ServerBusy(60, 2, queue.upper())):
        for number in range(4):
            if number % 2:
                with pytest.raises(ServiceBusServerBusyError, match=r"50009\. Please wait 2 seconds"):
                    sender.send_messages(ServiceBusMessage(str(number)))
            else:
                sender.send_messages(ServiceBusMessage(str(number)))
    assert rest(emulator, client, queue) == ["0", "2"]


def test_a_busy_server_refuses_to_deliver_and_to_manage_until_it_is_idle_again(
    emulator: ServiceBusEmulator, client: ServiceBusClient, queue: str
) -> None:
    with client.get_queue_sender(queue) as sender:
        sender.send_messages(ServiceBusMessage("kept"))
    with client.get_queue_receiver(queue) as receiver:
        with emulator.inject(faults.ServerBusy(60)):
            with pytest.raises(ServiceBusServerBusyError):
                receiver.peek_messages()
            with pytest.raises(ServiceBusServerBusyError):
                receiver.receive_messages(1, max_wait_time=5)
        with emulator.inject(faults.ServerBusy(0)):
            assert [str(m) for m in receiver.peek_messages()] == ["kept"]
    with client.get_queue_receiver(queue) as receiver:
        (message,) = take(receiver)
        assert (str(message), message.delivery_count) == ("kept", 0)
        receiver.complete_message(message)


def test_one_entity_refuses_with_the_condition_asked_for(
    emulator: ServiceBusEmulator, client: ServiceBusClient, queue: str
) -> None:
    emulator.admin.create("beside", QueueDescription())
    refused = faults.SendsRefused(queue, "com.microsoft:entity-disabled", 1)
    with client.get_queue_sender(queue) as sender, client.get_queue_sender("beside") as other, emulator.inject(refused):
        other.send_messages(ServiceBusMessage("beside"))
        with pytest.raises(MessagingEntityDisabledError):
            sender.send_messages([ServiceBusMessage("a"), ServiceBusMessage("b")])
        sender.send_messages(ServiceBusMessage("c"))
    assert rest(emulator, client, queue) == ["c"]


def test_a_send_is_refused_for_one_message_in_it(
    emulator: ServiceBusEmulator, client: ServiceBusClient, queue: str
) -> None:
    refused = faults.SendsRefused(queue, "com.microsoft:entity-disabled", None, "bad")
    with client.get_queue_sender(queue) as sender, emulator.inject(refused):
        sender.send_messages([ServiceBusMessage("a", message_id="good"), ServiceBusMessage("b")])
        for held in (
            [ServiceBusMessage("c"), ServiceBusMessage("d", message_id="bad")],
            [ServiceBusMessage("e", message_id="bad")],
        ):
            with pytest.raises(MessagingEntityDisabledError):
                sender.send_messages(held)
        sender.send_messages(ServiceBusMessage("f"))
    assert rest(emulator, client, queue) == ["a", "b", "f"]


def test_a_full_entity_takes_nothing_and_gives_what_it_has(
    emulator: ServiceBusEmulator, client: ServiceBusClient, queue: str
) -> None:
    """Row 48."""
    with client.get_queue_sender(queue) as sender:
        sender.send_messages(ServiceBusMessage("before"))
        with emulator.inject(faults.EntityFull(queue)):
            with pytest.raises(ServiceBusQuotaExceededError, match="maximum entity size"):
                sender.send_messages(ServiceBusMessage("amid"))
            assert rest(emulator, client, queue) == ["before"]
        sender.send_messages(ServiceBusMessage("after"))
    assert rest(emulator, client, queue) == ["after"]


# Locks


def test_a_lost_lock_is_told_when_it_is_settled_and_the_message_comes_again(
    emulator: ServiceBusEmulator, client: ServiceBusClient, queue: str
) -> None:
    with client.get_queue_sender(queue) as sender, client.get_queue_receiver(queue) as receiver:
        sender.send_messages([ServiceBusMessage("a"), ServiceBusMessage("b")])
        first, second = take(receiver, 2)
        with emulator.inject(faults.LocksLost(queue)):
            with pytest.raises(MessageLockLostError):
                receiver.complete_message(first)
            receiver.complete_message(second)
        (again,) = take(receiver)
        assert (str(again), again.delivery_count) == ("a", 1)
        receiver.complete_message(again)
    assert emulator.admin.get(queue).counts.active == 0


def test_a_lost_session_is_told_when_a_message_is_settled_and_can_be_accepted_again(
    emulator: ServiceBusEmulator, client: ServiceBusClient, queue: str
) -> None:
    with client.get_queue_sender(queue) as sender:
        sender.send_messages([ServiceBusMessage(body, session_id="s") for body in "ab"])
    with client.get_queue_receiver(queue, session_id="s") as receiver:
        first, _ = take(receiver, 2)
        with emulator.inject(faults.LocksLost(queue)), pytest.raises(SessionLockLostError):
            receiver.complete_message(first)
    with client.get_queue_receiver(queue, session_id="s") as receiver:
        messages = take(receiver, 2)
        assert [str(m) for m in messages] == ["a", "b"]
        for message in messages:
            receiver.complete_message(message)
    assert emulator.admin.get(queue).counts.active == 0


# Links and connections


def test_a_detached_sender_is_attached_again_and_loses_nothing(
    emulator: ServiceBusEmulator, patient: ServiceBusClient, queue: str
) -> None:
    with patient.get_queue_sender(queue) as sender:
        sender.send_messages(ServiceBusMessage("a"))
        with emulator.inject(faults.LinksDetached(queue)):
            sender.send_messages(ServiceBusMessage("b"))
    assert rest(emulator, patient, queue) == ["a", "b"]


def test_links_may_be_detached_again_and_again(
    emulator: ServiceBusEmulator, patient: ServiceBusClient, queue: str
) -> None:
    sent = [str(number) for number in range(20)]
    with patient.get_queue_sender(queue) as sender, emulator.inject(faults.LinksDetached(every=0.02)):
        for body in sent:
            sender.send_messages(ServiceBusMessage(body))
    assert list(dict.fromkeys(rest(emulator, patient, queue))) == sent


def test_with_duplicate_detection_sends_over_cut_connections_arrive_exactly_once(
    emulator: ServiceBusEmulator, patient: ServiceBusClient, queue: str
) -> None:
    sent = [str(number) for number in range(15)]
    with (
        emulator.inject(faults.ConnectionCutAtRandom(1500, times=6, seed=7)),
        patient.get_queue_sender(queue) as sender,
    ):
        for body in sent:
            sender.send_messages(ServiceBusMessage(body, message_id=body))
    assert rest(emulator, patient, queue) == sent


@pytest.mark.parametrize("count", [0, 7, 300])
def test_a_cut_ends_one_connection_in_the_middle_of_what_it_was_told(
    emulator: ServiceBusEmulator, client: ServiceBusClient, queue: str, count: int
) -> None:
    with client.get_queue_sender(queue) as sender:
        sender.send_messages(ServiceBusMessage("before"))
        with emulator.inject(faults.ConnectionCutAfter(count)), pytest.raises(ServiceBusError):
            send_often(sender, "amid", 100)
        sender.send_messages(ServiceBusMessage("after"))
    bodies = rest(emulator, client, queue)
    assert (bodies[0], bodies[-1]) == ("before", "after")


def test_cut_connections_are_made_again(emulator: ServiceBusEmulator, patient: ServiceBusClient, queue: str) -> None:
    with patient.get_queue_sender(queue) as sender:
        sender.send_messages(ServiceBusMessage("a"))
        with emulator.inject(faults.ConnectionsCut()):
            sender.send_messages(ServiceBusMessage("b"))
    assert rest(emulator, patient, queue) == ["a", "b"]


def test_a_restart_keeps_the_port_the_messages_and_their_locks(
    emulator: ServiceBusEmulator, patient: ServiceBusClient, queue: str
) -> None:
    port = emulator.port
    with patient.get_queue_sender(queue) as sender, patient.get_queue_receiver(queue) as receiver:
        sender.send_messages([ServiceBusMessage("locked"), ServiceBusMessage("ready")])
        (locked,) = take(receiver)
        with emulator.inject(faults.ServerRestart(60)), pytest.raises(ServiceBusError):
            sender.send_messages(ServiceBusMessage("refused"))
        assert emulator.port == port
        (ready,) = take(receiver)
        assert (str(ready), ready.delivery_count) == ("ready", 0)
        receiver.complete_message(ready)
        receiver.complete_message(locked)
    assert emulator.admin.get(queue).counts.active == 0


def test_a_client_that_tries_again_outlasts_a_restart(
    emulator: ServiceBusEmulator, patient: ServiceBusClient, queue: str
) -> None:
    with patient.get_queue_sender(queue) as sender:
        sender.send_messages(ServiceBusMessage("a"))
        with emulator.inject(faults.ServerRestart(0.1)):
            sender.send_messages(ServiceBusMessage("b"))
    assert rest(emulator, patient, queue) == ["a", "b"]


# Frames


@pytest.mark.parametrize("fault", [faults.RoundTripAdded, faults.AnswersDelayed])
def test_answers_come_late_and_whole(
    emulator: ServiceBusEmulator, client: ServiceBusClient, fault: Callable[[float], Fault], queue: str
) -> None:
    with client.get_queue_sender(queue) as sender, emulator.inject(fault(150)):
        began = time.monotonic()
        sender.send_messages(ServiceBusMessage("a"))
        assert time.monotonic() - began >= 0.15
    assert rest(emulator, client, queue) == ["a"]


def test_a_slow_entity_answers_when_it_has_taken_what_was_sent(
    emulator: ServiceBusEmulator, client: ServiceBusClient, queue: str
) -> None:
    with client.get_queue_sender(queue) as sender, emulator.inject(faults.EntitySlow(queue, 100_000, 50)):
        began = time.monotonic()
        sender.send_messages(ServiceBusMessage(b"x" * 30_000))
        assert time.monotonic() - began >= 0.35
    with client.get_queue_sender(queue) as sender, emulator.inject(faults.EntitySlow("another", 1)):
        sender.send_messages(ServiceBusMessage("at once"))
    assert len(rest(emulator, client, queue)) == 2


def test_deliveries_come_late_and_in_order(emulator: ServiceBusEmulator, client: ServiceBusClient, queue: str) -> None:
    with client.get_queue_sender(queue) as sender, client.get_queue_receiver(queue) as receiver:
        with emulator.inject(faults.DeliveriesDelayed(2_000)):
            began = time.monotonic()
            sender.send_messages([ServiceBusMessage(str(n)) for n in range(10)])
            assert time.monotonic() - began < 2
            messages = take(receiver, 10)
            assert time.monotonic() - began >= 2
        assert [str(m) for m in messages] == [str(n) for n in range(10)]
        for message in messages:
            receiver.complete_message(message)
    assert emulator.admin.get(queue).counts.active == 0


def test_a_settlement_whose_answer_is_lost_was_applied(
    emulator: ServiceBusEmulator, client: ServiceBusClient, queue: str
) -> None:
    with client.get_queue_sender(queue) as sender, client.get_queue_receiver(queue) as receiver:
        sender.send_messages(ServiceBusMessage("a"))
        (message,) = take(receiver)
        lost: Any = receiver
        with emulator.inject(faults.SettlementAnswersLost(1)), pytest.raises(Exception, match=r"(?i)time"):
            lost._handler.settle_messages(
                message._delivery_id,
                message.lock_token.bytes_le,
                "accepted",
                await_outcome=True,
                outcome_timeout=0.3,
            )
        sender.send_messages(ServiceBusMessage("b"))
        (message,) = take(receiver)
        assert str(message) == "b"
        receiver.complete_message(message)
    assert emulator.admin.get(queue).counts.active == 0


def test_merged_answers_settle_every_message_all_the_same(emulator: ServiceBusEmulator, queue: str) -> None:
    """Reference 5.4: slowly, as each of the SDK's coroutines reads for itself."""

    async def scenario() -> None:
        async with (
            aio.ServiceBusClient.from_connection_string(emulator.connection_string, retry_total=0) as client,
            client.get_queue_sender(queue) as sender,
            client.get_queue_receiver(queue) as receiver,
        ):
            await sender.send_messages([ServiceBusMessage(str(n)) for n in range(20)])
            messages = await receiver.receive_messages(20, max_wait_time=5)
            with emulator.inject(faults.SettlementAnswersMerged(5)):
                await asyncio.gather(*(receiver.complete_message(message) for message in messages))

    asyncio.run(scenario())
    assert emulator.admin.get(queue).counts.active == 0


# Silence


def unanswered(port: int, said: bytes, context: ssl.SSLContext | None = None, *, least: int = 0) -> bytes:
    """What comes back of `said` until nothing more does for a while, and at least so many octets, whenever they come; the peer has not hung up."""
    with socket.create_connection(("127.0.0.1", port)) as plain:
        plain.settimeout(60 if least else 0.2)
        heard = b""
        with contextlib.suppress(TimeoutError):
            connection = plain if context is None else context.wrap_socket(plain)
            connection.sendall(said)
            while more := connection.recv(1 << 16):
                heard += more
                if len(heard) >= least:
                    connection.settimeout(0.2)
            raise AssertionError("the peer hung up")
        return heard


def test_a_port_that_takes_connections_and_says_nothing_does_so_as_often_as_asked(
    emulator: ServiceBusEmulator, client: ServiceBusClient, queue: str
) -> None:
    with emulator.inject(faults.Mute("accept", 2)):
        for _ in range(2):
            assert unanswered(emulator.port, SASL_HEADER) == b""
        assert unanswered(emulator.port, SASL_HEADER, least=1).startswith(SASL_HEADER)
        with client.get_queue_sender(queue) as sender:
            sender.send_messages(ServiceBusMessage("heard"))


@pytest.mark.parametrize("stage", ["accept", "tls"])
def test_a_handshake_is_not_answered_and_the_next_one_is(tls: TlsSettings, stage: str) -> None:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with ServiceBusEmulator(tls=tls) as emulator, emulator.inject(faults.Mute(stage)):
        if stage == "tls":
            assert unanswered(emulator.port, SASL_HEADER, least=1).startswith(SASL_HEADER)
        assert unanswered(emulator.tls_port, SASL_HEADER, context) == b""
        assert unanswered(emulator.tls_port, SASL_HEADER, context, least=1).startswith(SASL_HEADER)


def test_the_management_api_says_nothing_or_half_of_it(emulator: ServiceBusEmulator) -> None:
    request = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    with emulator.inject(faults.Mute("http")), emulator.inject(faults.Mute("half_answer")):
        assert unanswered(emulator.http_port, request) == b""
        half = unanswered(emulator.http_port, request, least=1)
        with urllib.request.urlopen(f"http://127.0.0.1:{emulator.http_port}/") as whole:
            assert len(whole.read()) // 2 == len(half.partition(b"\r\n\r\n")[2])


# Names


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("server_busy:2.5", faults.ServerBusy),
        ("server_busy:2,3,t/Subscriptions/a", faults.ServerBusy),
        ("sends_refused:q,amqp:not-allowed,2", faults.SendsRefused),
        ("sends_refused:q,amqp:not-allowed,2,id", faults.SendsRefused),
        ("entity_full:q", faults.EntityFull),
        ("entity_slow:q,50000,10", faults.EntitySlow),
        ("locks_lost:q,3", faults.LocksLost),
        ("links_detached", faults.LinksDetached),
        ("links_detached:*,0.5", faults.LinksDetached),
        ("connection_cut_after:1000,2", faults.ConnectionCutAfter),
        ("connection_cut_at_random:1000,2,42", faults.ConnectionCutAtRandom),
        ("connections_cut", faults.ConnectionsCut),
        ("server_restart:1", faults.ServerRestart),
        ("mute:cbs", faults.Mute),
        ("mute:accept,0,20", faults.Mute),
        ("round_trip_added:20", faults.RoundTripAdded),
        ("answers_delayed:20", faults.AnswersDelayed),
        ("deliveries_delayed:20", faults.DeliveriesDelayed),
        ("settlement_answers_lost", faults.SettlementAnswersLost),
        ("settlement_answers_merged:1", faults.SettlementAnswersMerged),
    ],
)
def test_a_fault_is_made_from_its_name(text: str, kind: type[Fault]) -> None:
    assert type(faults.parse(text)) is kind


def test_no_fault_is_without_a_name_and_an_explanation() -> None:
    named = {make for make, _, _ in faults.NAMES.values()}
    kinds = {kind for name, kind in vars(faults).items() if isinstance(kind, type) and issubclass(kind, Fault)}
    assert {kind for kind in kinds if not kind.__name__.startswith("_")} - {Fault} == named
    assert all(kind.__doc__ for kind in named)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("busy", "there is no fault 'busy'; the faults are server_busy:SECONDS"),
        ("server_busy", "is written server_busy:SECONDS"),
        ("server_busy:soon", "is written server_busy:SECONDS"),
        ("server_busy:1,0", "of every 0 requests none can be refused"),
        ("mute:listening", "a connection falls silent at accept, tls, header,.* not at 'listening'"),
        ("connections_cut:now", "is written connections_cut$"),
    ],
)
def test_what_is_no_fault_is_refused_with_what_is(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        faults.parse(text)


def test_the_program_begins_with_the_faults_and_credits_asked_for() -> None:
    options = ["--port", "0", "--http-port", "0", "--queue", "q", "--queue", "free", "--json"]
    options += ["--fault", "entity_full:q", "--fault", "round_trip_added:1", "--credits-per-second", "1"]
    command = [sys.executable, "-m", "emulators.servicebus", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        address = json.loads(program.stdout.readline())["connection_string"]
        with (
            ServiceBusClient.from_connection_string(address, retry_total=0, keep_alive=0) as client,
            client.get_queue_sender("q") as sender,
            client.get_queue_sender("free") as free,
        ):
            with pytest.raises(ServiceBusQuotaExceededError):
                sender.send_messages(ServiceBusMessage("a"))
            free.send_messages([ServiceBusMessage(str(n)) for n in range(100)])
            with pytest.raises(ServiceBusServerBusyError):
                free.send_messages(ServiceBusMessage("b"))
        program.terminate()


@pytest.mark.parametrize("option", [("--fault", "entity_fool:q"), ("--credits-per-second", "0")])
def test_the_program_says_what_it_does_not_know(option: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(option)
    assert option[0] in capsys.readouterr().err


@pytest.mark.emulator_only("the real service cannot be told to cut a connection")
@pytest.mark.parametrize("count", [0, 8, 20])
def test_a_connection_that_is_cut_in_its_handshake_is_closed(emulator: ServiceBusEmulator, count: int) -> None:
    with (
        emulator.inject(faults.ConnectionCutAfter(count)),
        socket.create_connection(("127.0.0.1", emulator.port), timeout=30) as client,
    ):
        client.sendall(b"AMQP\x03\x01\x00\x00")
        said = b""
        while data := client.recv(100):
            said += data
    assert len(said) == count
