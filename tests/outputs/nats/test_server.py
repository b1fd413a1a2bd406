"""What a real nats-server does beside the contract: other writers, full streams, ways to sign in, TLS."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import nats
import pytest
from pydantic import SecretStr

from common.bus.ports import SendInterrupted
from common.check import Outcome
from common.config.sizes import Size
from common.errors import EntityUnavailable, PermanentError, TransientError
from common.in_time import begun
from common.names import TableName
from router.outputs.nats.output import NatsOutput
from router.outputs.nats.settings import NatsSettings
from router.outputs.port import Stream
from tests.outputs.contract.delivery import MERCY, compared, deliver
from tests.outputs.contract.world import change, session
from tests.outputs.nats.server import NatsServer
from tests.outputs.nats.test_contract import NatsWorld, SharedWorld

SEED = "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY"
PUBLIC = "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4"
STREAM = Stream("server.shop.persons.events", TableName("dbo", "Persons"), "server.shop.dbo.Persons")


@contextmanager
def running(folder: Path, settings: dict[str, Any] | None = None) -> Iterator[NatsServer]:
    server = NatsServer(folder, settings or {})
    server.start()
    try:
        yield server
    finally:
        server.kill()


@contextmanager
def output(server: NatsServer, **given: Any) -> Iterator[NatsOutput]:
    settings: dict[str, Any] = {"type": "nats", "servers": (f"nats://localhost:{server.port}",), **given}
    made = NatsOutput(NatsSettings(**settings))
    try:
        yield made
    finally:
        made.close()


def test_two_processes_that_send_to_one_stream_keep_each_order() -> None:
    """Two outputs are two connections, as two processes have them: each breaks the other's chains."""
    with SharedWorld() as world:
        streams = [world.place(), world.place()]
        outputs = [world.recipe().output(), world.recipe().output()]
        sent = [[change(stream, n, session(stream, n % 3)) for n in range(600)] for stream in streams]
        try:
            calls = [
                begun(lambda o=o, s=s, m=m: deliver(o.sender(s), m, chunk=100), name="writer")  # type: ignore[misc]
                for o, s, m in zip(outputs, streams, sent, strict=True)
            ]
            delivered = [call.result(2 * MERCY) for call in calls]
        finally:
            for each in outputs:
                each.close()
        assert [each.interruptions for each in delivered] == [[], []]
        for stream, messages in zip(streams, sent, strict=True):
            found = compared(messages, world.arrived(stream))
            assert (found.lost, found.disordered, found.duplicates) == ([], [], 0)


def test_two_processes_that_send_sessions_of_one_table_keep_each_order() -> None:
    with NatsWorld() as world:
        stream = world.place()
        outputs = [world.recipe().output(), world.recipe().output()]
        sent = [[change(stream, n, session(stream, b)) for n in range(b, 600, 2)] for b in range(2)]
        try:
            calls = [
                begun(lambda o=o, m=m: deliver(o.sender(stream), m, chunk=100), name="writer")  # type: ignore[misc]
                for o, m in zip(outputs, sent, strict=True)
            ]
            for call in calls:
                assert call.result(2 * MERCY).interruptions == []
        finally:
            for each in outputs:
                each.close()
        found = compared([*sent[0], *sent[1]], world.arrived(stream))
        assert (found.lost, found.disordered, found.duplicates) == ([], [], 0)


def test_a_full_stream_refuses_and_nothing_overtakes_what_it_refused(tmp_path: Path) -> None:
    """A large message does not fit; the small one behind it would, and must not be taken before it."""
    with running(tmp_path) as server, output(server, max_bytes=Size(50_000)) as made:
        made.provision([STREAM], how="create")
        sent = [change(STREAM, n, "one", size=30_000 if n == 2 else 0) for n in range(3)]
        sent.append(change(STREAM, 3, "one"))
        fill = [change(STREAM, 100 + n, "two", size=10_000) for n in range(3)]
        sender = made.sender(STREAM)
        sender.send(fill)
        with pytest.raises(SendInterrupted, match="make room") as raised:
            sender.send(sent)
        assert raised.value.accepted == {0, 1}


def test_an_nkey_signs_in(tmp_path: Path) -> None:
    with running(tmp_path, {"authorization": {"users": [{"nkey": PUBLIC}]}}) as server:
        with output(server, nkey_seed=SecretStr(SEED)) as made:
            made.provision([STREAM], how="create")
            made.sender(STREAM).send([change(STREAM, 1, "one")])
        with output(server) as made, pytest.raises(EntityUnavailable, match="check user and password"):
            made.sender(STREAM).open()


def test_a_token_signs_in(tmp_path: Path) -> None:
    with running(tmp_path, {"authorization": {"token": "token-7f3a9c"}}) as server:
        with output(server, token=SecretStr("token-7f3a9c")) as made:
            made.sender(STREAM).open()
        with output(server, token=SecretStr("wrong")) as made, pytest.raises(EntityUnavailable) as raised:
            made.sender(STREAM).open()
        assert "wrong" not in str(raised.value)


def test_nothing_is_sent_to_a_server_without_tls_where_tls_was_asked_for(tmp_path: Path) -> None:
    with running(tmp_path, {"authorization": {"token": "token-7f3a9c"}}) as server:
        way = {"servers": (f"tls://localhost:{server.port}",), "token": SecretStr("token-7f3a9c")}
        with output(server, **way) as made, pytest.raises(EntityUnavailable, match="the server offers no TLS"):
            made.sender(STREAM).open()


def test_tls_with_an_authority_of_its_own(tmp_path: Path, certificate: tuple[Path, Path]) -> None:
    pem, key = certificate
    with running(tmp_path, {"tls": {"cert_file": str(pem), "key_file": str(key)}}) as server:
        tls = {"servers": (f"tls://localhost:{server.port}",), "timeout": timedelta(seconds=20)}
        with output(server, **tls, ca_file=str(pem)) as made:
            made.provision([STREAM], how="create")
            made.sender(STREAM).send([change(STREAM, 1, "one")])
        with output(server, **tls) as made, pytest.raises(TransientError, match="not trusted"):
            made.sender(STREAM).open()


def test_a_server_without_jetstream_is_said_to_have_none(tmp_path: Path) -> None:
    with running(tmp_path, {"jetstream": False}) as server, output(server) as made:
        with pytest.raises(PermanentError, match="enable JetStream"):
            made.provision([STREAM], how="create")
        with pytest.raises(EntityUnavailable, match="JetStream must be enabled"):
            made.sender(STREAM).send([change(STREAM, 1, "one")])
        assert [each.outcome for each in made.findings([STREAM], provision="create")] == [Outcome.FAIL]


def test_a_stream_of_another_name_is_not_sent_to(tmp_path: Path) -> None:
    with running(tmp_path) as server:

        async def create() -> None:
            client = await nats.connect(f"nats://127.0.0.1:{server.port}")
            await client.jetstream().add_stream(name="theirs", subjects=["server.>"])
            await client.close()

        asyncio.run(create())
        with output(server) as made:
            with pytest.raises(EntityUnavailable, match="another stream has this subject"):
                made.sender(STREAM).send([change(STREAM, 1, "one")])
            with pytest.raises(PermanentError, match="overlap"):
                made.provision([STREAM], how="create")
        with output(server, stream="theirs") as made:
            made.provision([STREAM], how="verify")
            made.sender(STREAM).send([change(STREAM, 1, "one")])


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
