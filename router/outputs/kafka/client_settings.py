"""Which settings of librdkafka a configuration may change: those that tune it. Pure.

Refuses every other one, known or not: some load code, start a program, open a file or ask another server for a token.

https://github.com/confluentinc/librdkafka/blob/master/CONFIGURATION.md
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_PROMISE: Final = "is not to be changed: order and acceptance rest on it"
_TIMEOUT: Final = "follows from the setting timeout"
_BLOCK: Final = "is the setting {} of this block"

_REFUSED: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        (
            "acks",
            "request.required.acks",
            "enable.idempotence",
            "enable.gapless.guarantee",
            "max.in.flight",
            "max.in.flight.requests.per.connection",
            "retries",
            "message.send.max.retries",
            "queuing.strategy",
            "partitioner",
            "partitioner_cb",
            "transactional.id",
            "delivery.report.only.error",
            "allow.auto.create.topics",
            "message.max.bytes",
            "plugin.library.paths",
        ),
        _PROMISE,
    ),
    **dict.fromkeys(
        ("enable.ssl.certificate.verification", "ssl.endpoint.identification.algorithm"),
        "is not to be changed: a server that is not verified would get the password",
    ),
    **dict.fromkeys(
        (
            "message.timeout.ms",
            "delivery.timeout.ms",
            "request.timeout.ms",
            "socket.timeout.ms",
            "topic.metadata.propagation.max.ms",
        ),
        _TIMEOUT,
    ),
    **dict.fromkeys(("bootstrap.servers", "metadata.broker.list"), _BLOCK.format("bootstrap_servers")),
    **dict.fromkeys(("compression.codec", "compression.type"), _BLOCK.format("compression")),
    "security.protocol": "follows from the settings tls and username of this block",
    **dict.fromkeys(("sasl.mechanism", "sasl.mechanisms"), _BLOCK.format("sasl_mechanism")),
    "sasl.username": _BLOCK.format("username"),
    "sasl.password": _BLOCK.format("password"),
    "ssl.ca.location": _BLOCK.format("ca_file"),
    "ssl.certificate.location": _BLOCK.format("certificate_file"),
    "ssl.key.location": _BLOCK.format("key_file"),
    "ssl.key.password": _BLOCK.format("key_password"),
}

TUNING: Final = frozenset(
    (
        "api.version.fallback.ms",
        "api.version.request",
        "api.version.request.timeout.ms",
        "batch.num.messages",
        "batch.size",
        "broker.address.family",
        "broker.address.ttl",
        "broker.version.fallback",
        "client.dns.lookup",
        "client.id",
        "client.rack",
        "compression.level",
        "connections.max.idle.ms",
        "debug",
        "enable.metrics.push",
        "log.connection.close",
        "log.queue",
        "log.thread.name",
        "log_level",
        "linger.ms",
        "message.copy.max.bytes",
        "metadata.max.age.ms",
        "metadata.recovery.rebootstrap.trigger.ms",
        "metadata.recovery.strategy",
        "queue.buffering.backpressure.threshold",
        "queue.buffering.max.kbytes",
        "queue.buffering.max.messages",
        "queue.buffering.max.ms",
        "receive.message.max.bytes",
        "reconnect.backoff.max.ms",
        "reconnect.backoff.ms",
        "retry.backoff.max.ms",
        "retry.backoff.ms",
        "socket.connection.setup.timeout.ms",
        "socket.keepalive.enable",
        "socket.max.fails",
        "socket.nagle.disable",
        "socket.receive.buffer.bytes",
        "socket.send.buffer.bytes",
        "ssl.cipher.suites",
        "ssl.curves.list",
        "ssl.sigalgs.list",
        "statistics.interval.ms",
        "sticky.partitioning.linger.ms",
        "topic.metadata.refresh.fast.interval.ms",
        "topic.metadata.refresh.interval.ms",
        "topic.metadata.refresh.sparse",
    )
)


def refused_setting(name: str) -> str | None:
    """Why a configuration may not set it; None when it may."""
    folded = name.strip().lower()
    if folded.endswith("_cb") or folded in ("logger", "on_delivery"):
        return "is not a setting for a configuration file"
    if (reason := _REFUSED.get(folded)) is not None:
        return reason
    if name not in TUNING:
        return "is not one of the settings that tune librdkafka, such as linger.ms; docs/outputs/kafka.md names them"
    return None
