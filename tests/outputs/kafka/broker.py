"""A real broker of Kafka for tests: one process in KRaft mode, from its published jars (`make kafka`).

Clients of the tests sign in at one listener, over an address of the test's choice; the test itself uses another one, as a super user.
"""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Message, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from tests.worlds.ports import free_ports

CACHE = Path(__file__).parent / ".cache"
READY = 150.0
"""Seconds for a broker to answer, on a machine that is busy."""

_JAVA = ["java", "-Xms64m", "-Xmx384m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
_CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
_LOGGING = """\
rootLogger.level=warn
rootLogger.appenderRef.console.ref=C
appender.console.type=Console
appender.console.name=C
appender.console.layout.type=PatternLayout
appender.console.layout.pattern=%d %p %c %m%n
"""


def available() -> None:
    """Skip where the jars or Java are missing."""
    if not (CACHE / ".ready").exists() or shutil.which("java") is None:
        pytest.skip("Kafka is missing: make kafka")


class Broker:
    """`users`: passwords by name, for SASL/PLAIN. What a broker has stored stays there when it is stopped."""

    def __init__(self, folder: Path, users: Mapping[str, str], config: Mapping[str, str] | None = None) -> None:
        self._folder, self._users, self._config = folder, users, dict(config or {})
        self.port, self._own, self._controller = free_ports(3)
        self.advertised = self.port
        """The port at which its clients are told that it is."""
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def own_address(self) -> str:
        """For the tests themselves: no sign-in, all rights, past every relay."""
        return f"127.0.0.1:{self._own}"

    def start(self) -> None:
        """Returns when it answers."""
        fresh = not (self._folder / "log").exists()
        self._folder.mkdir(parents=True, exist_ok=True)
        properties, logging = self._folder / "server.properties", self._folder / "log4j2.properties"
        properties.write_text(self._properties())
        logging.write_text(_LOGGING)
        java = [*_JAVA, f"-Dlog4j2.configurationFile={logging}", "-cp", f"{CACHE}/jars/*"]
        with (self._folder / "out.txt").open("ab") as out:
            if fresh:
                command = [*java, "kafka.tools.StorageTool", "format", "-t", _CLUSTER_ID, "-c", str(properties)]
                subprocess.run(command, check=True, stdout=out, stderr=out, timeout=READY)
            self._process = subprocess.Popen(
                [*java, "kafka.Kafka", str(properties)], stdout=out, stderr=out, stdin=subprocess.DEVNULL
            )
        self._await()

    def _await(self) -> None:
        end = time.monotonic() + READY
        while True:
            assert self._process is not None
            assert self._process.poll() is None, (self._folder / "out.txt").read_text()[-3000:]
            try:
                found = self.admin().list_topics(timeout=1)
                if found.brokers:
                    return
            except KafkaException:
                assert time.monotonic() < end, (self._folder / "out.txt").read_text()[-3000:]

    def stop(self) -> None:
        """As SIGKILL does."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()

    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.own_address, "log_level": 0})

    def create(self, topic: str, *, partitions: int = 3, config: Mapping[str, str] | None = None) -> None:
        admin = self.admin()
        for future in admin.create_topics([NewTopic(topic, partitions, 1, config=dict(config or {}))]).values():
            future.result(READY)
        end = time.monotonic() + READY
        while topic not in admin.list_topics(timeout=READY).topics:  # a broker learns of it a moment later
            assert time.monotonic() < end
            time.sleep(0.02)

    def allow(self, user: str, *operations: AclOperation, topics: str = "", cluster: bool = False) -> None:
        """On topics whose names begin with `topics`, or on the cluster."""
        kind, name = (ResourceType.BROKER, "kafka-cluster") if cluster else (ResourceType.TOPIC, topics or "*")
        pattern = ResourcePatternType.PREFIXED if topics else ResourcePatternType.LITERAL
        bindings = [
            AclBinding(kind, name, pattern, f"User:{user}", "*", each, AclPermissionType.ALLOW) for each in operations
        ]
        admin = self.admin()
        for future in admin.create_acls(bindings).values():
            future.result(READY)

    def read(self, topic: str) -> Sequence[Message]:
        """All records of a topic, partition after partition, in their order."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.own_address,
                "group.id": "reader",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "log_level": 0,
            }
        )
        try:
            known = consumer.list_topics(topic, timeout=READY).topics[topic]
            if known.error is not None:
                return []
            found: list[Message] = []
            for partition in known.partitions:
                found += _of_partition(consumer, TopicPartition(topic, partition, 0))
            return found
        finally:
            consumer.close()

    def _properties(self) -> str:
        users = " ".join(f'user_{name}="{password}"' for name, password in self._users.items())
        login = f"org.apache.kafka.common.security.plain.PlainLoginModule required {users};"
        config = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{self._controller}",
            "listeners": f"OWN://127.0.0.1:{self._own},CLIENT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{self._controller}",
            "advertised.listeners": f"OWN://127.0.0.1:{self._own},CLIENT://127.0.0.1:{self.advertised}",
            "listener.security.protocol.map": "OWN:PLAINTEXT,CLIENT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
            "listener.name.client.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.client.plain.sasl.jaas.config": login,
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "OWN",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
            "log.dirs": str(self._folder / "log"),
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "1",
            "group.initial.rebalance.delay.ms": "0",
            "auto.create.topics.enable": "true",  # nothing that DStream does may create a topic by the way
            "num.partitions": "3",
            "connection.failed.authentication.delay.ms": "20",
            **self._config,
        }
        return "".join(f"{name}={value}\n" for name, value in config.items())


def _of_partition(consumer: Consumer, begin: TopicPartition) -> Sequence[Message]:
    consumer.assign([begin])
    found, end = list[Message](), time.monotonic() + READY
    while time.monotonic() < end:
        message = consumer.poll(1.0)
        if message is None:
            continue
        error = message.error()
        if error is None:
            found.append(message)
        elif error.name() == "_PARTITION_EOF":
            return found
    raise AssertionError(f"the end of {begin.topic} was not reached")
