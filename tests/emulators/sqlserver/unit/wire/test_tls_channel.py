"""The TLS channel on bytes alone, cut wherever a network may cut them."""

from __future__ import annotations

import contextlib
import ssl

import pytest

from emulators.sqlserver.tls import TlsSettings
from emulators.sqlserver.wire.errors import ProtocolError
from emulators.sqlserver.wire.tls import TlsChannel


@pytest.fixture(scope="module")
def tls() -> TlsSettings:
    return TlsSettings.self_made()


class Peer:
    """The client's half, and the channel it has shaken hands with."""

    def __init__(self, tls: TlsSettings, *, login_only: bool) -> None:
        self._received, self._sent = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = ssl.create_default_context(cadata=tls.authority)
        self.object = context.wrap_bio(self._received, self._sent, server_hostname="localhost")
        self.channel = TlsChannel(tls.context, login_only=login_only)
        while not self.channel.established:
            self._step()
        self._step()

    def _step(self) -> None:
        with contextlib.suppress(ssl.SSLWantReadError):
            self.object.do_handshake()
        if data := self._sent.read():
            self._received.write(self.channel.handshake(data))

    def records(self, data: bytes) -> bytes:
        self.object.write(data)
        return self._sent.read()

    def goodbye(self) -> bytes:
        with contextlib.suppress(ssl.SSLWantReadError):
            self.object.unwrap()
        return self._sent.read()

    def read(self, records: bytes) -> bytes:
        self._received.write(records)
        return self.object.read(100_000)


def test_records_that_arrive_byte_by_byte_give_their_text_once_whole(tls: TlsSettings) -> None:
    peer = Peer(tls, login_only=False)
    records = peer.records(b"first") + peer.records(b"second")
    seen = [peer.channel.decrypt(bytes([byte])) for byte in records]
    assert [text for text in seen if text] == [b"first", b"second"]
    assert seen[-1] == b"second"


def test_a_text_longer_than_a_record_arrives_whole(tls: TlsSettings) -> None:
    peer = Peer(tls, login_only=False)
    text = bytes(range(256)) * 200
    assert peer.channel.decrypt(peer.records(text)) == text


def test_answers_reach_the_peer_and_no_bytes_make_no_record(tls: TlsSettings) -> None:
    peer = Peer(tls, login_only=False)
    assert peer.read(peer.channel.encrypt(b"answer")) == b"answer"
    assert peer.channel.encrypt(b"") == b""


def test_clear_text_in_the_same_bytes_as_the_last_record_ends_login_only_encryption(tls: TlsSettings) -> None:
    peer = Peer(tls, login_only=True)
    assert peer.channel.decrypt(peer.records(b"login") + b"\x01clear") == b"login\x01clear"
    assert peer.channel.dropped
    assert (peer.channel.decrypt(b"\x17more"), peer.channel.encrypt(b"answer")) == (b"\x17more", b"answer")


def test_the_same_under_full_encryption_is_an_error(tls: TlsSettings) -> None:
    peer = Peer(tls, login_only=False)
    with pytest.raises(ProtocolError, match="clear text"):
        peer.channel.decrypt(peer.records(b"login") + b"\x01clear")


def test_a_record_that_was_tampered_with_is_an_error(tls: TlsSettings) -> None:
    peer = Peer(tls, login_only=False)
    record = bytearray(peer.records(b"text"))
    record[-1] ^= 1
    with pytest.raises(ProtocolError, match="cannot be read"):
        peer.channel.decrypt(bytes(record))


def test_a_record_longer_than_tls_allows_is_an_error_before_it_is_there(tls: TlsSettings) -> None:
    with pytest.raises(ProtocolError, match="cannot have 65540 bytes"):
        Peer(tls, login_only=False).channel.decrypt(b"\x17\x03\x03\xff\xff")


def test_a_handshake_of_nonsense_is_an_error(tls: TlsSettings) -> None:
    with pytest.raises(ProtocolError, match="handshake failed"):
        TlsChannel(tls.context, login_only=False).handshake(b"GET / HTTP/1.1\r\n\r\n")


def test_the_peers_goodbye_is_the_end_of_the_connection(tls: TlsSettings) -> None:
    peer = Peer(tls, login_only=False)
    with pytest.raises(ConnectionAbortedError):
        peer.channel.decrypt(peer.goodbye())
