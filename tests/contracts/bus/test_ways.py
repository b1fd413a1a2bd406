"""Other ways to a namespace than AMQP over TLS with the public authorities: WebSocket, an HTTP proxy, a CA file, and what is said when one fails."""

from __future__ import annotations

import functools
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from azure.servicebus import ServiceBusClient, TransportType

import common.azure_amqp.websocket
import common.servicebus.sender
from common.azure_amqp.deadline import Guard
from common.bus.ports import QueueNeed
from common.errors import ConfigurationError, TransientError
from common.message import Message
from common.servicebus.listening import listen
from common.servicebus.namespace import ServiceBus
from common.servicebus.provision import provision
from common.servicebus.settings import ServiceBusSettings
from emulators.certificates import TlsSettings
from emulators.servicebus.description import QueueDescription
from emulators.servicebus.server import ServiceBusEmulator

from .descriptors import none_left
from .http_proxy import HttpProxy

LOGIN = ("corp user", "p@ss:word")


@pytest.fixture
def emulator(tls: TlsSettings) -> Iterator[ServiceBusEmulator]:
    with ServiceBusEmulator(tls=tls) as running:
        running.admin.create("plain", QueueDescription())
        running.admin.create("lanes", QueueDescription(requires_session=True))
        yield running


@pytest.fixture
def proxy(emulator: ServiceBusEmulator) -> Iterator[HttpProxy]:
    """As to a namespace in Azure: WebSocket at port 443. The management API is apart."""
    routes = {"localhost:443": emulator.tls_port, f"localhost:{emulator.https_port}": emulator.https_port}
    with HttpProxy(routes, login=LOGIN) as running:
        yield running


def in_the_clear(emulator: ServiceBusEmulator) -> ServiceBusSettings:
    return ServiceBusSettings.model_validate(
        {"connection_string": emulator.connection_string, "transport": "websocket"}
    )


def through(running: HttpProxy, emulator: ServiceBusEmulator, **more: Any) -> ServiceBusSettings:
    given = {
        "connection_string": "Endpoint=sb://localhost/;SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=SAS_KEY_VALUE",
        "management_endpoint": f"https://localhost:{emulator.https_port}",
        "transport": "websocket",
        "proxy": f"http://corp%20user:p%40ss%3Aword@127.0.0.1:{running.port}",
        **more,
    }
    return ServiceBusSettings.model_validate({name: value for name, value in given.items() if value is not None})


def exchange(bus: ServiceBus, queue: str, session: str | None) -> list[bytes]:
    """Several batches there, so that frames meet frames in one WebSocket message on the way back."""
    sent = [Message(b"%d" % number * 3_000, f"m{number}", session) for number in range(300)]
    with closing(bus.sender(queue)) as sender:
        sender.send(sent)
    receiver = bus.receivers(queue, sessions=session is not None, prefetch=200).open(max_wait=10)
    assert receiver is not None
    bodies = list[bytes]()
    with closing(receiver):
        while len(bodies) < len(sent):
            deliveries = receiver.receive(max_count=100, max_wait=10)
            assert deliveries
            bodies += [delivery.message.body for delivery in deliveries]
            assert receiver.settle_many(deliveries) == []
    assert bodies == [message.body for message in sent]
    return bodies


@pytest.mark.parametrize(("queue", "session"), [("plain", None), ("lanes", "a")])
def test_messages_go_and_come_over_websocket(emulator: ServiceBusEmulator, queue: str, session: str | None) -> None:
    with closing(ServiceBus.of(in_the_clear(emulator))) as bus:
        exchange(bus, queue, session)
        listen(bus.address, queue, sessions=session is not None)


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="an option of Linux")
@pytest.mark.parametrize("proxied", [False, True])
def test_what_a_dead_process_has_left_to_send_over_websocket_is_soon_given_up(
    emulator: ServiceBusEmulator, proxy: HttpProxy, ca: str, monkeypatch: pytest.MonkeyPatch, *, proxied: bool
) -> None:
    made: list[Any] = []

    def connect(transport: Any, guard: Guard) -> None:
        connected(transport, guard)
        made.append(transport)

    connected = common.azure_amqp.websocket.connect
    monkeypatch.setattr(common.azure_amqp.websocket, "connect", connect)
    settings = through(proxy, emulator, ca_file=ca) if proxied else in_the_clear(emulator)
    with closing(ServiceBus.of(settings)) as bus, closing(bus.sender("plain")) as sender:
        sender.send([Message(b"x", "m")])
        (transport,) = made
        left = transport.sock.sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)
    assert left == 5000


@pytest.mark.parametrize(("queue", "session"), [("plain", None), ("lanes", "a")])
def test_messages_go_and_come_through_a_proxy_with_a_login_under_an_authority_of_ones_own(
    emulator: ServiceBusEmulator, proxy: HttpProxy, ca: str, queue: str, session: str | None
) -> None:
    settings = through(proxy, emulator, ca_file=ca)
    with closing(ServiceBus.of(settings)) as bus:
        exchange(bus, queue, session)
        provision(
            bus.address,
            [QueueNeed("made", sessions=True)],
            how="create",
            management_endpoint=settings.management_endpoint,
        )
    assert emulator.admin.get("made")
    assert set(proxy.asked) == {"localhost:443", f"localhost:{emulator.https_port}"}


