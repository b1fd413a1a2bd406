"""The relay that falls mute: what passes, what does not, and that it outlives what an accept can meet."""

from __future__ import annotations

import errno
import socket
import threading
from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.worlds.tcp_relay import Silence, TcpRelay, Way

_SOON = 10.0
"""Seconds within which something comes that does."""
_NEVER = 0.2
"""Seconds after which what did not come is taken not to."""


class Echo:
    """Says everything again. `hung_up`: a client has ended its connection; `heard`: all that came."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.hung_up = threading.Event()
        self.heard = bytearray()
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        with self._listener:
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client:
            while data := client.recv(4096):
                self.heard += data
                client.sendall(data)
        self.hung_up.set()


@pytest.fixture(scope="module")
def server() -> Echo:
    return Echo()


@pytest.fixture
def echo(server: Echo) -> Echo:
    server.hung_up.clear()
    server.heard.clear()
    return server


@pytest.fixture
def relay(echo: Echo) -> Iterator[TcpRelay]:
    with TcpRelay(echo.port) as running:
        yield running


def connected(relay: TcpRelay) -> closing[socket.socket]:
    return closing(socket.create_connection(("127.0.0.1", relay.port), timeout=_SOON))


def said(client: socket.socket, count: int) -> bytes:
    found = b""
    while len(found) < count:
        found += client.recv(count - len(found))
    return found


def mute(client: socket.socket) -> bool:
    """Nothing comes, and it is open."""
    client.settimeout(_NEVER)
    try:
        client.recv(1)
    except TimeoutError:
        return True
    return False


def test_what_comes_passes(relay: TcpRelay) -> None:
    with connected(relay) as client:
        client.sendall(b"hello")
        assert said(client, 5) == b"hello"
    assert relay.fell_mute == 0


def test_who_is_accepted_by_a_mute_one_hears_nothing_even_when_others_are_served_again(relay: TcpRelay) -> None:
    with relay.muted():
        early = connected(relay)
        with early as client:
            client.sendall(b"hello")
            assert mute(client)
            relay.speak()
            with connected(relay) as other:
                other.sendall(b"well")
                assert said(other, 4) == b"well"
            assert mute(client)
    assert relay.fell_mute == 1


@pytest.mark.parametrize(("way", "heard"), [(Way.FORTH, b"one"), (Way.BACK, b"onetwo"), (Way.BOTH, b"one")])
def test_a_connection_that_works_falls_mute_one_way_or_both(
    relay: TcpRelay, echo: Echo, way: Way, heard: bytes
) -> None:
    with connected(relay) as client:
        client.sendall(b"one")
        assert said(client, 3) == b"one"
        relay.mute(Silence(way))
        client.sendall(b"two")
        assert mute(client)
    assert echo.hung_up.wait(_SOON)
    assert bytes(echo.heard) == heard


@pytest.mark.parametrize("way", [Way.FORTH, Way.BACK, Way.BOTH])
def test_it_may_fall_mute_after_so_many_octets(relay: TcpRelay, way: Way) -> None:
    relay.mute(Silence(way, after=7))
    with connected(relay) as client:
        client.sendall(b"0123456789")
        assert said(client, 7) == b"0123456"
        assert mute(client)
    assert relay.fell_mute == 1


def test_a_sender_gets_to_feel_a_peer_that_takes_nothing(relay: TcpRelay) -> None:
    relay.mute()
    with connected(relay) as client:
        client.settimeout(_NEVER)
        with pytest.raises(TimeoutError):
            client.sendall(bytes(50_000_000))


def test_who_is_dropped_knows_it_mute_or_not(relay: TcpRelay) -> None:
    with connected(relay) as client:
        client.sendall(b"one")
        assert said(client, 3) == b"one"
        relay.mute()
        relay.drop()
        assert client.recv(1) == b""


def test_while_nobody_may_connect_the_port_is_nobody_elses(relay: TcpRelay) -> None:
    for _ in range(2):
        relay.refuse()
        with pytest.raises(ConnectionRefusedError):
            connected(relay)
        with socket.socket() as stranger, pytest.raises(OSError, match="in use"):
            stranger.bind(("127.0.0.1", relay.port))
        relay.well()
        with connected(relay) as client:
            client.sendall(b"hello")
            assert said(client, 5) == b"hello"


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ECONNABORTED])
def test_an_accept_that_fails_is_not_the_last(relay: TcpRelay, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    failed = threading.Event()
    real = socket.socket.accept

    def accept(self: socket.socket) -> object:
        if self is relay._listener and not failed.is_set():
            failed.set()
            raise OSError(number, "cannot be accepted")
        return real(self)

    monkeypatch.setattr(socket.socket, "accept", accept)
    for _ in range(2):  # one accept began before it was to fail
        with connected(relay) as client:
            client.sendall(b"hello")
            assert said(client, 5) == b"hello"
    assert failed.is_set()
