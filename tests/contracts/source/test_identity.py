"""An identity in place of a password: what its connections promise, and that they are connections like all others.

The token comes from azure-identity, which asks an endpoint as App Service has it; the emulator takes it behind TLS.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pymssql
import pytest
from pydantic import SecretStr

from common import azure_identity
from common.errors import ConnectionLost, PermanentError, TransientError
from common.sqladdress import SqlAddress
from dstream.emulators import Login
from emulators.sqlserver.build import build_engine
from emulators.sqlserver.engine.server_engine import SqlEngine
from emulators.sqlserver.faults import catalogue as faults
from emulators.sqlserver.server import SqlServerEmulator
from emulators.sqlserver.tls import TlsSettings
from ingester.sqlserver.check import _server as server_findings
from ingester.sqlserver.connection import Connection, is_error
from ingester.sqlserver.offsets import SqlServerOffsets
from ingester.sqlserver.sql.changes import P
from tests.contracts.source import values_page
from tests.contracts.source.test_mute_server import Tap, given_up
from tests.contracts.source.test_source import PERSONS, Place
from tests.contracts.source.test_values import PAGE
from tests.fakes.ingester import position
from tests.worlds.identities import TokenEndpoint

PASSWORD, IDENTITY, TOKEN = "test-Password-1", "dstream-prod", "ey.J0eXAi.Oi" * 150
"""A token of 1,800 characters, as they are: LOGIN7 takes more than one packet."""
CLIENT_ID = "00000000-1111-2222-3333-444444444444"
BOUND = 60

_numbers = count(1)


@pytest.fixture(scope="module")
def tls() -> TlsSettings:
    return TlsSettings.self_made()


@pytest.fixture(scope="module")
def certificate(tls: TlsSettings, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tls") / "authority.pem"
    path.write_text(tls.authority)
    return path


@pytest.fixture(scope="module")
def engine() -> Iterator[SqlEngine]:
    """Whose administrator is the identity."""
    made = build_engine(users={"sa": PASSWORD, IDENTITY: PASSWORD}, capture_interval=3600, tokens={TOKEN: IDENTITY})
    yield made
    made.close()


@pytest.fixture(scope="module")
def server(engine: SqlEngine, tls: TlsSettings) -> Iterator[SqlServerEmulator]:
    with SqlServerEmulator(engine, tls=tls, federated=True) as running:
        yield running


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[TokenEndpoint]:
    made = TokenEndpoint()
    made.token = TOKEN
    for name, value in made.environment.items():
        monkeypatch.setenv(name, value)
    azure_identity.sql_tokens.cache_clear()
    with contextlib.closing(made):
        yield made
    azure_identity.sql_tokens.cache_clear()


@pytest.fixture
def database(engine: SqlEngine) -> str:
    name = f"identity{next(_numbers)}"
    engine.create_database(name)
    return name


Connections = Callable[..., Connection]


@pytest.fixture
def address(server: SqlServerEmulator, database: str, certificate: Path, endpoint: TokenEndpoint) -> SqlAddress:
    return of_identity(server.port, database, certificate)


@pytest.fixture
def connections(address: SqlAddress) -> Iterator[Connections]:
    with contextlib.ExitStack() as made:

        def make(where: SqlAddress = address, **options: object) -> Connection:
            return made.enter_context(contextlib.closing(Connection(where, **options)))  # type: ignore[arg-type]

        yield make


def of_identity(port: int, database: str, certificate: Path, **more: str) -> SqlAddress:
    options = {"server_certificate": str(certificate), "connect_timeout": "30", **more}
    return SqlAddress("localhost", port, None, database, "", SecretStr(""), None, options, identity="managed")


def relays() -> int:
    return sum(thread.name == "sqlserver-relay" for thread in threading.enumerate())


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + BOUND
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


# Logging in


def test_the_server_knows_the_identity_and_nobody_was_told_a_password(
    connections: Connections, endpoint: TokenEndpoint
) -> None:
    connection = connections()
    assert connection.rows("SELECT SUSER_SNAME(), APP_NAME()") == [(IDENTITY, "dstream ingester")]
    assert [(asked["resource"].rstrip("/"), asked.get("client_id")) for asked in endpoint.asked] == [
        ("https://database.windows.net", None)
    ]


def test_one_of_several_identities_is_asked_for_by_its_client_id(
    server: SqlServerEmulator, database: str, certificate: Path, endpoint: TokenEndpoint
) -> None:
    text = f"Server=localhost,{server.port};Database={database};certificate={certificate};Authentication=ActiveDirectoryMSI;"
    with contextlib.closing(Connection(SqlAddress.parse(f"{text}User Id={CLIENT_ID}"))) as connection:
        assert connection.rows("SELECT 1") == [(1,)]
    assert endpoint.asked[0]["client_id"] == CLIENT_ID


def test_all_connections_of_a_process_share_a_token(connections: Connections, endpoint: TokenEndpoint) -> None:
    for _ in range(3):
        assert connections().rows("SELECT 1") == [(1,)]
    assert len(endpoint.asked) == 1


def test_check_says_who_logged_in(connections: Connections, address: SqlAddress) -> None:
    found = list(server_findings(connections(), address))
    assert [finding.subject for finding in found] == ["SQL Server", "login"]
    assert f"managed identity): {IDENTITY}" in found[1].text


def test_a_token_that_is_refused_names_the_remedy_and_is_asked_for_again(
    connections: Connections, endpoint: TokenEndpoint
) -> None:
    endpoint.token = "another token"
    with pytest.raises(PermanentError, match=r"error 18456: .*token-identified principal.*CREATE USER") as refused:
        connections().rows("SELECT 1")
    assert "another token" not in str(refused.value)
    with pytest.raises(ConnectionLost, match="it worked before"):
        connections(proven=True).rows("SELECT 1")


def test_a_database_in_which_the_identity_is_no_user_names_the_statement(
    server: SqlServerEmulator, engine: SqlEngine, database: str, certificate: Path, endpoint: TokenEndpoint
) -> None:
    engine.tokens = {TOKEN: IDENTITY, "stranger": "a stranger"}
    endpoint.token = "stranger"
    with pytest.raises(PermanentError, match=f"cannot open database '{database}' as the identity.*CREATE USER"):
        Connection(of_identity(server.port, database, certificate)).rows("SELECT 1")


def test_without_an_identity_the_start_ends_with_what_to_do(connections: Connections, endpoint: TokenEndpoint) -> None:
    endpoint.token = None
    with pytest.raises(PermanentError, match="managed identity or a workload identity"):
        connections().rows("SELECT 1")


def test_an_endpoint_that_says_nothing_is_given_up(
    connections: Connections, endpoint: TokenEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(azure_identity, "TOKEN_TIMEOUT", 0.3)
    endpoint.mute = True
    with pytest.raises(TransientError, match=r"more than 0\.3 s"):
        connections().rows("SELECT 1")


def test_no_token_goes_to_a_server_that_does_not_encrypt_or_cannot_be_trusted(
    engine: SqlEngine,
    server: SqlServerEmulator,
    database: str,
    certificate: Path,
    endpoint: TokenEndpoint,
    tmp_path: Path,
) -> None:
    stranger = tmp_path / "stranger.pem"
    stranger.write_text(TlsSettings.self_made().authority)
    with pytest.raises(PermanentError, match="trusted server"):
        Connection(of_identity(server.port, database, stranger)).rows("SELECT 1")
    with (
        SqlServerEmulator(engine, federated=True) as open_to_all,
        pytest.raises(PermanentError, match=r"it does not encrypt [(]enable encryption on the server[)]$"),
    ):
        Connection(of_identity(open_to_all.port, database, certificate)).rows("SELECT 1")


def test_a_server_that_takes_no_tokens_is_not_let_pass(
    engine: SqlEngine, tls: TlsSettings, database: str, certificate: Path, endpoint: TokenEndpoint
) -> None:
    with (
        SqlServerEmulator(engine, tls=tls) as without,
        pytest.raises(PermanentError, match="Microsoft Entra ID administrator"),
    ):
        Connection(of_identity(without.port, database, certificate)).rows("SELECT 1")


def test_a_gateway_that_sends_its_clients_on_is_followed_with_the_token(
    engine: SqlEngine,
    server: SqlServerEmulator,
    tls: TlsSettings,
    database: str,
    certificate: Path,
    endpoint: TokenEndpoint,
) -> None:
    there = faults.LoginSentOn("localhost", server.port)
    with SqlServerEmulator(engine, tls=tls, federated=True) as gateway, gateway.inject(there):
        connection = Connection(of_identity(gateway.port, database, certificate))
        with contextlib.closing(connection):
            assert connection.rows("SELECT SUSER_SNAME()") == [(IDENTITY,)]
            assert gateway.connections == 0


def test_who_does_not_know_the_secret_is_not_carried_on(
    connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process of this machine that finds the relay's port before the driver does."""
    connect: Any = pymssql.connect
    knocked: list[pymssql.Error] = []

    def stranger_first(**options: Any) -> Any:
        try:
            connect(**(options | {"password": "guessed"}))
        except pymssql.Error as error:
            knocked.append(error)
        return connect(**options)

    monkeypatch.setattr(pymssql, "connect", stranger_first)
    assert connections().rows("SELECT SUSER_SNAME()") == [(IDENTITY,)]
    assert len(knocked) == 1


