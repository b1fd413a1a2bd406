"""Which settings of librdkafka a configuration may not change. Pure.

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

_SECRET_PARTS: Final = ("password", "secret", ".pem", "oauthbearer.config", "token")


def refused_setting(name: str) -> str | None:
    """Why a configuration may not set it; None when it may. Whether librdkafka knows it shows when it is used."""
    folded = name.strip().lower()
    if folded.endswith("_cb") or folded in ("logger", "on_delivery"):
        return "is not a setting for a configuration file"
    if (reason := _REFUSED.get(folded)) is not None:
        return reason
    if folded.startswith("test."):
        return "is for tests of the library alone"
    if any(part in folded for part in _SECRET_PARTS):
        return "holds a secret, for which there is no place here"
    return None
