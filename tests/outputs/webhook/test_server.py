"""Receivers as they are beside the contract: drips, redirects, busy ones, those that close idle connections, TLS, proxies."""

from __future__ import annotations

import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from common.bus.ports import SendInterrupted
from common.check import Outcome
from common.errors import EntityUnavailable, TransientError
from common.in_time import begun, in_time
from common.names import TableName
from router.outputs.port import Stream
from router.outputs.webhook.output import WebhookOutput
from router.outputs.webhook.settings import WebhookSettings
from tests.outputs.contract.delivery import MERCY
from tests.outputs.contract.world import change

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"

Answering = Callable[[socket.socket, bytes, int], None]
"""What a connection does with a request: its socket, the request's octets, and how many it had before."""


class Socket:
    """A receiver by hand: `answer` is called for each request. `requests`: all that came; `connections`: how many."""

    def __init__(self, answer: Answering, context: ssl.SSLContext | None = None) -> None:
        self._answer, self._context = answer, context
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.requests: list[bytes] = []
        self.connections = 0
        self.closed = threading.Event()
        self._open: list[socket.socket] = []
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self.connections += 1
                self._open.append(client)
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with suppress(OSError), client:
            if self._context is None:
                self._answer_all(client)
            else:
                with self._context.wrap_socket(client, server_side=True) as encrypted:
                    self._answer_all(encrypted)
        self.closed.set()

    def _answer_all(self, client: socket.socket) -> None:
        count = 0
        while request := _request(client):
            self.requests.append(request)
            self._answer(client, request, count)
            count += 1

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for each in self._open:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


