"""The demo's changes in a stream of NATS JetStream."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Mapping
from contextlib import suppress
from types import MappingProxyType
from urllib.parse import urlsplit

import nats
from nats.js.api import AckPolicy, ConsumerConfig
from nats.js.client import JetStreamContext
from nats.js.errors import NotFoundError

from common.errors import ConfigurationError
from common.names import TableName
from dstream.demo.destinations.program import Program, found, free_port, require, run_name
from dstream.demo.reading import MessageReader
from dstream.demo.schema import TABLES

_INSTALL = "apt install nats-server, or name a server that runs with JetStream: --server nats://HOST:PORT"
_CONSUMER = "demo"
_BATCH = 200
_WAIT = 0.5
_REACH = 5


class NatsDestination:
    """`server`: its address, without a user; None: a server is started."""

    ingester = ""
    variables: Mapping[str, str] = MappingProxyType({})

    def __init__(self, server: str | None) -> None:
        self._program = None if server else Program("nats")
        self._server = server or f"nats://127.0.0.1:{free_port()}"
        self._address = _address(self._server)
        self._run = run_name()
        self.where = f"NATS at {self._server}"

    def start(self) -> None:
        if self._program is None:
            require(self._answers, self.where)
            return
        program = str(found("nats-server", _INSTALL))
        host, port = self._address
        store = {"store_dir": str(self._program.folder / "store")}
        config = self._program.write("nats.conf", json.dumps({"host": host, "port": port, "jetstream": store}))
        self._program.start([program, "-c", str(config)], self._answers)

    def _answers(self) -> bool:
        try:
            with socket.create_connection(self._address, timeout=_REACH) as client:
                return client.recv(4) == b"INFO"
        except OSError:
            return False

    @property
    def block(self) -> str:
        subject = f"{self._run}.{{schema}}.{{table}}"
        return f'type = "nats"\nservers = ["{self._server}"]\nstream = "{self._run}"\nsubject = "{subject}"\n'

    def reader(self) -> NatsReader:
        subjects = {f"{self._run}.{table.schema}.{table.table}": table for table in TABLES}
        return NatsReader(self._server, self._run, subjects)

    def died(self) -> bool:
        return self._program is not None and self._program.died()

    def stop(self) -> None:
        if self._program is not None:
            self._program.stop()


class NatsReader(MessageReader):
    """One consumer of the whole stream, from its beginning."""

    def __init__(self, server: str, stream: str, tables: Mapping[str, TableName]) -> None:
        super().__init__(tables.values())
        self._server, self._stream, self._tables = server, stream, tables
        self._threads = [self.thread(lambda: asyncio.run(self._read()), "consumer")]

    async def _read(self) -> None:
        client = await nats.connect(self._server, max_reconnect_attempts=-1)
        try:
            stream = client.jetstream()
            while not self._stop.is_set():
                if await self._consumer(stream):
                    await self._fetch(stream)
                await asyncio.sleep(_WAIT)
        finally:
            await client.close()

    async def _consumer(self, stream: JetStreamContext) -> bool:
        """Whether there is one; the router has not made the stream at first."""
        with suppress(NotFoundError):
            await stream.add_consumer(self._stream, ConsumerConfig(durable_name=_CONSUMER, ack_policy=AckPolicy.NONE))
            return True
        return False

    async def _fetch(self, stream: JetStreamContext) -> None:
        consumer = await stream.pull_subscribe_bind(_CONSUMER, self._stream)
        while not self._stop.is_set():
            with suppress(TimeoutError):
                for message in await consumer.fetch(_BATCH, timeout=_WAIT):
                    told = message.headers or {}
                    self.keep(
                        self._tables[message.subject], message.data, told.get("Nats-Msg-Id", ""), told.get("operation")
                    )


def _address(server: str) -> tuple[str, int]:
    """Raises ConfigurationError."""
    try:
        parts = urlsplit(server)
        port = parts.port or 4222
    except ValueError:
        parts, port = urlsplit(""), 0
    if parts.scheme != "nats" or not parts.hostname or "@" in parts.netloc:
        raise ConfigurationError(["--server must be nats://HOST:PORT, of a server without users"])
    return parts.hostname, port