def test_an_authority_of_ones_own_is_trusted_on_amqp_as_it_is(
    emulator: ServiceBusEmulator, ca: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The SDK is told behind our back that the namespace is at another port."""
    make = functools.partial(
        ServiceBusClient.from_connection_string,
        custom_endpoint_address=f"sb://localhost:{emulator.tls_port}",
        transport_type=TransportType.Amqp,
    )
    monkeypatch.setattr(ServiceBusClient, "from_connection_string", make)
    string = "Endpoint=sb://localhost/;SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=SAS_KEY_VALUE"
    with closing(ServiceBus.of(ServiceBusSettings.model_validate({"connection_string": string, "ca_file": ca}))) as bus:
        exchange(bus, "plain", None)
    with (
        closing(ServiceBus.of(ServiceBusSettings.model_validate({"connection_string": string}))) as bus,
        pytest.raises(TransientError, match="certificate that is not trusted") as refused,
    ):
        bus.sender("plain").open()
    assert "ca_file" in (refused.value.hint or "")


@pytest.mark.filterwarnings("ignore:unclosed <s:ResourceWarning")
def test_the_management_api_s_certificate_is_told_apart_as_well(emulator: ServiceBusEmulator, proxy: HttpProxy) -> None:
    settings = through(proxy, emulator)
    with closing(ServiceBus.of(settings)) as bus, pytest.raises(TransientError, match="not trusted") as refused:
        provision(
            bus.address,
            [QueueNeed("made", sessions=True)],
            how="create",
            management_endpoint=settings.management_endpoint,
        )
    assert "ca_file" in (refused.value.hint or "")


@pytest.mark.filterwarnings("ignore:unclosed <s:ResourceWarning")
@pytest.mark.parametrize(
    ("change", "words", "remedy"),
    [
        ({"ca_file": None}, "localhost:443 has a certificate that is not trusted", "ca_file"),
        ({"proxy": "http://127.0.0.1:{port}"}, "does not connect to localhost:443: HTTP/1.1 407", "USER:PASSWORD"),
        (
            {"proxy": "http://127.0.0.1:1"},
            "the proxy cannot be reached: 127.0.0.1:1 refuses connections",
            "check proxy",
        ),
    ],
    ids=["authority", "login", "no proxy"],
)
def test_what_is_wrong_on_the_way_is_told_with_its_setting(
    emulator: ServiceBusEmulator, proxy: HttpProxy, ca: str, change: dict[str, str | None], words: str, remedy: str
) -> None:
    given = {name: value and value.format(port=proxy.port) for name, value in change.items()}
    settings = through(proxy, emulator, **{"ca_file": ca, **given})
    with closing(ServiceBus.of(settings)) as bus, pytest.raises(TransientError) as met:
        bus.sender("plain").open()
    assert words in met.value.message
    assert remedy in (met.value.hint or "")
    for secret in ("SAS_KEY", "p@ss", "p%40ss"):
        assert secret not in str(met.value)


def test_a_proxy_that_nobody_runs_is_named_by_the_management_api_too(
    emulator: ServiceBusEmulator, proxy: HttpProxy, ca: str
) -> None:
    settings = through(proxy, emulator, ca_file=ca, proxy="http://127.0.0.1:1")
    with (
        closing(ServiceBus.of(settings)) as bus,
        pytest.raises(TransientError, match=r"the proxy 127\.0\.0\.1:1 refuses"),
    ):
        provision(bus.address, [QueueNeed("q", True)], how="create", management_endpoint=settings.management_endpoint)


def test_a_proxy_that_accepts_and_says_nothing_is_given_up(ca: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(common.servicebus.sender, "OPEN_TIMEOUT", 0.4)
    with socket.create_server(("127.0.0.1", 0)) as mute:
        string = "Endpoint=sb://localhost/;SharedAccessKeyName=n;SharedAccessKey=a2V5"
        settings = ServiceBusSettings.model_validate(
            {
                "connection_string": string,
                "transport": "websocket",
                "proxy": f"http://127.0.0.1:{mute.getsockname()[1]}",
                "ca_file": ca,
            }
        )
        with (
            closing(ServiceBus.of(settings)) as bus,
            none_left(),
            pytest.raises(
                TransientError, match=r"the proxy .*127\.0\.0\.1:\d+ does not connect to localhost:443: no answer"
            ),
        ):
            bus.sender("plain").open()


def test_a_namespace_that_speaks_no_websocket_is_told(emulator: ServiceBusEmulator) -> None:
    string = emulator.connection_string.replace(str(emulator.port), str(emulator.http_port))
    settings = ServiceBusSettings.model_validate({"connection_string": string, "transport": "websocket"})
    with closing(ServiceBus.of(settings)) as bus, pytest.raises(TransientError, match="does not speak WebSocket"):
        bus.sender("plain").open()


def test_a_file_without_authorities_ends_a_start(tmp_path: Path) -> None:
    (tmp_path / "empty.pem").write_text("nothing")
    string = "Endpoint=sb://localhost/;SharedAccessKeyName=n;SharedAccessKey=a2V5"
    for name, words in (("empty.pem", "holds no PEM certificate"), ("none.pem", "No such file")):
        settings = ServiceBusSettings.model_validate({"connection_string": string, "ca_file": str(tmp_path / name)})
        with pytest.raises(ConfigurationError, match=rf"ca_file = .*{words}"):
            ServiceBus.of(settings)
