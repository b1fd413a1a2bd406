"""A namespace at the other end of a narrow uplink, over TLS: what fills a batch goes through, although it takes seconds."""

from __future__ import annotations

import functools
import select
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from azure.servicebus import ServiceBusClient, TransportType
from azure.servicebus._pyamqp import _transport

from common.message import Message
from common.servicebus.namespace import ServiceBus
from common.servicebus.settings import ServiceBusSettings
from emulators.certificates import TlsSettings
from emulators.servicebus.description import QueueDescription
from emulators.servicebus.server import ServiceBusEmulator
from tests.worlds.tcp_relay import Passage, TcpRelay

SEND_BUFFER = 65_536
"""Octets that the system takes off a sender's hands: those of a young connection over a WAN."""


class Narrow(TcpRelay):
    """Passes so many octets a second to the server, each connection."""

    def __init__(self, port_behind: int, pace: float) -> None:
        super().__init__(port_behind)
        self._pace = pace
        self._ended = threading.Event()
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        self.passed = 0

    def _forth(self, passage: Passage) -> None:
        """A thread that comes late passes on at once what it should have passed on before, so the pace is kept."""
        due = 0.0
        while True:
            waited, _, _ = select.select([passage.client], [], [], 0)
            if not (data := passage.client.recv(2_048)):
                return
            due = (due if waited else time.monotonic()) + len(data) / self._pace
            self._ended.wait(max(0.0, due - time.monotonic()))
            self.passed += len(data)
            if not self.pass_on(passage, data):
                return


@pytest.fixture
def emulator() -> Iterator[ServiceBusEmulator]:
    with ServiceBusEmulator(tls=(tls := TlsSettings.self_made())) as running:
        running.admin.create("plain", QueueDescription())
        running.authority = tls.authority  # type: ignore[attr-defined]
        yield running


def test_a_full_batch_goes_through_at_50_kb_a_second(
    emulator: ServiceBusEmulator, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    ca = tmp_path / "ca.pem"
    ca.write_text(emulator.authority)  # type: ignore[attr-defined]
    begin: Any = _transport._AbstractTransport._init_socket

    def begun(transport: Any, *arguments: Any) -> None:
        transport.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER // 2)  # the system doubles it
        begin(transport, *arguments)

    monkeypatch.setattr(_transport._AbstractTransport, "_init_socket", begun)
    with Narrow(emulator.tls_port, 50_000) as uplink:
        make = functools.partial(
            ServiceBusClient.from_connection_string,
            custom_endpoint_address=f"sb://localhost:{uplink.port}",
            transport_type=TransportType.Amqp,
        )
        monkeypatch.setattr(ServiceBusClient, "from_connection_string", make)
        string = "Endpoint=sb://localhost/;SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=SAS_KEY_VALUE"
        with (
            closing(
                ServiceBus.of(ServiceBusSettings.model_validate({"connection_string": string, "ca_file": str(ca)}))
            ) as bus,
            closing(bus.sender("plain")) as sender,
        ):
            sender.send([Message(b"x" * 1_000, f"m{number}") for number in range(220)])
    assert emulator.admin.get("plain").counts.active == 220
    assert uplink.passed > 220_000
