"""What `encrypt` in a connection string does with the driver we ship: who is verified, against what, and how a refusal reads."""

from __future__ import annotations

import logging
import os
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pymssql
import pytest

from common.errors import ConnectionLost, DStreamError, PermanentError, TransientError
from common.sqladdress import SqlAddress
from emulators import certificates
from emulators.sqlserver.faults import catalogue as faults
from emulators.sqlserver.server import SqlServerEmulator
from emulators.sqlserver.sqltypes import SqlType
from emulators.sqlserver.tls import TlsSettings
from ingester.sqlserver.connection import Connection
from ingester.sqlserver.login.handshake import Line
from tests.fakes.sql_engine import ScriptedEngine, rows_of

PASSWORD = "secret"
UNTRUSTED = "no encrypted connection to a trusted server"


@pytest.fixture(scope="module")
def tls() -> TlsSettings:
    return TlsSettings.self_made()


@pytest.fixture(scope="module")
def elsewhere() -> TlsSettings:
    return TlsSettings.self_made(["db.example"])


@pytest.fixture
def engine() -> ScriptedEngine:
    engine = ScriptedEngine()
    engine.script("q", lambda s, p, c: iter([rows_of({"n": SqlType("int")}, [[1]])]))
    return engine


@pytest.fixture
def server(engine: ScriptedEngine, tls: TlsSettings) -> Iterator[SqlServerEmulator]:
    with SqlServerEmulator(engine, tls=tls) as running:
        yield running


@pytest.fixture
def ca(tls: TlsSettings, tmp_path: Path) -> Path:
    """A path of the kind that a file format without quotes cannot hold."""
    path = tmp_path / "our  own ;#authority.pem"
    path.write_text(tls.authority)
    return path


@pytest.fixture
def wrong_ca(elsewhere: TlsSettings, tmp_path: Path) -> Path:
    path = tmp_path / "wrong.pem"
    path.write_text(elsewhere.authority)
    return path


def read(port: int, host: str = "localhost", **options: object) -> None:
    """One query through an address with these options; DStreamError when it does not work."""
    more = "".join(f"&{name}={quote(str(value))}" for name, value in options.items())
    connection = Connection(SqlAddress.parse(f"sqlserver://sa:{PASSWORD}@{host}:{port}?database=demo{more}"))
    try:
        assert connection.rows("q") == [(1,)]
    finally:
        connection.close()


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
@pytest.mark.parametrize("encrypt", ["true", "mandatory"])
def test_mandatory_encryption_is_verified_against_the_certificate_given(
    server: SqlServerEmulator, ca: Path, host: str, encrypt: str
) -> None:
    read(server.port, host, encrypt=encrypt, certificate=ca)


def test_another_authority_is_refused_in_one_line_without_the_password(
    server: SqlServerEmulator, wrong_ca: Path, engine: ScriptedEngine
) -> None:
    with pytest.raises(PermanentError, match=UNTRUSTED) as raised:
        read(server.port, encrypt="mandatory", certificate=wrong_ca)
    text = str(raised.value)
    assert str(wrong_ca) in text
    assert "\n" not in text
    assert PASSWORD not in text
    assert engine.sessions == []


def test_without_a_certificate_given_the_systems_bundle_decides(
    server: SqlServerEmulator, wrong_ca: Path, ca: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(wrong_ca))
    with pytest.raises(PermanentError, match=UNTRUSTED):
        read(server.port, encrypt="mandatory")
    monkeypatch.setenv("SSL_CERT_FILE", str(ca))
    read(server.port, encrypt="mandatory")


