"""Behind TLS: who is convinced by the certificate, who is not, and who never finishes saying hello."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import socket
import ssl
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from azure.core.exceptions import ServiceRequestError
from azure.servicebus import ServiceBusClient, ServiceBusMessage, TransportType
from azure.servicebus._base_handler import ServiceBusSharedKeyCredential
from azure.servicebus.aio import ServiceBusClient as AsyncServiceBusClient
from azure.servicebus.exceptions import ServiceBusError
from azure.servicebus.management import ServiceBusAdministrationClient

from emulators.certificates import TlsSettings
from emulators.servicebus import amqp_server
from emulators.servicebus.__main__ import main
from emulators.servicebus.administration import https_server
from emulators.servicebus.description import QueueDescription
from emulators.servicebus.server import DEVELOPMENT_KEY, ROOT_POLICY, ServiceBusEmulator
from emulators.servicebus.transport import doorway
from tests.emulators.servicebus.conftest import forget_sockets

from .leaks import leaks

SASL_HEADER = b"AMQP\x03\x01\x00\x00"
SOON = 0.2
"""Seconds until a time-out that a test waits for."""


@pytest.fixture(scope="module")
def wrong_ca(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("tls") / "wrong.pem"
    path.write_text(TlsSettings.self_made().authority)
    return str(path)


@pytest.fixture(scope="module")
def emulator(tls: TlsSettings) -> Iterator[ServiceBusEmulator]:
    with ServiceBusEmulator(tls=tls) as running:
        running.admin.create("q", QueueDescription())
        yield running
    forget_sockets()


def options(emulator: ServiceBusEmulator, ca: str, host: str = "localhost") -> dict[str, Any]:
    """How a client is told where the emulator is; all of it is public."""
    return {
        "conn_str": emulator.secure_connection_string,
        "custom_endpoint_address": f"sb://{host}:{emulator.tls_port}",
        "transport_type": TransportType.Amqp,
        "connection_verify": ca,
        "retry_total": 0,
        "keep_alive": 0,
    }


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_the_synchronous_client_sends_and_receives(emulator: ServiceBusEmulator, ca: str, host: str) -> None:
    with (
        ServiceBusClient.from_connection_string(**options(emulator, ca, host)) as client,
        client.get_queue_sender("q") as sender,
        client.get_queue_receiver("q") as receiver,
    ):
        sender.send_messages(ServiceBusMessage("x" * 200_000))
        (message,) = receiver.receive_messages(1, max_wait_time=10)
        receiver.complete_message(message)
        assert len(str(message)) == 200_000
    assert emulator.admin.get("q").counts.active == 0


def test_the_asyncio_client_sends_and_receives(emulator: ServiceBusEmulator, ca: str) -> None:
    async def exchange() -> str:
        async with (
            AsyncServiceBusClient.from_connection_string(**options(emulator, ca)) as client,
            client.get_queue_sender("q") as sender,
            client.get_queue_receiver("q") as receiver,
        ):
            await sender.send_messages(ServiceBusMessage("async"))
            (message,) = await receiver.receive_messages(1, max_wait_time=10)
            await receiver.complete_message(message)
            return str(message)

    assert asyncio.run(exchange()) == "async"


def test_another_authority_convinces_nobody(emulator: ServiceBusEmulator, wrong_ca: str) -> None:
    with (
        ServiceBusClient.from_connection_string(**options(emulator, wrong_ca)) as client,
        pytest.raises(ServiceBusError, match="CERTIFICATE_VERIFY_FAILED"),
        client.get_queue_sender("q"),
    ):
        pass


def test_a_host_that_the_certificate_does_not_name_convinces_nobody(ca: str, tls: TlsSettings, tmp_path: Path) -> None:
    elsewhere = TlsSettings.self_made(["elsewhere.example"])
    (tmp_path / "ca.pem").write_text(elsewhere.authority)
    with (
        ServiceBusEmulator(tls=elsewhere) as emulator,
        ServiceBusClient.from_connection_string(**options(emulator, str(tmp_path / "ca.pem"))) as client,
        pytest.raises(ServiceBusError, match="CERTIFICATE_VERIFY_FAILED"),
        client.get_queue_sender("q"),
    ):
        pass


def test_administration_is_done_over_https(emulator: ServiceBusEmulator, ca: str) -> None:
    with ServiceBusAdministrationClient.from_connection_string(
        emulator.secure_connection_string, connection_verify=ca
    ) as admin:
        admin.create_queue("made")
        assert "made" in [queue.name for queue in admin.list_queues()]
        admin.delete_queue("made")


def test_the_documentations_way_to_administrate_works(
    emulator: ServiceBusEmulator, ca: str, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (Path(__file__).parents[4] / "docs" / "emulators" / "README.md").read_text()
    [program] = [each for each in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "localhost:5301;" in each]
    exec(program.replace("5301", str(emulator.https_port)).replace('"ca.pem"', repr(ca)), {})
    assert capsys.readouterr().out == "0\n['events']\n"


def test_documents_had_over_https_name_addresses_there(emulator: ServiceBusEmulator, ca: str) -> None:
    address = f"https://127.0.0.1:{emulator.https_port}/q"
    headers = {"Authorization": ServiceBusSharedKeyCredential(ROOT_POLICY, DEVELOPMENT_KEY).get_token(address).token}
    context = ssl.create_default_context(cafile=ca)
    with urllib.request.urlopen(urllib.request.Request(address, headers=headers), context=context) as answer:
        assert f"<id>{address}</id>" in answer.read().decode()


def test_administration_is_not_done_with_another_authority(emulator: ServiceBusEmulator, wrong_ca: str) -> None:
    with (
        ServiceBusAdministrationClient.from_connection_string(
            emulator.secure_connection_string, connection_verify=wrong_ca, retry_total=0
        ) as admin,
        pytest.raises(ServiceRequestError, match="CERTIFICATE_VERIFY_FAILED"),
    ):
        admin.get_queue("q")


@pytest.mark.parametrize("asked", ["tls_port", "https_port", "secure_connection_string"])
def test_without_a_certificate_there_is_no_port_for_it(asked: str) -> None:
    with ServiceBusEmulator() as plain, pytest.raises(RuntimeError, match="no certificate"):
        getattr(plain, asked)


def connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=30)


def read_to_the_end(client: socket.socket) -> bytes:
    """Everything until the server hangs up, politely or not."""
    heard = b""
    try:
        while data := client.recv(4096):
            heard += data
    except ConnectionError:
        pass
    return heard


def secure_ports(emulator: ServiceBusEmulator) -> tuple[int, int]:
    return emulator.tls_port, emulator.https_port


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize(
    "said", [SASL_HEADER, b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n", b"\x16\x03\x01\x00\x05junk!"]
)
def test_clear_text_on_a_secure_port_is_hung_up_on(emulator: ServiceBusEmulator, which: int, said: bytes) -> None:
    with connect(secure_ports(emulator)[which]) as client:
        client.sendall(said)
        heard = read_to_the_end(client)
    assert not heard.startswith((b"AMQP", b"HTTP"))


def test_tls_on_the_plain_port_is_hung_up_on(emulator: ServiceBusEmulator) -> None:
    with (
        connect(emulator.port) as client,
        pytest.raises((ssl.SSLError, ConnectionError)),
        ssl.create_default_context().wrap_socket(client, server_hostname="localhost"),
    ):
        pass


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize(("newest", "agreed"), [
    (ssl.TLSVersion.TLSv1_3, "TLSv1.3"), (ssl.TLSVersion.TLSv1_2, "TLSv1.2"), (ssl.TLSVersion.TLSv1_1, None),
])  # fmt: skip
@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
def test_tls_is_1_2_or_newer(
    emulator: ServiceBusEmulator, tls: TlsSettings, which: int, newest: ssl.TLSVersion, agreed: str | None
) -> None:
    context = ssl.create_default_context(cadata=tls.authority)
    context.set_ciphers("DEFAULT@SECLEVEL=0")
    context.minimum_version = ssl.TLSVersion.TLSv1
    context.maximum_version = newest
    with connect(secure_ports(emulator)[which]) as client:
        if agreed is None:
            with pytest.raises(ssl.SSLError):
                context.wrap_socket(client, server_hostname="localhost")
        else:
            with context.wrap_socket(client, server_hostname="localhost") as secured:
                assert secured.version() == agreed


def hello(tls: TlsSettings) -> bytes:
    """A client's first flight, after which the server waits."""
    sent, heard = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = ssl.create_default_context(cadata=tls.authority).wrap_bio(heard, sent, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return sent.read()


def parts_of_a_handshake(tls: TlsSettings) -> list[bytes]:
    return [b"", hello(tls)[:20], hello(tls)]


def test_an_unfinished_handshake_is_hung_up_on(tls: TlsSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(amqp_server, "HANDSHAKE_TIMEOUT", SOON)
    monkeypatch.setattr(https_server, "PATIENCE", SOON)
    with ServiceBusEmulator(tls=tls) as emulator:
        for port in secure_ports(emulator):
            for part in parts_of_a_handshake(tls):
                with connect(port) as client:
                    client.sendall(part)
                    assert not read_to_the_end(client).startswith((b"AMQP", b"HTTP"))


def test_silence_is_hung_up_on_behind_tls_as_before_it(tls: TlsSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doorway, "HANDSHAKE_TIMEOUT", SOON)
    context = ssl.create_default_context(cadata=tls.authority)
    with ServiceBusEmulator(tls=tls) as emulator:
        with connect(emulator.port) as client:
            assert read_to_the_end(client) == b""
        with connect(emulator.tls_port) as client, context.wrap_socket(client, server_hostname="localhost") as secured:
            assert read_to_the_end(secured) == b""


def test_unfinished_handshakes_hold_up_nobody(emulator: ServiceBusEmulator, tls: TlsSettings, ca: str) -> None:
    waiting = [connect(port) for port in secure_ports(emulator) for _ in range(20)]
    try:
        for each in waiting[::2]:
            each.sendall(hello(tls))
        with ServiceBusAdministrationClient.from_connection_string(
            emulator.secure_connection_string, connection_verify=ca
        ) as admin:
            assert admin.get_queue("q").name == "q"
        with (
            ServiceBusClient.from_connection_string(**options(emulator, ca)) as client,
            client.get_queue_sender("q"),
        ):
            pass
    finally:
        for each in waiting:
            each.close()


def test_stopping_in_the_middle_of_handshakes_leaves_nothing_behind(
    tls: TlsSettings, caplog: pytest.LogCaptureFixture
) -> None:
    clients: list[socket.socket] = []

    def stop_with_guests() -> None:
        with ServiceBusEmulator(tls=tls) as emulator:
            for port in secure_ports(emulator):
                for part in parts_of_a_handshake(tls):
                    clients.append(connect(port))
                    clients[-1].sendall(part)

    assert leaks(stop_with_guests) == []
    for client in clients:
        read_to_the_end(client)
        client.close()
    assert caplog.records == []


def test_the_program_makes_a_certificate_and_tells_its_authority(tmp_path: Path) -> None:
    authority = tmp_path / "ca.pem"
    ports = ["--port", "0", "--http-port", "0", "--tls-port", "0", "--https-port", "0"]
    program = subprocess.Popen(
        [sys.executable, "-m", "emulators.servicebus", *ports, "--json", "--tls", "--tls-ca-out", str(authority)],
        stdout=subprocess.PIPE,
        text=True,
    )
    with program:
        assert program.stdout is not None
        facts = json.loads(program.stdout.readline())
        context = ssl.create_default_context(cafile=str(authority))
        for port in (facts["tls_port"], facts["https_port"]):
            with connect(port) as client, context.wrap_socket(client, server_hostname="localhost") as secured:
                assert secured.version() == "TLSv1.3"
        assert f":{facts['https_port']};" in facts["secure_connection_string"]
        program.send_signal(signal.SIGTERM)
        assert program.wait(30) == 0


def test_an_authority_is_not_written_without_tls(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--tls-ca-out", "ca.pem"])
    assert "--tls-ca-out needs --tls" in capsys.readouterr().err


def test_an_authority_that_cannot_be_written_is_told(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["--port", "0", "--http-port", "0", "--tls", "--tls-ca-out", str(tmp_path / "no" / "ca.pem")]) == 1
    assert "ca.pem" in capsys.readouterr().err
