"""The demo's changes in topics of Kafka."""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaException
from confluent_kafka.admin import AdminClient

from common.errors import ConfigurationError
from common.names import TableName
from dstream.demo.destinations.program import Program, found, free_port
from dstream.demo.reading import MessageReader
from dstream.demo.schema import TABLES

_INSTALL = "unpack Kafka 3.9 or newer, set KAFKA_HOME to its folder, and have Java 17 on PATH; or name a broker that runs: --server HOST:PORT"
_WAIT = 0.5


class KafkaDestination:
    """`server`: bootstrap servers of a cluster that runs; None: a broker is started from KAFKA_HOME."""

    ingester = ""

    def __init__(self, server: str | None) -> None:
        self._program = None if server else Program("kafka")
        self.where = server or f"127.0.0.1:{free_port()}"

    def start(self) -> None:
        if self._program is None:
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
                f"listeners=PLAINTEXT://{self.where},CONTROLLER://127.0.0.1:{controller}",
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
            client = AdminClient({"bootstrap.servers": self.where}, logger=_quiet())
            return bool(client.list_topics(timeout=1).brokers)
        except KafkaException:
            return False

    @property
    def block(self) -> str:
        return f'type = "kafka"\nbootstrap_servers = "{self.where}"\ntls = false\ntopic = "demo.{{schema}}.{{table}}"\n'

    def reader(self) -> KafkaReader:
        return KafkaReader(self.where, {f"demo.{table.schema}.{table.table}": table for table in TABLES})

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
        self._threads = [threading.Thread(target=self._run, name="consumer", daemon=True)]

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