def test_a_machine_without_any_bundle_is_told_what_to_do(
    server: SqlServerEmulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ingester.sqlserver.login.trust._BUNDLES", ())
    monkeypatch.setenv("SSL_CERT_FILE", "/nowhere")
    with pytest.raises(PermanentError, match="certificate=FILE"):
        read(server.port, encrypt="mandatory")


def test_a_certificate_file_that_is_not_there_is_named(server: SqlServerEmulator) -> None:
    with pytest.raises(PermanentError, match=r"the file /nowhere/ca\.pem does not exist"):
        read(server.port, encrypt="mandatory", certificate="/nowhere/ca.pem")


def test_a_login_that_worked_before_waits_for_its_certificates_to_come_back(server: SqlServerEmulator) -> None:
    text = f"sqlserver://sa:{PASSWORD}@localhost:{server.port}?database=demo&encrypt=true&certificate=/nowhere/ca.pem"
    with pytest.raises(ConnectionLost, match=r"the file /nowhere/ca\.pem does not exist"):
        Connection(SqlAddress.parse(text), proven=True).rows("q")


def test_a_file_that_holds_no_certificate_is_named(server: SqlServerEmulator, tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("certificate")
    with pytest.raises(PermanentError, match=r"ca\.pem holds no certificates"):
        read(server.port, encrypt="mandatory", certificate=tmp_path / "ca.pem")


def test_the_host_must_be_the_one_the_certificate_names(
    engine: ScriptedEngine, elsewhere: TlsSettings, wrong_ca: Path
) -> None:
    with SqlServerEmulator(engine, tls=elsewhere) as server:
        with pytest.raises(PermanentError, match=f"{UNTRUSTED}.*certificate for localhost"):
            read(server.port, encrypt="mandatory", certificate=wrong_ca)
        read(server.port, encrypt="mandatory", certificate=wrong_ca, hostNameInCertificate="db.example")


def test_trusting_any_certificate_encrypts_and_verifies_nothing(server: SqlServerEmulator, wrong_ca: Path) -> None:
    read(server.port, encrypt="mandatory", trustServerCertificate="true")
    read(server.port, encrypt="mandatory", trustServerCertificate="true", certificate=wrong_ca)


@pytest.mark.parametrize("trust", ["true", "false"])
def test_mandatory_encryption_never_goes_on_in_clear_text(engine: ScriptedEngine, ca: Path, trust: str) -> None:
    with SqlServerEmulator(engine) as server, pytest.raises(DStreamError):
        read(server.port, encrypt="mandatory", trustServerCertificate=trust, certificate=ca)
    assert engine.sessions == []


@pytest.mark.parametrize("encrypt", ["disable", "optional", "false"])
@pytest.mark.parametrize("offered", [True, False])
def test_the_other_settings_go_with_and_without_a_certificate(
    engine: ScriptedEngine, tls: TlsSettings, encrypt: str, offered: bool
) -> None:
    with SqlServerEmulator(engine, tls=tls if offered else None) as server:
        read(server.port, encrypt=encrypt)


def test_strict_encryption_never_falls_back_to_tds_7(
    server: SqlServerEmulator, ca: Path, engine: ScriptedEngine, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING), pytest.raises(TransientError):
        read(server.port, encrypt="strict", certificate=ca, trustServerCertificate="true")
    assert "does not support TDS 8.0" in caplog.text
    assert engine.sessions == []


def test_strict_encryption_speaks_tds_8_and_verifies_even_when_told_to_trust(
    tls: TlsSettings, elsewhere: TlsSettings, ca: Path
) -> None:
    """As far as it can be shown without a server that speaks TDS 8: TLS first, by its name, with a verified certificate."""
    assert _heard_by_a_strict_listener(tls, ca)[0] == 0x12  # PRELOGIN
    assert _heard_by_a_strict_listener(elsewhere, ca) == b""


def _heard_by_a_strict_listener(tls: TlsSettings, ca: Path) -> bytes:
    heard: list[bytes] = []

    def listen(listener: socket.socket) -> None:
        with listener, listener.accept()[0] as client:
            context = tls.context
            context.set_alpn_protocols(["tds/8.0"])
            try:
                with context.wrap_socket(client, server_side=True) as secured:
                    assert secured.selected_alpn_protocol() == "tds/8.0"
                    heard.append(secured.recv(1000))
            except OSError:
                heard.append(b"")

    listener = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=listen, args=(listener,))
    thread.start()
    with pytest.raises(DStreamError):
        read(listener.getsockname()[1], encrypt="strict", certificate=ca, trustServerCertificate="true")
    thread.join(10)
    return heard[0]


def test_connections_with_several_authorities_live_in_one_process(
    engine: ScriptedEngine, server: SqlServerEmulator, elsewhere: TlsSettings, ca: Path, wrong_ca: Path
) -> None:
    with SqlServerEmulator(engine, tls=elsewhere) as other, ThreadPoolExecutor(8) as pool:
        ours = [pool.submit(read, server.port, encrypt="mandatory", certificate=ca) for _ in range(8)]
        theirs = partial(read, other.port, certificate=wrong_ca, hostNameInCertificate="db.example")
        ours += [pool.submit(theirs, encrypt="mandatory") for _ in range(8)]
        for future in ours:
            future.result(20)


@pytest.fixture
def rsa_alone() -> TlsSettings:
    """Key exchange by RSA, as servers have it whose ciphers were never changed."""
    tls = TlsSettings.self_made()
    tls.context.set_ciphers("AES256-GCM-SHA384")
    return tls


def test_a_server_that_hangs_up_on_our_tls_is_told_with_what_it_lacks(
    engine: ScriptedEngine, rsa_alone: TlsSettings
) -> None:
    with (
        SqlServerEmulator(engine, tls=rsa_alone) as server,
        pytest.raises(ConnectionLost, match=r"closed the connection when TLS was to begin.*TLS 1\.2 with ECDHE"),
    ):
        read(server.port, encrypt="true")
    assert engine.sessions == []


def test_a_server_that_refuses_our_tls_is_a_matter_for_a_person(rsa_alone: TlsSettings) -> None:
    near, far = socket.socketpair()

    def serve() -> None:
        with suppress(ssl.SSLError), far:
            rsa_alone.context.wrap_socket(far, server_side=True)

    thread = threading.Thread(target=serve)
    thread.start()
    with closing(Line(near, "connecting", time.monotonic() + 60, 60)) as line:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        with pytest.raises(PermanentError, match=r"offers no TLS 1\.2 with ECDHE.*learn\.microsoft\.com"):
            line.secure(context, "localhost", packets=False)
    thread.join(60)


def test_a_refused_login_is_asked_about_once_a_minute_since_that_counts_towards_a_lockout(
    engine: ScriptedEngine, server: SqlServerEmulator
) -> None:
    address = SqlAddress.parse(f"sqlserver://sa:wrong@127.0.0.1:{server.port}?database=demo&encrypt=disable")
    for logins in (2, 3, 4):
        with pytest.raises(PermanentError, match="error 18456"):
            Connection(address).rows("q")
        assert len(engine.logins) == logins


def test_a_value_that_would_be_another_line_of_the_drivers_file_is_refused(
    server: SqlServerEmulator, wrong_ca: Path
) -> None:
    with pytest.raises(PermanentError, match="does not support"):
        read(
            server.port,
            encrypt="mandatory",
            certificate=wrong_ca,
            hostNameInCertificate="x\ncheck certificate hostname = no",
        )


@pytest.fixture
def drivers_files(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the driver finds in its file at each connect."""
    seen: list[str] = []
    connect: Any = pymssql.connect

    def looking(**options: object) -> object:
        seen.append(Path(os.environ["FREETDSCONF"]).read_text())
        return connect(**options)

    monkeypatch.setattr(pymssql, "connect", looking)
    return seen


def test_the_drivers_file_is_ours_and_holds_no_password(
    server: SqlServerEmulator, ca: Path, drivers_files: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FREETDSCONF", "/nowhere")
    read(server.port, encrypt="true", certificate=ca)
    assert "check certificate hostname = yes" in drivers_files[0]
    assert PASSWORD not in drivers_files[0]


def test_nothing_of_the_drivers_is_left_in_tmp(server: SqlServerEmulator, ca: Path, tmp_path: Path) -> None:
    """By a process that ends as a killed worker does; so there is nothing that a cleaner could take from one that lives, either."""
    (empty := tmp_path / "tmp").mkdir()
    program = (
        "import os, sys\n"
        "from common.sqladdress import SqlAddress\n"
        "from ingester.sqlserver.connection import Connection\n"
        "assert Connection(SqlAddress.parse(sys.argv[1])).rows('q') == [(1,)]\n"
        "os._exit(0)\n"
    )
    address = (
        f"sqlserver://sa:{PASSWORD}@localhost:{server.port}?database=demo&encrypt=true&certificate={quote(str(ca))}"
    )
    environment = {**os.environ, "TMPDIR": str(empty)}
    subprocess.run([sys.executable, "-c", program, address], check=True, timeout=60, env=environment)
    assert list(empty.iterdir()) == []


def test_an_authoritys_file_that_was_replaced_counts_at_the_next_connect(
    server: SqlServerEmulator, tls: TlsSettings, elsewhere: TlsSettings, tmp_path: Path
) -> None:
    path = tmp_path / "authority.pem"
    path.write_text(elsewhere.authority)
    with pytest.raises(PermanentError, match=UNTRUSTED):
        read(server.port, encrypt="true", certificate=path)
    path.write_text(tls.authority)
    read(server.port, encrypt="true", certificate=path)


def test_a_forked_process_reads_the_drivers_file_of_its_parent(server: SqlServerEmulator, ca: Path) -> None:
    read(server.port, encrypt="true", certificate=ca)
    if (child := os.fork()) == 0:
        try:
            read(server.port, encrypt="true", certificate=ca)
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0


# names

HOST = "srv.database.windows.net"


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every host is this machine."""
    ask = socket.getaddrinfo
    monkeypatch.setattr(socket, "getaddrinfo", lambda host, *more, **options: ask("127.0.0.1", *more, **options))


@pytest.fixture(scope="module")
def wildcard() -> TlsSettings:
    return TlsSettings.self_made(["*.database.windows.net", "*.database.secure.windows.net"])


@pytest.fixture
def wildcard_ca(wildcard: TlsSettings, tmp_path: Path) -> Path:
    path = tmp_path / "wildcard.pem"
    path.write_text(wildcard.authority)
    return path


@pytest.mark.usefixtures("names")
def test_azure_portals_string_reaches_a_server_behind_a_wildcard_certificate(
    engine: ScriptedEngine, wildcard: TlsSettings, wildcard_ca: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(wildcard_ca))
    with SqlServerEmulator(engine, tls=wildcard) as server:
        text = (
            f"Server=tcp:{HOST},{server.port};Initial Catalog=demo;Persist Security Info=False;User ID=sa;Password={PASSWORD};"
            "MultipleActiveResultSets=False;Encrypt=True;TrustServerCertificate=False;Connection Timeout=30;"
        )
        connection = Connection(SqlAddress.parse(text))
        assert connection.rows("q") == [(1,)]
        connection.close()


@pytest.mark.usefixtures("names")
@pytest.mark.parametrize("options", [{}, {"encrypt": "true"}, {"encrypt": "true", "trustServerCertificate": "true"}])
def test_the_login_names_the_host_by_which_a_gateway_finds_the_server(
    engine: ScriptedEngine, wildcard: TlsSettings, wildcard_ca: Path, options: dict[str, str]
) -> None:
    with SqlServerEmulator(engine, tls=wildcard) as server:
        read(server.port, HOST, certificate=wildcard_ca, **options)
    assert [login.server for login in engine.logins] == [HOST]


@pytest.mark.usefixtures("names")
@pytest.mark.parametrize(
    "others",
    [
        ["other.database.windows.net"],
        ["*.windows.net"],
        ["*.srv.database.windows.net"],
        ["s*.database.windows.net"],
        ["database.windows.net"],
        ["*.net"],
    ],
)
def test_a_certificate_that_python_refuses_for_the_host_is_refused(
    engine: ScriptedEngine, others: list[str], tmp_path: Path
) -> None:
    tls = TlsSettings.self_made(others)
    (tmp_path / "ca.pem").write_text(tls.authority)
    with (
        SqlServerEmulator(engine, tls=tls) as server,
        pytest.raises(PermanentError, match=f"not valid for '{HOST}'.*HostNameInCertificate="),
    ):
        read(server.port, HOST, certificate=tmp_path / "ca.pem")
    assert engine.sessions == []


@pytest.mark.usefixtures("names")
def test_a_certificate_that_names_the_host_in_its_common_name_alone_is_refused_as_python_does(
    engine: ScriptedEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it has alternative names, of which none is the host's: the driver by itself would take it."""
    monkeypatch.setattr(certificates, "_alternative", lambda name: "DNS:other.example")
    tls = TlsSettings.self_made([HOST])
    (tmp_path / "ca.pem").write_text(tls.authority)
    with SqlServerEmulator(engine, tls=tls) as server, pytest.raises(PermanentError, match="not valid for"):
        read(server.port, HOST, certificate=tmp_path / "ca.pem")


@pytest.mark.usefixtures("names")
def test_a_wildcard_as_the_name_in_the_certificate_means_that_very_wildcard(
    engine: ScriptedEngine, wildcard: TlsSettings, wildcard_ca: Path
) -> None:
    with SqlServerEmulator(engine, tls=wildcard) as server:
        read(server.port, "10.1.2.3", certificate=wildcard_ca, hostNameInCertificate="*.database.windows.net")
        with pytest.raises(PermanentError, match=r"not for \*\.windows\.net but for"):
            read(server.port, "10.1.2.3", certificate=wildcard_ca, hostNameInCertificate="*.windows.net")


def test_a_wildcard_is_good_for_a_given_name_under_it(
    engine: ScriptedEngine, wildcard: TlsSettings, wildcard_ca: Path
) -> None:
    with SqlServerEmulator(engine, tls=wildcard) as server:
        read(server.port, encrypt="true", certificate=wildcard_ca, hostNameInCertificate=HOST)


def test_the_common_name_counts_for_nothing_beside_other_names(
    engine: ScriptedEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(certificates, "_alternative", lambda name: "DNS:other.example")
    tls = TlsSettings.self_made([HOST])
    (tmp_path / "ca.pem").write_text(tls.authority)
    with SqlServerEmulator(engine, tls=tls) as server, pytest.raises(DStreamError):
        read(server.port, encrypt="true", certificate=tmp_path / "ca.pem", hostNameInCertificate=HOST)


def test_the_packet_size_that_is_asked_for_is_the_drivers(
    server: SqlServerEmulator, ca: Path, drivers_files: list[str]
) -> None:
    read(server.port, encrypt="true", certificate=ca, packetSize=8192)
    assert "initial block size = 8192" in drivers_files[0]


# a gateway that sends on


@pytest.mark.usefixtures("names")
def test_a_gateway_that_sends_on_to_a_host_under_its_wildcard_is_followed(
    engine: ScriptedEngine, wildcard: TlsSettings, wildcard_ca: Path
) -> None:
    """As Azure's does under the connection policy Redirect. The driver resolves the second host itself."""
    gate = ScriptedEngine()
    with (
        SqlServerEmulator(engine, tls=wildcard) as server,
        SqlServerEmulator(gate, tls=wildcard) as gateway,
        gateway.inject(faults.LoginSentOn("127.0.0.1", server.port)),
    ):
        read(gateway.port, HOST, certificate=wildcard_ca)
    assert (len(gate.sessions), len(engine.sessions)) == (0, 1)


@pytest.mark.usefixtures("names")
def test_what_a_gateway_sends_on_to_must_be_trusted_as_well(
    engine: ScriptedEngine, wildcard: TlsSettings, wildcard_ca: Path, elsewhere: TlsSettings
) -> None:
    with (
        SqlServerEmulator(engine, tls=elsewhere) as server,
        SqlServerEmulator(ScriptedEngine(), tls=wildcard) as gateway,
        gateway.inject(faults.LoginSentOn("127.0.0.1", server.port)),
        pytest.raises(ConnectionLost, match="does not trust"),
    ):
        read(gateway.port, HOST, certificate=wildcard_ca)
    assert engine.sessions == []


@pytest.mark.usefixtures("names")
def test_a_refusal_behind_a_gateway_is_told_in_the_servers_words(
    engine: ScriptedEngine, wildcard: TlsSettings, wildcard_ca: Path
) -> None:
    with (
        SqlServerEmulator(engine, tls=wildcard) as server,
        SqlServerEmulator(ScriptedEngine(), tls=wildcard) as gateway,
        gateway.inject(faults.LoginSentOn("127.0.0.1", server.port)),
        server.inject(faults.LoginRefusedFor(60, 40615)),
        pytest.raises(PermanentError, match=r"error 40615: .*firewall"),
    ):
        read(gateway.port, HOST, certificate=wildcard_ca)


# defaults


@pytest.mark.usefixtures("names")
def test_who_says_nothing_of_encryption_gets_it_verified_except_on_this_machine(
    engine: ScriptedEngine, server: SqlServerEmulator
) -> None:
    read(server.port)
    read(server.port, "127.0.0.1")
    with pytest.raises(PermanentError, match=r"certificate=FILE.*HostNameInCertificate=.*TrustServerCertificate=true"):
        read(server.port, "db.example")
    refusal = r"it does not encrypt .enable encryption on the server, or set encrypt=optional"
    with SqlServerEmulator(engine) as plain, pytest.raises(PermanentError, match=refusal):
        read(plain.port, "db.example")
