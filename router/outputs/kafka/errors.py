"""What an error of librdkafka means for a message or a topic. Pure: errors are known here by their names.

https://github.com/confluentinc/librdkafka/blob/master/src/rdkafka.h (rd_kafka_resp_err_t); names that begin with `_` are the library's own, the
others a broker's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from common.errors import DStreamError, EntityMissing, EntityUnavailable, PermanentError, TransientError

TOO_LARGE: Final = frozenset({"MSG_SIZE_TOO_LARGE", "RECORD_LIST_TOO_LARGE"})
REFUSED: Final = frozenset({"INVALID_RECORD", "POLICY_VIOLATION"})
MISSING: Final = frozenset({"UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION"})
NO_RIGHT: Final = frozenset(
    {"TOPIC_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED", "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"}
)
NOT_SIGNED_IN: Final = frozenset(
    {"_AUTHENTICATION", "SASL_AUTHENTICATION_FAILED", "ILLEGAL_SASL_STATE", "UNSUPPORTED_SASL_MECHANISM"}
)
BAD_TLS: Final = frozenset({"_SSL"})
BAD_SETTINGS: Final = frozenset({"_INVALID_ARG", "_UNKNOWN_PROTOCOL", "_NOT_CONFIGURED"})

UNREACHABLE: Final = NOT_SIGNED_IN | BAD_TLS | {"_ALL_BROKERS_DOWN", "_RESOLVE"}
"""What the library reports of all brokers: waiting for an answer does not help any more."""

CONSEQUENCES: Final = frozenset(
    {"_PURGE_QUEUE", "_PURGE_INFLIGHT", "_FATAL", "_GAPLESS_GUARANTEE", "_DESTROY", "_INVALID_DIFFERENT_RECORD"}
)
"""Of messages that failed because another one did."""

_CUT: Final = ("Local: ", "Disconnected", "Connection closed", "timed out")

_NO_RIGHT_HINT = "grant the user Write and Describe on the topic: see outputs/kafka.md"


@dataclass(frozen=True, slots=True)
class Fault:
    """An error as a value: its name and a text without secrets."""

    name: str
    text: str

    @classmethod
    def of(cls, name: str, text: str) -> Fault:
        """A connection that ends during the sign-in is reported as an authentication that failed. It is none: nobody was refused."""
        cut = name in NOT_SIGNED_IN and any(words in text for words in _CUT)
        return cls("_TRANSPORT" if cut else name, text)

    @property
    def is_consequence(self) -> bool:
        return self.name in CONSEQUENCES


Noted = tuple[float, Fault]
"""A fault that the library reported of its brokers, and when, by `time.monotonic`."""

_RECENT: Final = 10.0


def noted(before: Noted | None, now: float, fault: Fault) -> Noted:
    """What is to be kept of two faults. That all brokers are down follows from what was reported just before, which says why."""
    if fault.name != "_ALL_BROKERS_DOWN" or before is None or now - before[0] > _RECENT:
        return now, fault
    if before[1].name in NOT_SIGNED_IN | BAD_TLS:
        return now, before[1]
    text = before[1].text if before[1].name == fault.name else f"{fault.text}: {before[1].text}"
    return now, Fault(fault.name, text)


def of_topic(doing: str, topic: str, fault: Fault, *, proven: bool = False) -> DStreamError:
    """The error that a fault means for a topic. `proven`: another process has used the cluster with the same right."""
    text = f"{doing} {topic}: {fault.text}"
    if fault.name in MISSING:
        return EntityMissing(
            f"the Kafka topic {topic} does not exist",
            hint='create it, or set provision = "create" for a user with the right Create',
        )
    if fault.name == "TOPIC_EXCEPTION":
        return EntityUnavailable(f"{text}: Kafka allows no topic of this name", hint="change the setting topic")
    refusal = _refusal(text, fault)
    if refusal is None:
        return TransientError(text, hint=_hint(fault))
    return TransientError(refusal.message, hint=refusal.hint) if proven else refusal


def _refusal(text: str, fault: Fault) -> PermanentError | None:
    if fault.name in NO_RIGHT:
        return EntityUnavailable(text, hint=_NO_RIGHT_HINT)
    if fault.name in NOT_SIGNED_IN:
        return EntityUnavailable(text, hint="check username, password and sasl_mechanism")
    if fault.name in BAD_TLS:
        return EntityUnavailable(text, hint="check ca_file, the certificate, and whether the port speaks TLS (tls)")
    if fault.name in BAD_SETTINGS:
        return EntityUnavailable(text, hint="check the settings in client { } and the files that are named")
    return None


def _hint(fault: Fault) -> str | None:
    if fault.name in ("NOT_ENOUGH_REPLICAS", "NOT_ENOUGH_REPLICAS_AFTER_APPEND"):
        return (
            "brokers that hold copies are away: the topic takes nothing until min.insync.replicas of them are in sync"
        )
    if fault.name in ("_ALL_BROKERS_DOWN", "_TRANSPORT", "_RESOLVE"):
        return "check bootstrap_servers, and the addresses that the brokers advertise (advertised.listeners)"
    return None