# Connections like all others


def test_the_page_of_values_says_what_is_read(
    server: SqlServerEmulator,
    engine: SqlEngine,
    certificate: Path,
    endpoint: TokenEndpoint,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = []
    for name in ("strings", "numbers"):
        engine.create_database(name)
        made.append(Login("127.0.0.1", server.port, "sa", PASSWORD, name))

    def by_identity(login: Login) -> SqlAddress:
        return of_identity(login.port, login.database, certificate)

    monkeypatch.setattr(Place, "address_of", staticmethod(by_identity))
    assert values_page.made(*made) == PAGE.read_text(encoding="utf-8")
    assert endpoint.asked


def test_offsets_are_claimed_and_moved(connections: Connections) -> None:
    offsets = SqlServerOffsets(connections())
    offsets.ensure()
    offsets.claim(PERSONS, 1)
    offsets.commit(PERSONS, 1, seen=None, position=position(3, 4, 5, 2))
    assert offsets.claim(PERSONS, 2).position == position(3, 4, 5, 2)


def test_large_statements_and_large_answers_are_whole(connections: Connections) -> None:
    text = "x" * 3_000_000
    connection = connections()
    assert connection.rows(f"SELECT LEN({P}), {P}", (text, text)) == [(3_000_000, text)]


def test_an_answer_is_read_as_far_as_it_is_wanted(connections: Connections) -> None:
    connection = connections()
    connection.result_sets("CREATE TABLE dbo.t (n INT)")
    for _ in range(10):
        connection.result_sets("INSERT INTO dbo.t VALUES " + ", ".join(f"({n})" for n in range(1000)))
    found, whole = connection.rows_until("SELECT n FROM dbo.t", (), lambda row: True)
    assert (len(found[0]), whole) == (1, False)
    assert connection.rows("SELECT COUNT(*) FROM dbo.t") == [(10_000,)]


def test_a_victim_of_others_is_known_by_the_servers_number_and_its_session_lives_on(
    server: SqlServerEmulator, connections: Connections
) -> None:
    ours, other = connections(), connections()
    session = ours.rows("SELECT @@SPID")
    ours.result_sets("CREATE TABLE dbo.t (n INT)")
    other.result_sets("BEGIN TRAN; SELECT n FROM dbo.t WITH (TABLOCKX, HOLDLOCK)")
    with pytest.raises(TransientError, match="error 1222") as locked:
        ours.result_sets("SET LOCK_TIMEOUT 0; SELECT n FROM dbo.t")
    assert is_error(locked.value, 1222)
    other.result_sets("ROLLBACK")
    with (
        server.inject(faults.DeadlockVictim(pattern="dbo.t")),
        pytest.raises(TransientError, match="error 1205") as victim,
    ):
        ours.result_sets("SELECT n FROM dbo.t")
    assert is_error(victim.value, 1205)
    assert ours.rows("SELECT @@SPID") == session


@pytest.mark.parametrize("cut_after", range(0, 900, 150))
def test_a_connection_that_breaks_is_replaced(
    server: SqlServerEmulator, connections: Connections, cut_after: int
) -> None:
    connection = connections()
    batch = "SELECT REPLICATE('x', 200) AS a; SELECT REPLICATE('y', 200) AS b; SELECT 3 AS c"
    whole = connection.result_sets(batch)
    with server.inject(faults.ConnectionCutAfter(cut_after)), contextlib.suppress(TransientError):
        assert connection.result_sets(batch) == whole
    assert connection.result_sets(batch) == whole


def test_a_session_that_was_killed_says_so_and_is_replaced(server: SqlServerEmulator, connections: Connections) -> None:
    connection = connections()
    connection.rows("SELECT 1")
    with server.inject(faults.SessionKilled(pattern="SELECT 7")), pytest.raises(ConnectionLost, match="error 596"):
        connection.rows("SELECT 7")
    assert connection.rows("SELECT 1") == [(1,)]


def test_nothing_is_left_of_a_connection_that_was_closed(server: SqlServerEmulator, connections: Connections) -> None:
    until(lambda: relays() == 0)
    connection = connections()
    connection.rows("SELECT 1")
    assert (relays(), server.connections) == (1, 1)
    connection.close()
    until(lambda: (relays(), server.connections) == (0, 0))


# A server that says nothing


@pytest.mark.parametrize(
    "fault",
    [
        *(faults.Mute(stage) for stage in ("accept", "prelogin", "tls", "login", "reading")),
        *(faults.Mute(stage, pattern="SELECT 8") for stage in ("query", "answer")),
    ],
    ids=["accept", "prelogin", "tls", "login", "reading", "query", "answer"],
)
def test_a_server_that_falls_silent_is_given_up_and_served_by_again(
    server: SqlServerEmulator, database: str, certificate: Path, endpoint: TokenEndpoint, fault: faults.Mute
) -> None:
    connection = Connection(of_identity(server.port, database, certificate, connect_timeout="1"), query_seconds=1)
    with server.inject(fault):
        said = given_up(connection, "SELECT 8")
        until(lambda: relays() == 0)
    # On a busy machine the login may be given up on our side before the driver has noticed that its second is over.
    assert "no answer within 1 s" in said or "broke while logging in" in said
    assert connection.rows("SELECT 8") == [(8,)]
    connection.close()


@pytest.mark.parametrize(
    ("limit", "trickles"),
    [*((limit, True) for limit in (0, 20, 60, 2_000, None)), *((limit, False) for limit in (20, 60, 2_000))],
    ids=lambda value: ("trickling" if value else "silent") if isinstance(value, bool) else None,
)
def test_a_login_or_a_statement_that_trickles_ends(
    server: SqlServerEmulator,
    database: str,
    certificate: Path,
    endpoint: TokenEndpoint,
    trickles: bool,
    limit: int | None,
) -> None:
    """`limit`: what is let through of the answers to a login; None for a login that was let in, and a statement after it."""
    with contextlib.closing(Tap(server.port)) as tap:
        tap.trickles = trickles
        there = of_identity(tap.port, database, certificate, connect_timeout="1")
        connection = Connection(there, query_seconds=1)
        if limit is None:
            connection.rows("SELECT 1")
        tap.limits[1] = limit or 0
        assert "no answer within 1 s" in given_up(connection, "SELECT 8")
    until(lambda: relays() == 0)


def test_a_server_that_reads_nothing_more_holds_up_no_relay(
    server: SqlServerEmulator, database: str, certificate: Path, endpoint: TokenEndpoint
) -> None:
    """All buffers on the way are full, so that nobody notices by reading that the driver has left."""
    connection = Connection(of_identity(server.port, database, certificate), query_seconds=1)
    connection.rows("SELECT 1")
    with server.inject(faults.Mute("reading")), pytest.raises(ConnectionLost, match="no answer within 1 s"):  # noqa: PT012
        connection.rows("SELECT 1")  # after which the server reads nothing more
        connection.rows(f"SELECT {P}", ("x" * 30_000_000,))
    connection.close()
    until(lambda: relays() == 0)
