"""Encryption as TDS 7.x has it: login-only and full, by clients that verify the server's certificate and ones that do not.

pymssql and a client of our own; python-tds, whose TLS is pyOpenSSL's, runs with the drivers of tests/emulators/sqlserver/clients.
"""

from __future__ import annotations

import logging
import socket
import ssl
import struct
from collections.abc import Iterator
from pathlib import Path

import pymssql
import pytest

from emulators.sqlserver.server import SqlServerEmulator
from emulators.sqlserver.sqltypes import SqlType
from emulators.sqlserver.tls import TlsSettings
from tests.emulators.sqlserver.wire.raw_client import ATTENTION, LOGIN, PRELOGIN, Client, batch, login_body, packet
from tests.fakes.sql_engine import ScriptedEngine, rows_of

OFF, ON, UNSUPPORTED, REQUIRED = range(4)


@pytest.fixture(scope="module")
def tls() -> TlsSettings:
    return TlsSettings.self_made()


@pytest.fixture(scope="module")
def stranger() -> TlsSettings:
    """Of another authority. It is made before a client connects: a slow machine takes longer for it than a handshake may."""
    return TlsSettings.self_made()


@pytest.fixture
def engine() -> ScriptedEngine:
    engine = ScriptedEngine()
    engine.script("one", lambda s, p, c: iter([rows_of({"n": SqlType("int")}, [[1]])]))
    engine.script("many", lambda s, p, c: iter([rows_of({"n": SqlType("int")}, [[n] for n in range(50_000)])]))
    return engine


@pytest.fixture
def server(engine: ScriptedEngine, tls: TlsSettings) -> Iterator[SqlServerEmulator]:
    with SqlServerEmulator(engine, tls=tls) as running:
        yield running


@pytest.fixture
def client(server: SqlServerEmulator) -> Iterator[Client]:
    made = Client(server.port)
    with made.socket:
        yield made


@pytest.mark.parametrize("encryption", [None, "off", "request", "require"])
def test_pymssql_reads_with_every_setting_it_has(server: SqlServerEmulator, encryption: str | None) -> None:
    with pymssql.connect(
        server="127.0.0.1", port=str(server.port), user="sa", password="secret", database="demo", encryption=encryption
    ) as connection:
        cursor = connection.cursor()
        cursor.execute("many")
        assert cursor.fetchall() == [(n,) for n in range(50_000)]


@pytest.mark.parametrize("wish", [ON, REQUIRED])
@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_full_encryption_verifies_against_the_authority_and_lasts(
    client: Client, tls: TlsSettings, wish: int, host: str
) -> None:
    client.encrypt(tls.authority, wish, host).logged_in()
    assert client.tls_version == "TLSv1.2"
    for _ in range(3):
        client.send(batch("many"))
        assert len(client.message()) > 50_000


def test_an_authority_that_did_not_sign_the_certificate_is_not_convinced(stranger: TlsSettings, client: Client) -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        client.encrypt(stranger.authority, ON)


def test_a_host_that_the_certificate_does_not_name_is_not_convinced(client: Client, tls: TlsSettings) -> None:
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        client.encrypt(tls.authority, ON, "elsewhere.example")


def test_login_only_encryption_ends_with_the_login(client: Client, tls: TlsSettings) -> None:
    client.encrypt(tls.authority, OFF).send(packet(LOGIN, login_body()))
    client.drop_tls()
    assert "Microsoft SQL Server".encode("utf-16-le") in client.message()
    client.send(batch("one"))
    assert client.message()[0] == 0x81


def test_a_driver_that_encrypts_only_the_first_packet_of_a_long_login_gets_in(client: Client, tls: TlsSettings) -> None:
    body = login_body()
    client.encrypt(tls.authority, OFF).send(packet(LOGIN, body[:60], status=0))
    client.drop_tls()
    client.send(packet(LOGIN, body[60:]))
    assert "Microsoft SQL Server".encode("utf-16-le") in client.message()


def test_a_login_in_clear_text_after_tls_was_agreed_on_is_not_read(client: Client, engine: ScriptedEngine) -> None:
    client.send(packet(PRELOGIN, struct.pack(">BHHBB", 1, 6, 1, 0xFF, OFF)))
    client.message()
    client.send(packet(LOGIN, login_body()))
    assert client.closed()
    assert engine.sessions == []


def test_clear_text_under_full_encryption_ends_the_connection(
    client: Client, tls: TlsSettings, engine: ScriptedEngine
) -> None:
    client.encrypt(tls.authority, ON).logged_in()
    client.drop_tls()
    client.send(batch("one"))
    assert client.closed()
    assert engine.closed.wait(10)


def test_a_client_without_tls_goes_on_in_clear_text(client: Client) -> None:
    client.send(packet(PRELOGIN, struct.pack(">BHHBB", 1, 6, 1, 0xFF, UNSUPPORTED)))
    assert client.message()[-3:] == b"\x02\x00\x00"
    client.logged_in().send(batch("one"))
    assert client.message()[0] == 0x81


def test_an_attention_behind_tls_is_acknowledged(client: Client, tls: TlsSettings) -> None:
    client.encrypt(tls.authority, ON).logged_in().send(packet(ATTENTION, b""))
    assert client.message() == struct.pack("<BHHQ", 0xFD, 0x20, 0, 0)


def test_a_client_that_ends_tls_properly_has_its_session_closed(
    client: Client, tls: TlsSettings, engine: ScriptedEngine
) -> None:
    client.encrypt(tls.authority, ON).logged_in()
    client.end_tls()
    assert client.closed()
    assert engine.closed.wait(10)


@pytest.mark.parametrize("encrypted", [True, False])
def test_strict_encryption_is_refused_by_name(
    engine: ScriptedEngine, tls: TlsSettings, encrypted: bool, caplog: pytest.LogCaptureFixture
) -> None:
    context = ssl.create_default_context(cadata=tls.authority)
    context.set_alpn_protocols(["tds/8.0"])
    with (
        SqlServerEmulator(engine, tls=tls if encrypted else None) as server,
        socket.create_connection(("127.0.0.1", server.port), timeout=10) as plain,
        caplog.at_level(logging.WARNING),
        pytest.raises((ssl.SSLError, ConnectionError)),
    ):
        context.wrap_socket(plain, server_hostname="localhost")
    assert "does not support TDS 8.0 (Encrypt=Strict)" in caplog.text


def test_the_authority_alone_is_exported_and_no_key(tls: TlsSettings) -> None:
    assert tls.authority.count("BEGIN CERTIFICATE") == 1
    assert "PRIVATE" not in tls.authority


def test_without_openssl_nothing_is_made_and_it_is_said_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RuntimeError, match="the openssl program is not installed"):
        TlsSettings.self_made()


def test_what_openssl_complains_about_is_told() -> None:
    with pytest.raises(RuntimeError, match="making a certificate: openssl"):
        TlsSettings.self_made(["a name, IP:of nothing"])