def _request(client: socket.socket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        if not (more := client.recv(65536)):
            return b""
        data += more
    head, _, body = data.partition(b"\r\n\r\n")
    length = next((int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), 0)
    while len(body) < length:
        body += client.recv(65536)
    return head + b"\r\n\r\n" + body


@contextmanager
def receiver(answer: Answering, context: ssl.SSLContext | None = None) -> Iterator[Socket]:
    running = Socket(answer, context)
    try:
        yield running
    finally:
        running.close()


@contextmanager
def output(url: str, **given: Any) -> Iterator[tuple[WebhookOutput, Stream]]:
    settings: dict[str, Any] = {"type": "webhook", "url": url, "timeout": timedelta(seconds=20), **given}
    made = WebhookOutput(WebhookSettings(**settings))
    try:
        yield made, Stream("server.shop.persons.events", TableName("dbo", "Persons"), url)
    finally:
        made.close()


def send(made: WebhookOutput, stream: Stream, numbers: Sequence[int] = (1,)) -> None:
    in_time(MERCY, lambda: made.sender(stream).send([change(stream, n, "one") for n in numbers]))


def said(answer: bytes) -> Answering:
    return lambda client, request, count: client.sendall(answer)


def test_an_answer_that_drips_ends_at_the_deadline_and_its_connection_is_closed() -> None:
    def drip(client: socket.socket, request: bytes, count: int) -> None:
        while True:
            client.sendall(b"x")
            time.sleep(0.1)

    def drip_headers(client: socket.socket, request: bytes, count: int) -> None:
        client.sendall(b"HTTP/1.1 200 OK\r\n")
        while True:
            client.sendall(b"x-more: 1\r\n")
            time.sleep(0.1)

    for answer in (drip, drip_headers):
        with (
            receiver(answer) as running,
            output(f"http://127.0.0.1:{running.port}/", timeout=timedelta(seconds=1)) as (made, stream),
        ):
            with pytest.raises(SendInterrupted):
                send(made, stream)
            assert running.closed.wait(MERCY)


def test_the_status_counts_and_a_body_without_end_is_not_read() -> None:
    def endless(client: socket.socket, request: bytes, count: int) -> None:
        client.sendall(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        while True:
            client.sendall(b"1000\r\n" + b"x" * 4096 + b"\r\n")

    def silent(client: socket.socket, request: bytes, count: int) -> None:
        client.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n")

    for answer in (endless, silent):
        with receiver(answer) as running, output(f"http://127.0.0.1:{running.port}/") as (made, stream):
            send(made, stream, [1, 2])
            assert len(running.requests) == 2


def test_redirects_are_not_followed() -> None:
    answer = b"HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/?token=secret-7\r\ncontent-length: 0\r\n\r\n"
    with receiver(said(answer)) as running, output(f"http://127.0.0.1:{running.port}/") as (made, stream):
        with pytest.raises(EntityUnavailable, match="redirects are not followed") as raised:
            send(made, stream)
        assert "secret-7" not in str(raised.value)
        assert len(running.requests) == 1


def test_a_busy_receiver_is_left_alone_for_as_long_as_it_asks() -> None:
    answer = b"HTTP/1.1 429 Too Many Requests\r\nretry-after: 600\r\ncontent-length: 0\r\n\r\n"
    with receiver(said(answer)) as running, output(f"http://127.0.0.1:{running.port}/") as (made, stream):
        sender = made.sender(stream)
        for _ in range(3):
            with pytest.raises(SendInterrupted) as raised:
                sender.send([change(stream, 1, "one")])
            assert raised.value.throttled
        assert len(running.requests) == 1


def test_a_connection_that_was_closed_while_it_was_idle_is_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("router.outputs.webhook.sender._STALE_AFTER", 0.0)

    def once(client: socket.socket, request: bytes, count: int) -> None:
        if count:
            raise OSError  # closes the connection when the second request is there: as late as it can be
        client.sendall(OK)

    with receiver(once) as running, output(f"http://127.0.0.1:{running.port}/") as (made, stream):
        sender = made.sender(stream)
        for number in range(3):
            sender.send([change(stream, number, "one")])
        assert running.connections == 3


def test_an_error_quotes_nothing_of_the_answer() -> None:
    body = b"row 4711 is wrong"
    answer = b"HTTP/1.1 500 4711\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body)
    with receiver(said(answer)) as running, output(f"http://127.0.0.1:{running.port}/") as (made, stream):
        with pytest.raises(SendInterrupted, match="500 Internal Server Error") as raised:
            send(made, stream)
        assert "4711" not in str(raised.value)


def test_what_speaks_no_http_is_a_passing_fault() -> None:
    answer = said(b"SSH-2.0-x\r\n" * 10_000)
    with (
        receiver(answer) as running,
        output(f"http://127.0.0.1:{running.port}/") as (made, stream),
        pytest.raises(SendInterrupted),
    ):
        send(made, stream)


def test_a_proxy_gets_the_request_and_its_password_is_shown_nowhere() -> None:
    with receiver(said(OK)) as proxy:
        way = {"proxy": SecretStr(f"http://user:secret-7@127.0.0.1:{proxy.port}")}
        with output("http://receiver.invalid/in", **way) as (made, stream):
            send(made, stream)
            assert proxy.requests[0].startswith(b"POST http://receiver.invalid/in HTTP/1.1\r\n")
            assert b"Proxy-Authorization: Basic dXNlcjpzZWNyZXQtNw==" in proxy.requests[0]
        proxy.close()
        with output("http://receiver.invalid/in", **way) as (made, stream):
            with pytest.raises(SendInterrupted) as raised:
                send(made, stream)
            found = list(made.findings([stream], provision="create"))
        assert "secret-7" not in f"{raised.value} {found}"


def test_tls_with_an_authority_and_a_client_certificate_of_its_own(certificate: tuple[Path, Path]) -> None:
    pem, key = certificate
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem, key)
    context.load_verify_locations(pem)
    context.verify_mode = ssl.CERT_REQUIRED
    with receiver(said(OK), context) as running:
        url = f"https://localhost:{running.port}/"
        both = {"client_certificate": str(pem), "client_key": str(key)}
        with output(url, ca_file=str(pem), **both) as (made, stream):
            send(made, stream)
            assert [each.outcome for each in made.findings([stream], provision="verify")] == [Outcome.OK]
        with output(url, ca_file=str(pem)) as (made, stream), pytest.raises(SendInterrupted):
            send(made, stream)
        with output(url, **both) as (made, stream):
            with pytest.raises(SendInterrupted, match="ca_file"):
                send(made, stream)
            assert [each.outcome for each in made.findings([stream], provision="verify")] == [Outcome.FAIL]


def test_many_sessions_are_sent_side_by_side_up_to_the_limit() -> None:
    most, running_now, guard = 0, 0, threading.Lock()

    def slowly(client: socket.socket, request: bytes, count: int) -> None:
        nonlocal most, running_now
        with guard:
            running_now += 1
            most = max(most, running_now)
        time.sleep(0.05)
        with guard:
            running_now -= 1
        client.sendall(OK)

    with receiver(slowly) as running, output(f"http://127.0.0.1:{running.port}/", concurrency=3) as (made, stream):
        made.sender(stream).send([change(stream, n, f"session {n % 6}") for n in range(24)])
        assert len(running.requests) == 24
        assert 1 < most <= 3


def test_a_name_that_cannot_be_resolved_in_time_holds_nothing_up(monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()

    def hang(*arguments: Any, **named: Any) -> Any:
        over.wait(MERCY)
        raise socket.gaierror(socket.EAI_AGAIN, "no answer")

    monkeypatch.setattr("router.outputs.event_loop.socket.getaddrinfo", hang)
    with output("http://receiver.invalid/", timeout=timedelta(seconds=1)) as (made, stream):
        with pytest.raises(TransientError):
            send(made, stream)
        with pytest.raises(TransientError):
            in_time(MERCY, made.sender(stream).open)
    over.set()


def test_cut_calls_leave_the_output_usable() -> None:
    came = threading.Event()

    def first_never(client: socket.socket, request: bytes, count: int) -> None:
        if not came.is_set():
            came.set()
            return
        client.sendall(OK)

    with receiver(first_never) as running, output(f"http://127.0.0.1:{running.port}/") as (made, stream):
        sending = begun(lambda: send(made, stream), name="in-flight")
        assert came.wait(MERCY)
        made.cut_calls()
        with pytest.raises(SendInterrupted, match="cut off"):
            sending.result(MERCY)
        send(made, stream)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Of localhost, which is its own authority, and its key."""
    folder = tmp_path_factory.mktemp("certificate")
    pem, key = folder / "pem", folder / "key"
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-days",
        "2",
    ]
    command += ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    subprocess.run([*command, "-keyout", str(key), "-out", str(pem)], check=True, capture_output=True)
    return pem, key


def test_an_answer_that_nobody_asked_for_is_none_to_the_next_request() -> None:
    """A proxy that answers by itself and passes on the late answer as well: the first request has two, and the second one an error."""

    def answer(client: socket.socket, request: bytes, count: int) -> None:
        seen.append(request)
        client.sendall(OK + OK if len(seen) == 1 else b"HTTP/1.1 500 no\r\ncontent-length: 0\r\n\r\n")

    seen: list[bytes] = []

    with (
        receiver(answer) as server,
        output(f"http://127.0.0.1:{server.port}/in") as (made, stream),
        pytest.raises(SendInterrupted, match="500") as raised,
    ):
        made.sender(stream).send([change(stream, each, "s") for each in range(2)])
    assert set(raised.value.accepted) == {0}


def test_answers_that_are_whole_share_a_connection() -> None:
    def answer(client: socket.socket, request: bytes, count: int) -> None:
        client.sendall(
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n" if count % 2 else OK
        )

    with receiver(answer) as server, output(f"http://127.0.0.1:{server.port}/in") as (made, stream):
        made.sender(stream).send([change(stream, each, "s") for each in range(6)])
        assert server.connections == 1
