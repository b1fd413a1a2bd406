"""The contract of outputs over a real nats-server."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar, TypeVar
from urllib.parse import unquote

import nats
from nats.aio.client import Client
from nats.js.api import ConsumerConfig, DeliverPolicy
from pydantic import SecretStr

from common.message import Message
from common.names import TableName
from router.outputs.nats.output import NatsOutput
from router.outputs.nats.settings import NatsSettings
from router.outputs.port import Output, Stream
from tests.outputs.contract.cases import OutputContract
from tests.outputs.contract.world import GENEROUS, ORIGIN, Arrival, Recipe, World, change
from tests.outputs.nats.server import NatsServer

_T = TypeVar("_T")

PASSWORD, WEAK = "password-7f3a9c", "password-51b2d8"
_LARGEST = 262_144

_SETTINGS = {
    "max_payload": _LARGEST,
    "authorization": {
        "users": [
            {"user": "dstream", "password": PASSWORD},
            {"user": "weak", "password": WEAK, "permissions": {"publish": {"deny": ["server.>"]}}},
        ]
    },
}


class NatsWorld(World):
    """`stream`: the setting of that name."""

    impossible: ClassVar = {
        "test_a_busy_server_is_said_to_throttle": "a NATS server never says that it is busy: it is slow",
        "test_findings_of_a_missing_right": "a NATS server tells nobody what they may publish, until they do",
    }
    secrets = (PASSWORD, WEAK)
    stream = "cdc_{subject}"

    def __init__(self) -> None:
        super().__init__()
        self._folder = Path(tempfile.mkdtemp())
        self._stack.callback(shutil.rmtree, self._folder, ignore_errors=True)
        self._server = NatsServer(self._folder, _SETTINGS)

    @property
    def port(self) -> int:
        return self._server.port

    def start(self) -> None:
        self._server.start()

    def stop(self) -> None:
        self._server.kill()

    def recipe(self, *, timeout: float = GENEROUS) -> Recipe:
        return self._recipe("dstream", PASSWORD, timeout)

    def without_right(self, stream: Stream) -> Recipe:
        return self._recipe("weak", WEAK, GENEROUS)

    def _recipe(self, user: str, password: str, timeout: float) -> Recipe:
        arguments = {
            "port": self.relay.port,
            "timeout": timeout,
            "user": user,
            "password": password,
            "stream": self.stream,
        }
        return Recipe("tests.outputs.nats.test_contract:made", arguments)

    def destination(self, table: TableName) -> str:
        return f"{ORIGIN.server}.{ORIGIN.database}.{table.schema}.{table.table}"

    def place(self) -> Stream:
        stream = self.nowhere()
        settings = _settings(self.port, GENEROUS, "dstream", PASSWORD, self.stream)
        output = NatsOutput(settings)
        output.provision([stream], how="create")
        output.close()
        return stream

    def arrived(self, stream: Stream) -> Sequence[Arrival]:
        return self._with(lambda client: self._read(client, stream.destination))

    async def _read(self, client: Client, subject: str) -> list[Arrival]:
        found = list[Arrival]()
        js = client.jetstream()
        try:
            stream = await js.find_stream_name_by_subject(subject)
        except nats.js.errors.NotFoundError:
            return found
        config = ConsumerConfig(deliver_policy=DeliverPolicy.ALL)
        reading = await js.pull_subscribe(subject, stream=stream, config=config)
        left = (await reading.consumer_info()).num_pending
        while left:
            for message in await reading.fetch(500, timeout=10):
                await message.ack()
                headers = message.headers or {}
                session = headers.get("DStream-Session")
                found.append(
                    Arrival(
                        unquote(headers["Nats-Msg-Id"]), None if session is None else unquote(session), message.data
                    )
                )
                left -= 1
        await reading.unsubscribe()
        return found

    def _with(self, work: Callable[[Client], Awaitable[_T]]) -> _T:
        """Past the relay."""

        async def run() -> _T:
            client = await nats.connect(f"nats://127.0.0.1:{self.port}", user="dstream", password=PASSWORD)
            try:
                return await work(client)
            finally:
                await client.close()

        return asyncio.run(run())

    def refusable(self, stream: Stream, number: int, session: str | None) -> Message:
        return change(stream, number, session, size=_LARGEST)


class SharedWorld(NatsWorld):
    stream = "dstream"


def _settings(port: int, timeout: float, user: str, password: str, stream: str) -> NatsSettings:
    settings: dict[str, Any] = {
        "type": "nats",
        "servers": (f"nats://127.0.0.1:{port}",),
        "user": user,
        "password": SecretStr(password),
        "stream": stream,
        "timeout": timedelta(seconds=timeout),
    }
    return NatsSettings(**settings)


def made(port: int, timeout: float, user: str, password: str, stream: str) -> Output:
    return NatsOutput(_settings(port, timeout, user, password, stream))


class TestNats(OutputContract):
    """A JetStream stream for each table."""

    world_type = NatsWorld


class TestNatsWithOneStream(OutputContract):
    world_type = SharedWorld
