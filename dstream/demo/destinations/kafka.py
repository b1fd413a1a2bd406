"""The demo's changes in topics of Kafka."""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from confluent_kafka import Consumer, KafkaException
from confluent_kafka.admin import AdminClient

from common.errors import ConfigurationError
from common.names import TableName
from dstream.demo.destinations.program import Program, found, free_port, require, run_name
from dstream.demo.reading import MessageReader
from dstream.demo.schema import TABLES

_INSTALL = "unpack Kafka 3.9 or newer, set KAFKA_HOME to its folder, and have Java 17 on PATH; or name a broker that runs: --server HOST:PORT"
_SERVERS = re.compile(r"[\w.-]+:\d+(,[\w.-]+:\d+)*")
_WAIT = 0.5
_REACH = 15


class KafkaDestination:
    """`server`: bootstrap servers of a cluster that runs; None: a broker is started from KAFKA_HOME."""

    ingester = ""
    variables: Mapping[str, str] = MappingProxyType({})

    def __init__(self, server: str | None) -> None:
        if server is not None and not _SERVERS.fullmatch(server):
            raise ConfigurationError(["--server must be HOST:PORT of a broker without TLS and users"])
        self._program = None if server else Program("kafka")
        self._servers = server or f"127.0.0.1:{free_port()}"
        self._run = run_name()
        self.where = f"Kafka at {self._servers}"

    def start(self) -> None:
        if self._program is None:
            require(self._answers, self.where)
            return
        jars = Path(os.environ.get("KAFKA_HOME", "/opt/kafka"), "libs")
        if not list(jars.glob("kafka_*.jar")):
            raise ConfigurationError([f"--output kafka: {jars} has no Kafka"], hint=_INSTALL)
        java = [str(found("java", _INSTALL)), "-Xmx384m", "-XX:+UseSerialGC", "-cp", f"{jars}/*"]
        properties = str(self._program.write("server.properties", self._properties()))
        cluster = uuid.uuid4().hex[:22]
        self._program.run([*java, "kafka.tools.StorageTool", "format", "-t", cluster, "-c", properties])
        self._program.start([*java, "kafka.Kafka", properties], self._answers)

    def _properties(self) -> str:
        assert self._program is not None
        controller = free_port()
        return "\n".join(
            (
                "process.roles=broker,controller",
                "node.id=1",
                f"controller.quorum.voters=1@127.0.0.1:{controller}",
                f"listeners=PLAINTEXT://{self._servers},CONTROLLER://127.0.0.1:{controller}",
                "controller.listener.names=CONTROLLER",
                f"log.dirs={self._program.folder}/log-dirs",
                "offsets.topic.replication.factor=1",
                "offsets.topic.num.partitions=1",
                "transaction.state.log.replication.factor=1",
                "transaction.state.log.min.isr=1",
                "group.initial.rebalance.delay.ms=0",
                "auto.create.topics.enable=false",
                "",
            )
        )

    def _answers(self) -> bool:
        try:
            client = AdminClient({"bootstrap.servers": self._servers}, logger=_quiet())
            return bool(client.list_topics(timeout=1 if self._program else _REACH).brokers)
        except KafkaException:
            return False

    @property
    def block(self) -> str:
        topic = f"{self._run}.{{schema}}.{{table}}"
        return f'type = "kafka"\nbootstrap_servers = "{self._servers}"\ntls = false\ntopic = "{topic}"\n'

    def reader(self) -> KafkaReader:
        return KafkaReader(self._servers, {f"{self._run}.{table.schema}.{table.table}": table for table in TABLES})

    def died(self) -> bool:
        return self._program is not None and self._program.died()

    def stop(self) -> None:
        if self._program is not None:
            self._program.stop()


class KafkaReader(MessageReader):
    """One consumer of all topics, from their beginning."""

    def __init__(self, servers: str, tables: Mapping[str, TableName]) -> None:
        super().__init__(tables.values())
        self._servers, self._tables = servers, tables
        self._threads = [self.thread(self._run, "consumer")]

    def _run(self) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": self._servers,
                "group.id": f"dstream-demo-{uuid.uuid4().hex}",
                "auto.offset.reset": "earliest",
                "topic.metadata.refresh.interval.ms": 1000,
            },
            logger=_quiet(),
        )
        try:
            consumer.subscribe(list(self._tables))
            while not self._stop.is_set():
                for message in consumer.consume(200, timeout=_WAIT):
                    if message.error() is None and (body := message.value()) is not None:
                        told: dict[str, Any] = dict(message.headers() or ())
                        table = self._tables[str(message.topic())]
                        self.keep(table, bytes(body), _text(told.get("id")), _text(told.get("operation")))
        finally:
            consumer.close()


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value or "")


def _quiet() -> Any:
    """A topic that is not there yet, and a broker that still starts, are no news here."""
    import logging

    logger = logging.getLogger("dstream.demo.kafka")
    logger.propagate = False
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())
    return logger
