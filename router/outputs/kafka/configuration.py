"""What librdkafka is told, by the settings of an output. Pure.

https://github.com/confluentinc/librdkafka/blob/master/CONFIGURATION.md
"""

from __future__ import annotations

from typing import Any, Final

from router.outputs.kafka.settings import KafkaOutputSettings


def of_client(settings: KafkaOutputSettings) -> dict[str, Any]:
    """What both a producer and an administrative client are told. Secrets are in it. Raises ConfigurationError for a variable that is not set.

    - Event Hubs and many firewalls forget a connection that is idle for four minutes, so it is closed before.
    - A client whose brokers are all gone does not look for others: it is thrown away, and the next one begins at `bootstrap_servers`.
    """
    seconds = settings.timeout.total_seconds()
    return {
        "bootstrap.servers": settings.where,
        "client.id": "dstream",
        "socket.timeout.ms": max(1_000, int(seconds * 700)),
        "socket.connection.setup.timeout.ms": max(1_000, min(10_000, int(seconds * 700))),
        "socket.keepalive.enable": True,
        "connections.max.idle.ms": 180_000,
        "metadata.max.age.ms": 180_000,
        "reconnect.backoff.ms": 50,
        "reconnect.backoff.max.ms": 500,
        "metadata.recovery.strategy": "none",
        "allow.auto.create.topics": False,
        **_of_security(settings),
        **{name: value for name, value in settings.client.items() if name not in _OF_PRODUCER},
    }


_OF_PRODUCER: Final = frozenset(
    {"linger.ms", "queue.buffering.max.ms", "batch.size", "batch.num.messages", "compression.level", "retry.backoff.ms"}
    | {"retry.backoff.max.ms", "queue.buffering.max.messages", "queue.buffering.max.kbytes"}
    | {"queue.buffering.backpressure.threshold", "sticky.partitioning.linger.ms"}
)
"""Settings that an administrative client warns of."""


def of_producer(settings: KafkaOutputSettings) -> dict[str, Any]:
    """What a producer is told.

    - One request on its way to a broker: a broker accepts any first sequence number of a producer that it does not know yet, so with several on
      their way the second of two first requests would be accepted although the first was refused.
    - No message times out by itself: a message that did would leave a gap in front of those behind it. The sender's deadline ends all at once.
    - A refused message ends the producer (`enable.gapless.guarantee`), so that nothing behind it is accepted.
    - No limit of its own for a message: the topic's counts. Batches are smaller than a broker's default limit.
    """
    seconds = settings.timeout.total_seconds()
    return {
        **of_client(settings),
        "linger.ms": 1,
        "batch.size": 900_000,
        "compression.type": settings.compression,
        "queue.buffering.max.kbytes": 2_097_151,
        **settings.client,
        "acks": "all",
        "enable.idempotence": True,
        "enable.gapless.guarantee": True,
        "max.in.flight.requests.per.connection": 1,
        "message.timeout.ms": 0,
        "message.max.bytes": 1_000_000_000,
        "request.timeout.ms": max(500, int(seconds * 500)),
        "topic.metadata.propagation.max.ms": max(500, int(seconds * 300)),
        "partitioner": "murmur2_random",
    }


def _of_security(settings: KafkaOutputSettings) -> dict[str, Any]:
    encrypted, signed = settings.tls, settings.username is not None
    told: dict[str, Any] = {
        "security.protocol": ("sasl_" if signed else "") + ("ssl" if encrypted else "plaintext"),
    }
    if settings.username is not None and settings.password is not None:
        told["sasl.mechanism"] = settings.sasl_mechanism
        told["sasl.username"] = settings.username
        told["sasl.password"] = settings.password.get_secret_value()
    if encrypted:
        told["ssl.endpoint.identification.algorithm"] = "https"
        told["ssl.ca.location"] = settings.ca_file or "probe"
        if settings.certificate_file is not None:
            told["ssl.certificate.location"] = settings.certificate_file
            told["ssl.key.location"] = settings.key_file or settings.certificate_file
            if settings.key_password is not None:
                told["ssl.key.password"] = settings.key_password.get_secret_value()
    return told
