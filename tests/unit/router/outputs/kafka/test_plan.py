"""The plan: what is created and needed, and the commands for it."""

from __future__ import annotations

import shlex

from pydantic import SecretStr

from common.names import TableName
from router.outputs.kafka.plan import planned
from router.outputs.kafka.settings import KafkaOutputSettings
from router.outputs.port import Stream

SETTINGS = KafkaOutputSettings(
    bootstrap_servers=["one:9092"],
    username="dstream",
    password=SecretStr("very-Secret-1"),
    partitions=6,
    topic_config={"min.insync.replicas": "2"},
)
STREAMS = [
    Stream("server.shop.persons.events", TableName("dbo", "Persons"), "server.shop.dbo.Persons"),
    Stream("server.shop.persons.events", TableName("dbo", "Persons"), "server.shop.dbo.Persons"),
    Stream("server.shop.orders.events", TableName("dbo", "Orders"), "server.shop.dbo.Orders"),
]


def test_what_is_created_and_the_least_rights() -> None:
    found = planned(SETTINGS, STREAMS, "create")
    assert found.creates == [
        "topic server.shop.dbo.Persons (6 partitions, min.insync.replicas=2)",
        "topic server.shop.dbo.Orders (6 partitions, min.insync.replicas=2)",
    ]
    assert found.needs[:2] == [
        "Write and Describe on topic server.shop.dbo.Persons",
        "Write and Describe on topic server.shop.dbo.Orders",
    ]
    assert any(each.startswith("Create ") for each in found.needs)


def test_without_provision_nothing_is_created_and_no_right_for_it_is_needed() -> None:
    found = planned(SETTINGS, STREAMS, "none")
    assert found.creates == []
    assert not any(each.startswith("Create ") for each in found.needs)
    assert "--operation Create" not in found.script


def test_the_commands() -> None:
    script = planned(SETTINGS, STREAMS, "create").script
    commands = [shlex.split(line) for line in script.splitlines() if not line.startswith("#")]
    assert [each[0] for each in commands] == ["kafka-topics.sh"] * 2 + ["kafka-acls.sh"] * 2
    assert commands[0][1:5] == ["--bootstrap-server", "one:9092", "--command-config", "admin.properties"]
    assert "--if-not-exists" in commands[0]
    assert {"User:dstream", "Write", "Describe", "Create"} <= set(commands[2])
    assert "very-Secret-1" not in script
