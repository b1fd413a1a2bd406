"""A broker as the contract needs it: clients reach it over the relay, at which it says that it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, Self

from confluent_kafka import Message as Read
from confluent_kafka.admin import AclOperation
from pydantic import SecretStr

from common.message import Message
from common.names import TableName
from router.outputs.kafka.output import KafkaOutput
from router.outputs.kafka.records import ID
from router.outputs.kafka.settings import KafkaOutputSettings
from router.outputs.port import Stream
from tests.outputs.contract.world import GENEROUS, ORIGIN, Arrival, Recipe, World, change
from tests.outputs.kafka.broker import Broker, available
from tests.worlds.tcp_relay import TcpRelay

ROUTER, READER, WRITER = "router", "reader", "writer"
"""Who may do everything, who may not send, and who has the least rights."""

PASSWORDS = {ROUTER: "router-Password-1", READER: "reader-Password-2", WRITER: "writer-Password-3"}

LIMIT = 400_000
"""`max.message.bytes` of the world's topics: lower than Kafka's own, so that a chunk is larger than a batch may be."""


def output(port: int, timeout: float, **given: Any) -> KafkaOutput:
    """The factory of recipes."""
    return KafkaOutput(settings(port, timeout, **given))


def settings(port: int, timeout: float = GENEROUS, **given: Any) -> KafkaOutputSettings:
    user = given.pop("username", ROUTER)
    password = given.pop("password", PASSWORDS.get(user, "none"))
    told = {"bootstrap_servers": f"127.0.0.1:{port}", "tls": False, "username": user, "password": SecretStr(password)}
    return KafkaOutputSettings(**{**told, "timeout": timedelta(seconds=timeout), **given})


class KafkaWorld(World):
    impossible: ClassVar[Mapping[str, str]] = {
        "test_a_busy_server_is_said_to_throttle": "a broker over its quota answers late, and never refuses to answer",
    }
    secrets = tuple(PASSWORDS.values())

    def __init__(self) -> None:
        """Skips where Kafka is missing."""
        available()
        super().__init__()
        self.broker = Broker(Path(self._stack.enter_context(TemporaryDirectory(prefix="kafka-"))), PASSWORDS)

    def __enter__(self) -> Self:
        """The relay comes first: the broker advertises it."""
        self.relay = self._stack.enter_context(TcpRelay(self.broker.port))
        self.broker.advertised = self.relay.port
        self._stack.callback(self.stop)
        try:
            self.start()
            rights = (AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.CREATE, AclOperation.DESCRIBE_CONFIGS)
            self.broker.allow(ROUTER, *rights)
            self.broker.allow(WRITER, AclOperation.WRITE, AclOperation.DESCRIBE)
            self.broker.allow(READER, AclOperation.READ, AclOperation.DESCRIBE)
        except BaseException:
            self._stack.close()
            raise
        return self

    @property
    def port(self) -> int:
        return self.broker.port

    def start(self) -> None:
        self.broker.start()

    def stop(self) -> None:
        self.broker.stop()

    def recipe(self, *, timeout: float = GENEROUS, **given: Any) -> Recipe:
        arguments = {"port": self.relay.port, "timeout": timeout, **given}
        return Recipe("tests.outputs.kafka.world:output", arguments)

    def without_right(self, stream: Stream) -> Recipe:
        return self.recipe(username=READER)

    def place(self, *, partitions: int = 1, **config: str) -> Stream:
        """One partition, so that messages without a session have one order as well."""
        stream = self.nowhere()
        told = {"max.message.bytes": str(LIMIT), **{name.replace("_", "."): value for name, value in config.items()}}
        self.broker.create(stream.destination, partitions=partitions, config=told)
        return stream

    def destination(self, table: TableName) -> str:
        return settings(1).place(ORIGIN, ORIGIN.topic(table), table)

    def arrived(self, stream: Stream) -> Sequence[Arrival]:
        return [_arrival(each) for each in self.broker.read(stream.destination)]

    def refusable(self, stream: Stream, number: int, session: str | None) -> Message:
        return change(stream, number, session, size=LIMIT + 10_000)


def headers(read: Read) -> dict[str, str]:
    found: Any = read.headers()
    return {name: (value or b"").decode() for name, value in found or []}


def key(read: Read) -> str | None:
    found: Any = read.key()
    return None if found is None else found.decode()


def _arrival(read: Read) -> Arrival:
    body: Any = read.value()
    return Arrival(headers(read)[ID], key(read), body)
