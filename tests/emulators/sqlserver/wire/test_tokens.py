"""Logins by an access token in place of user and password (FEDAUTH), as Azure SQL takes them from Microsoft Entra ID.

python-tds as an ordinary client; what no client does wrong, by hand.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import pytds
import pytest

from emulators.sqlserver.build import build_engine
from emulators.sqlserver.engine.server_engine import SqlEngine
from emulators.sqlserver.server import SqlServerEmulator
from tests.emulators.sqlserver.wire.raw_client import LOGIN, PRELOGIN, Client, login_body, packet

TOKEN, IDENTITY = "ey.J0eXAi.Oi", "dstream-prod"
ASKS, NONCE = 6, 7
REFUSED = "Login failed for user '<token-identified principal>'"


@pytest.fixture
def tokens() -> dict[str, str]:
    return {TOKEN: IDENTITY}


@pytest.fixture
def engine(tokens: dict[str, str]) -> Iterator[SqlEngine]:
    made = build_engine(users={"sa": "secret"}, databases=["demo"], tokens=tokens)
    yield made
    made.close()


@pytest.fixture
def server(engine: SqlEngine) -> Iterator[SqlServerEmulator]:
    with SqlServerEmulator(engine, federated=True) as running:
        yield running


def rows(server: SqlServerEmulator, sql: str, **login: Any) -> Any:
    with pytds.connect("127.0.0.1", port=server.port, autocommit=True, **login) as client, client.cursor() as cursor:
        cursor.execute(sql)
        return cursor.fetchall() if cursor.description else []


def as_administrator(server: SqlServerEmulator, sql: str) -> Any:
    return rows(server, sql, user="sa", password="secret", database="demo")


def as_identity(server: SqlServerEmulator, sql: str, token: str = TOKEN) -> Any:
    return rows(server, sql, access_token_callable=lambda: token, database="demo")


def number(error: Exception) -> int:
    return int(error.number)  # type: ignore[attr-defined]


def test_an_identity_that_was_given_a_user_is_that_user_with_its_rights(server: SqlServerEmulator) -> None:
    for sql in (
        "CREATE TABLE dbo.t (n INT)",
        "CREATE TABLE dbo.other (n INT)",
        f"CREATE USER [{IDENTITY}] FROM EXTERNAL PROVIDER",
        f"GRANT SELECT ON dbo.t TO [{IDENTITY}]",
    ):
        as_administrator(server, sql)
    assert as_identity(server, "SELECT USER_NAME(), SUSER_SNAME()") == [(IDENTITY, IDENTITY)]
    assert as_identity(server, "SELECT n FROM dbo.t") == []
    with pytest.raises(pytds.Error, match="permission was denied"):
        as_identity(server, "SELECT n FROM dbo.other")


def test_an_identity_without_a_user_cannot_open_the_database(server: SqlServerEmulator) -> None:
    with pytest.raises(pytds.Error, match=r"Cannot open database.*token-identified principal"):
        as_identity(server, "SELECT 1")


def test_a_token_that_nobody_gave_is_refused_as_azure_does(server: SqlServerEmulator) -> None:
    with pytest.raises(pytds.Error, match=REFUSED) as refused:
        as_identity(server, "SELECT 1", "another")
    assert number(refused.value) == 18456


def test_a_token_that_has_expired_is_refused(server: SqlServerEmulator, tokens: dict[str, str]) -> None:
    as_administrator(server, f"CREATE USER [{IDENTITY}] FROM EXTERNAL PROVIDER")
    assert as_identity(server, "SELECT 1") == [(1,)]
    del tokens[TOKEN]
    with pytest.raises(pytds.Error, match="token-identified principal"):
        as_identity(server, "SELECT 1")


def test_nobody_enters_as_an_identity_with_a_password(server: SqlServerEmulator) -> None:
    as_administrator(server, f"CREATE USER [{IDENTITY}] FROM EXTERNAL PROVIDER")
    with pytest.raises(pytds.Error, match=f"user '{IDENTITY}'"):
        rows(server, "SELECT 1", user=IDENTITY, password="", database="demo")


def test_only_identities_of_the_directory_become_users(server: SqlServerEmulator) -> None:
    with pytest.raises(pytds.Error, match="'stranger' could not be found") as refused:
        as_administrator(server, "CREATE USER stranger FROM EXTERNAL PROVIDER")
    assert number(refused.value) == 33130


def test_a_server_without_tokens_takes_none(engine: SqlEngine) -> None:
    with SqlServerEmulator(engine) as server, pytest.raises(pytds.Error) as refused:
        as_identity(server, "SELECT 1")
    assert number(refused.value) == 18452


# By hand (MS-TDS 2.2.6.5, 2.2.7.11, 3.3.5.5)


def prelogin(*options: tuple[int, bytes]) -> bytes:
    head, body = b"", b""
    for option, value in options:
        head += struct.pack(">BHH", option, 5 * len(options) + 1 + len(body), len(value))
        body += value
    return packet(PRELOGIN, head + b"\xff" + body)


def login(library: int = 1, echo: bool = True, nonce: bytes = b"", token: str = TOKEN) -> bytes:
    """A LOGIN7 with the feature FEDAUTH at its end."""
    body = bytearray(login_body("", ""))
    text = token.encode("utf-16-le")
    data = bytes([library << 1 | echo]) + struct.pack("<I", len(text)) + text + nonce
    struct.pack_into("<HH", body, 56, len(body), 4)
    body[27] |= 0x10
    body += struct.pack("<I", len(body) + 4) + struct.pack("<BI", 2, len(data)) + data + b"\xff"
    struct.pack_into("<I", body, 0, len(body))
    return packet(LOGIN, bytes(body))


def options(answer: bytes) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    at = 0
    while answer[at] != 0xFF:
        option, offset, length = struct.unpack_from(">BHH", answer, at)
        found[option] = answer[offset : offset + length]
        at += 5
    return found


@pytest.fixture
def client(server: SqlServerEmulator) -> Iterator[Client]:
    as_administrator(server, f"CREATE USER [{IDENTITY}] FROM EXTERNAL PROVIDER")
    made = Client(server.port)
    with made.socket:
        yield made


def test_a_login_by_token_is_acknowledged_as_one(client: Client) -> None:
    client.send(prelogin((ASKS, b"\1")))
    answer = options(client.message())
    assert (answer[ASKS], NONCE in answer) == (b"\1", False)
    client.send(login())
    assert b"\xae\x02\0\0\0\0\xff" in client.message()


def test_nonces_are_told_again_by_either_side(client: Client) -> None:
    client.send(prelogin((ASKS, b"\1"), (NONCE, b"n" * 32)))
    theirs = options(client.message())[NONCE]
    client.send(login(nonce=theirs))
    assert b"\xae\x02\x20\0\0\0" + b"n" * 32 + b"\xff" in client.message()


@pytest.mark.parametrize(
    ("offer", "answer"),
    [
        ([(ASKS, b"\1")], login(echo=False)),
        ([], login(echo=True)),
        ([(ASKS, b"\1"), (NONCE, b"n" * 32)], login()),
        ([(ASKS, b"\1"), (NONCE, b"n" * 32)], login(nonce=b"x" * 32)),
    ],
    ids=["no echo", "an echo of nothing", "no nonce", "another nonce"],
)
def test_a_login_that_repeats_something_else_is_let_go(
    client: Client, offer: list[tuple[int, bytes]], answer: bytes
) -> None:
    client.send(prelogin((0, bytes(6)), *offer))
    client.message()
    client.send(answer)
    assert client.closed()


def test_who_awaits_to_be_told_where_tokens_are_had_is_refused_by_name(client: Client) -> None:
    client.send(prelogin((ASKS, b"\1")))
    client.message()
    client.send(login(library=2))
    assert "sends no FEDAUTHINFO".encode("utf-16-le") in client.message()
