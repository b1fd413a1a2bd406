"""The settings of the output `kafka`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Field, PlainValidator

from common.authorities import CA_HINT, fault_of
from common.bus.place import SharedPlaceTemplate
from common.bus.settings import EnvelopedOutputSettings
from common.config.durations import Duration, between
from common.config.settings import Location, MapBlock, Secret
from common.config.values import Problem, Unset, complain
from common.names import TableName, escaped
from router.outputs.kafka.client_settings import refused_setting
from router.outputs.rows.keys import Keys, TableKeys

TOPIC_LIMIT: Final = 249
"""Characters of a topic's name, all of them letters, digits and `._-` (org.apache.kafka.common.internals.Topic)."""

_REFUSED = re.compile(r"_(?=x)|[^A-Za-z0-9_-]")
_SERVER = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?", re.ASCII)


def _servers(value: Any) -> list[str] | Unset:
    if isinstance(value, Unset):
        return value
    listed = value.split(",") if isinstance(value, str) else value
    # A list of a file is a tuple here.
    if not isinstance(listed, list | tuple) or not listed or not all(isinstance(each, str) for each in listed):
        raise ValueError('must be "HOST:PORT,HOST:PORT", or a list of such texts')
    found = [each.strip() for each in listed]
    if not all(_SERVER.fullmatch(each) for each in found):
        raise ValueError("must have HOST:PORT, without a protocol, for each server")
    return found


def _client(given: Mapping[str, str]) -> Mapping[str, str]:
    for name in given:
        if (reason := refused_setting(name)) is not None:
            raise ValueError(f"{name!r} {reason}")
    return given


def _text_of(value: Any) -> Any:
    """Numbers and booleans as Kafka writes them, so that both ways of writing a setting mean the same."""
    if not isinstance(value, Mapping):
        return value
    return {name: _plain(each) for name, each in value.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, (int, float)) else value


def _or_none(value: Any) -> Any:
    return None if value == "" else value


Servers = Annotated[list[str] | Unset, PlainValidator(_servers)]

Texts = Annotated[Mapping[str, str], BeforeValidator(_text_of), MapBlock()]

ClientTexts = Annotated[Mapping[str, str], BeforeValidator(_text_of), AfterValidator(_client), MapBlock()]

File = Annotated[str | None, BeforeValidator(_or_none)]


