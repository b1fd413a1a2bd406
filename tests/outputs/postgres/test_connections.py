"""How a real server is reached: TLS, passwords, a standby beside a primary, and connections that the server has closed."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from common.bus.ports import SendInterrupted
from common.check import Outcome
from common.errors import EntityUnavailable, TransientError
from emulators.certificates import LOCAL, _make_authority, _make_certificate
from router.outputs.postgres.output import PostgresOutput
from tests.outputs.postgres.feed import Feed, stream
from tests.outputs.postgres.server import PASSWORD, PostgresServer
from tests.outputs.postgres.world import PostgresWorld, settings
from tests.worlds.ports import free_port

COLUMNS = [("ID", "int", 1)]


@pytest.fixture(scope="module")
def encrypted() -> Iterator[tuple[PostgresServer, str]]:
    """A server with a certificate for localhost, and the PEM text of its authority."""
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        _make_authority(place)
        _make_certificate(place, LOCAL)
        certificate, key, authority = (
            (place / name).read_text() for name in ("server.pem", "server.key", "authority.pem")
        )
    with PostgresServer(tls=(certificate, key)) as server:
        yield server, authority


@pytest.mark.parametrize(
    ("tls", "trusted", "works"),
    [
        ("verify-full", True, True),
        ("verify-full", False, False),
        ("verify-ca", True, True),
        ("require", False, True),
    ],
)
def test_tls(encrypted: tuple[PostgresServer, str], tmp_path: Path, tls: str, trusted: bool, works: bool) -> None:
    server, made = encrypted
    authority = tmp_path / "ca.pem"
    authority.write_text(made)
    more: dict[str, Any] = {"ca_file": str(authority)} if trusted else {}
    output = PostgresOutput(settings(1, host=f"localhost:{server.port}", tls=tls, **more))
    if works:
        output.provision([], how="create")
    else:
        with pytest.raises(EntityUnavailable, match="certificate verify failed"):
            output.provision([], how="create")
    output.close()


def test_plain_text_is_refused_unless_the_settings_say_so(postgres: PostgresWorld) -> None:
    output = PostgresOutput(settings(postgres.port, tls="require"))
    with pytest.raises(EntityUnavailable, match="does not support SSL"):
        output.provision([], how="verify")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"password": SecretStr("Wrong-Secret-9")}, "password authentication failed"),
        ({"user": "nobody_here", "password": SecretStr("Wrong-Secret-9")}, "authentication failed"),
        ({"database": "nowhere"}, "does not exist"),
    ],
)
def test_a_login_that_is_refused_says_why_and_no_password(
    postgres: PostgresWorld, given: dict[str, Any], words: str
) -> None:
    output = PostgresOutput(settings(postgres.port, **given))
    to = stream()
    with pytest.raises(EntityUnavailable, match=words) as raised:
        output.sender(to).send([Feed(to).insert({"ID": 1})])
    assert raised.value.hint
    said = repr(raised.value) + str(raised.value) + repr(raised.value.__cause__) + repr(output)
    assert "Wrong-Secret-9" not in said
    assert PASSWORD not in said


def test_the_server_that_accepts_writes_is_used(postgres: PostgresWorld) -> None:
    """A database that is read-only by default looks like a standby; a port where nobody listens is passed over."""
    to = stream()
    postgres.server.run(
        "CREATE DATABASE quiet OWNER dstream", "ALTER DATABASE quiet SET default_transaction_read_only = on"
    )
    hosts = f"127.0.0.1:{free_port()},127.0.0.1:{postgres.port}"
    output = PostgresOutput(settings(1, host=hosts))
    output.sender(to).send([Feed(to).schema(COLUMNS)])
    output.close()
    other = PostgresOutput(settings(1, host=hosts, database="quiet"))
    with pytest.raises(TransientError):
        other.provision([], how="create")
    other.close()


def test_a_read_only_server_is_waited_for(postgres: PostgresWorld) -> None:
    to = stream()
    feed, output = Feed(to), PostgresOutput(settings(postgres.port))
    sender = output.sender(to)
    sender.send([feed.schema(COLUMNS)])
    postgres.server.run("ALTER ROLE dstream SET default_transaction_read_only = on")
    try:
        output.close()
        with pytest.raises(SendInterrupted, match="25006") as raised:
            sender.send([feed.insert({"ID": 1})])
        assert raised.value.accepted == frozenset()
    finally:
        postgres.server.run("ALTER ROLE dstream RESET default_transaction_read_only")
    sender.send([feed.insert({"ID": 1})])
    output.close()


def test_a_connection_that_the_server_has_closed_while_it_was_free_is_not_used(postgres: PostgresWorld) -> None:
    to = stream()
    feed, output = Feed(to), PostgresOutput(settings(postgres.port))
    sender = output.sender(to)
    sender.send([feed.schema(COLUMNS)])
    postgres.server.run("SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE usename = 'dstream'")
    sender.send([feed.insert({"ID": 1})])
    output.close()


def test_connections_are_as_many_as_the_settings_allow(postgres: PostgresWorld) -> None:
    output = PostgresOutput(settings(postgres.port, connections=2))
    feeds = [Feed(stream()) for _ in range(6)]
    for feed in feeds:
        output.sender(feed.stream).send([feed.schema(COLUMNS), feed.insert({"ID": 1})])
    [[used]] = postgres.server.rows("SELECT count(*) FROM pg_stat_activity WHERE usename = 'dstream'")
    assert used <= 2
    output.close()


def test_what_a_start_creates_can_be_created_by_two_at_once(postgres: PostgresWorld) -> None:
    from common.in_time import begun

    names = [f"own{number}" for number in range(3)]
    for name in names:
        outputs = [PostgresOutput(settings(postgres.port, own_schema=name)) for _ in range(4)]
        calls = [begun(lambda each=each: each.provision([], how="create"), name="start") for each in outputs]  # type: ignore[misc]
        assert [call.result(60) for call in calls] == [(), (), (), ()]
        assert all(each.outcome is Outcome.OK for each in outputs[0].findings([], provision="verify"))
        for each in outputs:
            each.close()


def test_commits_are_durable_whatever_the_role_says(postgres: PostgresWorld) -> None:
    to = stream()
    feed, output = Feed(to), PostgresOutput(settings(postgres.port))
    output.sender(to).send([feed.schema(COLUMNS)])
    postgres.server.run(
        "ALTER ROLE dstream SET synchronous_commit = off",
        "CREATE TABLE dbo.seen (setting text)",
        "GRANT ALL ON dbo.seen TO dstream",
        "CREATE FUNCTION dbo.see() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN INSERT INTO dbo.seen VALUES (current_setting('synchronous_commit')); RETURN NEW; END $$",
        f"CREATE TRIGGER seen AFTER INSERT ON {to.destination} EXECUTE FUNCTION dbo.see()",
    )
    try:
        output.close()
        output.sender(to).send([feed.insert({"ID": 1})])
    finally:
        postgres.server.run("ALTER ROLE dstream RESET synchronous_commit")
    assert postgres.server.rows("SELECT setting FROM dbo.seen") == [("on",)]
    output.close()
