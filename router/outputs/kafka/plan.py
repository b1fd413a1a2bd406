"""What an output on Kafka creates and needs, and the commands of Kafka's own tools that do it. Pure; no secret is in it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from common.bus.ports import Provision
from router.outputs.kafka.settings import KafkaOutputSettings
from router.outputs.port import Planned, Stream

_NOBODY = "USER"


def planned(settings: KafkaOutputSettings, streams: Sequence[Stream], provision: Provision) -> Planned:
    """The topics of `streams`, each once."""
    places = list(dict.fromkeys(stream.destination for stream in streams))
    creates = [f"topic {place}{_like(settings)}" for place in places] if provision == "create" else []
    needs = [f"Write and Describe on topic {place}" for place in places]
    if provision == "create":
        needs.append("Create on these topics, for those that do not exist (or on the cluster)")
    needs.append("DescribeConfigs on these topics, if `dstream check` is to see their settings; it works without")
    lines = ["# admin.properties: how a person who may do this signs in"]
    lines += [create_command(settings, place) for place in places]
    lines += [acl_command(settings, place, creates=provision == "create") for place in places]
    return Planned(creates, needs, "\n".join(lines) + "\n")


def create_command(settings: KafkaOutputSettings, topic: str) -> str:
    """Does nothing where the topic exists."""
    words = ["kafka-topics.sh", *_where(settings), "--create", "--if-not-exists", "--topic", topic]
    if settings.partitions is not None:
        words += ["--partitions", str(settings.partitions)]
    if settings.replication_factor is not None:
        words += ["--replication-factor", str(settings.replication_factor)]
    for name, value in settings.topic_config.items():
        words += ["--config", f"{name}={value}"]
    return shlex.join(words)


def acl_command(settings: KafkaOutputSettings, topic: str, *, creates: bool = False) -> str:
    """The least rights. Kafka before 2.8 also needs IdempotentWrite on the cluster (KIP-679)."""
    principal = f"User:{settings.username or _NOBODY}"
    words = ["kafka-acls.sh", *_where(settings), "--add", "--allow-principal", principal]
    for operation in ("Write", "Describe", "DescribeConfigs", *(("Create",) if creates else ())):
        words += ["--operation", operation]
    return shlex.join([*words, "--topic", topic])


def _where(settings: KafkaOutputSettings) -> list[str]:
    return ["--bootstrap-server", settings.where, "--command-config", "admin.properties"]


def _like(settings: KafkaOutputSettings) -> str:
    """What is said of a topic that is created, beside its name."""
    said = [f"{settings.partitions} partitions"] if settings.partitions is not None else []
    said += [f"{settings.replication_factor} copies"] if settings.replication_factor is not None else []
    said += [f"{name}={value}" for name, value in settings.topic_config.items()]
    return f" ({', '.join(said)})" if said else ""