class KafkaOutputSettings(EnvelopedOutputSettings):
    """Topics of Kafka."""

    longest_place: ClassVar[int | None] = TOPIC_LIMIT

    type: Literal["kafka"] = Field(default="kafka", description="Apache Kafka, or a server that speaks its protocol.")
    bootstrap_servers: Servers = Field(
        description='Where the cluster is found: `"HOST:PORT,HOST:PORT"`, or a list of `"HOST:PORT"`. Two or three brokers are enough.'
    )
    topic: SharedPlaceTemplate = Field(
        default="{server}.{database}.{schema}.{table}",
        description=(
            "The topic of each table, a template: `{server}`, `{database}`, `{schema}`, `{table}`, `{topic}`. Without any of them all tables share "
            "one topic. The default is one that readers of Debezium's topics know, and gives each table its own."
        ),
    )
    key: Literal["session", "row"] = Field(
        default="session",
        description=(
            "The key of a record, which determines its partition: `session` (what keeps its order in the ingest queue: a table, or a bucket of its "
            'keys; none with `queue.ordering = "none"`) or `row` (the row\'s key, needs `keys`). `session` is the default because it keeps all of '
            "the queue's order, and needs no further setting. Compacted topics need `row`."
        ),
    )
    keys: Annotated[TableKeys, MapBlock()] = Field(
        default_factory=dict,
        description=(
            'With `key = "row"`: the columns of each table\'s key, `{ Persons = ["ID"], "sales.Orders" = ["Region", "ID"] }`. Messages do not say '
            "which columns identify a row."
        ),
    )
    partitions: Annotated[int, Field(ge=1, le=100_000)] | None = Field(
        default=None,
        description="Partitions of a topic that DStream creates. None, the default: as many as the broker gives (`num.partitions`).",
    )
    replication_factor: Annotated[int, Field(ge=1, le=100)] | None = Field(
        default=None,
        description="Copies of a topic that DStream creates. None, the default: as many as the broker gives (`default.replication.factor`).",
    )
    topic_config: Texts = Field(
        default_factory=dict,
        description=(
            'Settings of a topic that DStream creates, as Kafka names them: `{ "min.insync.replicas" = 2, "retention.ms" = 604800000 }`. An '
            "existing topic keeps its own."
        ),
    )
    compression: Literal["none", "gzip", "snappy", "lz4", "zstd"] = Field(
        default="none",
        description="How batches are compressed. `none` is the default because it costs no processor time.",
    )
    tls: bool = Field(
        default=True,
        description="Whether connections are encrypted. It is on by default; turn it off only for brokers in a network of your own.",
    )
    ca_file: File = Field(
        default=None,
        description='PEM file of the certificate authorities to trust. None, the default, or `""`: the public ones of the system.',
    )
    certificate_file: File = Field(
        default=None,
        description='PEM file of a client certificate to sign in with. None, the default, or `""`: none.',
    )
    key_file: File = Field(
        default=None,
        description='PEM file of the private key of `certificate_file`. None, the default, or `""`: it is in `certificate_file`.',
    )
    key_password: Secret | None = Field(
        default=None, description="The password of that private key. Secret. None, the default: it has none."
    )
    username: Annotated[str | None, BeforeValidator(_or_none)] = Field(
        default=None,
        description='The user to sign in as, by SASL. None, the default, or `""`: nobody, or whom the client certificate names.',
    )
    password: Secret | None = Field(
        default=None,
        description="The user's password. Secret. Required with `username`. None, the default: nobody signs in so.",
    )
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = Field(
        default="PLAIN",
        description=(
            "How `username` and `password` are sent: `PLAIN`, `SCRAM-SHA-256` or `SCRAM-SHA-512`. `PLAIN` is the default because hosted services "
            "have it; with `tls = false` it sends the password in clear text."
        ),
    )
    timeout: Annotated[Duration, between(timedelta(seconds=1), timedelta(minutes=10))] = Field(
        default=timedelta(seconds=30),
        description=(
            "How long the brokers may take to accept what was sent at once, `1s` to `10m`. After that the output counts as unavailable, and what was "
            "not accepted is sent again later. `30s` is the default because a partition finds a new leader in less."
        ),
    )
    client: ClientTexts = Field(
        default_factory=dict,
        description=('Settings that tune librdkafka: `{ "linger.ms" = 5 }`. Others are refused. Not for secrets.'),
    )

    @classmethod
    def conflicts(cls, given: Mapping[str, Any]) -> Iterator[tuple[Location, str]]:
        yield from super().conflicts(given)
        yield from _of_security(given)
        by_row = given.get("key") == "row"
        if by_row and not given.get("keys"):
            yield ("key",), 'is "row" without keys, which says what identifies a row: keys = { Persons = ["ID"] }'
        if not by_row and _compacts(given.get("topic_config")):
            yield (
                ("topic_config",),
                'has cleanup.policy = "compact", which would keep only the last change of each session: set key = "row" as well',
            )

    @property
    def where(self) -> str:
        if isinstance(self.bootstrap_servers, Unset):
            unset = self.bootstrap_servers
            raise complain(unset.path, [Problem(unset.line, f"bootstrap_servers: {unset.complaint()}")])
        return ",".join(self.bootstrap_servers)

    @property
    def by_key(self) -> bool:
        return self.username is not None

    def unusable_file(self) -> tuple[str, str] | None:
        if self.ca_file is not None and (fault := fault_of(self.ca_file)) is not None:
            return "ca_file", f"names {self.ca_file!r}, which cannot be used: {fault}; {CA_HINT}"
        for setting in ("certificate_file", "key_file"):
            file = getattr(self, setting)
            if file is not None and (reason := _unreadable(file)) is not None:
                return setting, f"names {file!r}, which cannot be read: {reason}"
        return None

    def escape(self, text: str) -> str:
        """Dots separate the parts of a topic's name, and so are escaped inside of a part."""
        return escaped(text, _REFUSED)

    @property
    def without_effect(self) -> Sequence[tuple[str, str]]:
        found = list(super().without_effect)
        given = self.model_fields_set
        if "keys" in given and self.key != "row":
            found.append(("keys", 'it is a setting of key = "row"; remove it, or change the key'))
        if "sasl_mechanism" in given and self.username is None:
            found.append(
                ("sasl_mechanism", "there is no username to sign in as; remove it, or add username and password")
            )
        return found

    def key_of(self, table: TableName) -> tuple[str, ...] | None:
        """The columns that identify a row; None where `keys` does not name the table."""
        return Keys(self.keys).of(table)

    @property
    def secrets(self) -> tuple[str, ...]:
        """Texts that nobody may see. Raises ConfigurationError for a variable that is not set."""
        return tuple(each.get_secret_value() for each in (self.password, self.key_password) if each is not None)


def _of_security(given: Mapping[str, Any]) -> Iterator[tuple[Location, str]]:
    has = {name: given.get(name) not in (None, "") for name in ("username", "password", "certificate_file", "key_file")}
    if has["username"] != has["password"]:
        missing = "password" if has["username"] else "username"
        yield (), f"has {'username' if has['username'] else 'password'} without {missing}: both are needed to sign in"
    if has["key_file"] and not has["certificate_file"]:
        yield ("key_file",), "is given without certificate_file: a key alone proves nothing"
    if given.get("key_password") is not None and not has["certificate_file"]:
        yield ("key_password",), "is given without certificate_file"
    if given.get("tls") is False:
        for name in ("ca_file", "certificate_file"):
            if given.get(name) not in (None, ""):
                yield (name,), "needs tls = true: without TLS there are no certificates"


def _compacts(config: Any) -> bool:
    return isinstance(config, Mapping) and "compact" in str(config.get("cleanup.policy", ""))


def _unreadable(file: str) -> str | None:
    try:
        with Path(file).open("rb"):
            return None
    except OSError as error:
        return error.strerror or type(error).__name__
