"""How to reach NATS, and what streams are like that DStream creates, as settings. Imports no client."""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Annotated, Any, ClassVar, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr

from common.bus.place import SharedPlaceTemplate, rendered, values_of
from common.bus.settings import EnvelopedOutputSettings
from common.config.durations import Duration, between
from common.config.settings import Location, Secret, UnsetSecret
from common.config.sizes import Size
from common.names import Origin, TableName, escaped, shortened
from router.outputs import tls
from router.outputs.nats.nkey import seed_of
from router.outputs.tls import unusable

_REFUSED_IN_TOKENS = re.compile(r"_(?=x)|[^A-Za-z0-9_-]")
_OF_THE_SUBJECT = "{subject}"
_LONGEST_STREAM = 200
"""Characters of a stream's name, which is a folder's: NATS takes 255."""


def _servers(servers: Sequence[str]) -> tuple[str, ...]:
    if not servers:
        raise ValueError("must name a server")
    for each in servers:
        try:
            parts = urlsplit(each)
            parts.port  # noqa: B018 - raises ValueError when it is not a number
        except ValueError:
            raise ValueError("has an address that cannot be read") from None
        if parts.scheme not in ("nats", "tls") or not parts.hostname or parts.path.strip("/") or parts.query:
            raise ValueError("must be addresses such as nats://HOST:4222, or tls://HOST:4222 for TLS")
        if "@" in parts.netloc:
            raise ValueError("must not hold a user, password or token: they have settings of their own")
    if len({urlsplit(each).scheme for each in servers}) > 1:
        raise ValueError("must all begin with nats:// or all with tls://")
    return tuple(servers)


def _subject(text: str) -> str:
    bare = re.sub(r"\{[^{}]*\}", "x", text)
    if re.search(r"[\s*>]", bare) or "" in bare.split(".") or bare.startswith("$"):
        raise ValueError("must be words with dots between them, without spaces, * and >, and not begin with $")
    return text


def _stream(text: str) -> str:
    bare = text.replace(_OF_THE_SUBJECT, "x")
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,100}", bare):
        raise ValueError("must be letters, digits, - and _, and may have {subject} for the table's subject")
    return text


def _seed(secret: SecretStr) -> SecretStr:
    if not isinstance(secret, UnsetSecret):
        seed_of(secret.get_secret_value())
    return secret


def _or_none(value: Any) -> Any:
    return None if value == "" else value


Servers = Annotated[tuple[str, ...], AfterValidator(_servers)]
Subject = Annotated[SharedPlaceTemplate, AfterValidator(_subject)]
StreamName = Annotated[str, AfterValidator(_stream)]
Seed = Annotated[Secret, AfterValidator(_seed)]
File = Annotated[str | None, BeforeValidator(_or_none)]
Timeout = Annotated[Duration, between(timedelta(seconds=1), timedelta(minutes=10))]


class NatsSettings(EnvelopedOutputSettings):
    """Each change is a message of a JetStream stream."""

    longest_place: ClassVar[int | None] = 512

    type: Literal["nats"] = Field(description="`nats`: NATS JetStream.")
    servers: Servers = Field(
        description=(
            "Servers of one cluster: `nats://HOST:4222`, or `tls://HOST:4222`, which refuses a server without TLS. One that works is used. They must "
            "not hold credentials."
        )
    )
    subject: Subject = Field(
        default="{server}.{database}.{schema}.{table}",
        description=(
            "The subject of each table, a template with names in braces. Characters of names other than letters, digits, `-` and `_` become "
            "`_xHHHH_`, so each name is one token. The default gives each table its own, which consumers can filter by."
        ),
    )
    stream: StreamName = Field(
        default="dstream",
        description=(
            "The JetStream stream that has the subjects, or, with `{subject}` in it, a stream for each (its dots become `=`). One for all is the "
            "default, because streams cost servers memory; a stream for each table is faster when several processes send."
        ),
    )
    domain: str | None = Field(
        default=None, description="The JetStream domain, for a leaf node. None, the default: that of the servers."
    )
    user: str | None = Field(default=None, description="User, with `password`. None, the default: none.")
    password: Secret | None = Field(default=None, description="Password of `user`. Secret. None, the default: none.")
    token: Secret | None = Field(default=None, description="Token instead of a user. Secret. None, the default: none.")
    nkey_seed: Seed | None = Field(
        default=None, description="Seed of an NKey of a user, `SU...`. Secret. None, the default: none."
    )
    credentials: Secret | None = Field(
        default=None,
        description=(
            "Content of a credentials file (`.creds`, as `nsc` writes it): the user's JWT and seed. Secret, so give it by an environment variable. "
            "None, the default: none."
        ),
    )
    ca_file: File = Field(
        default=None,
        description=(
            'PEM file of the certificate authorities to trust instead of the public ones. None, the default, or `""`: the public ones.'
        ),
    )
    client_certificate: File = Field(
        default=None,
        description=(
            'PEM file of a certificate that the server asks for (mTLS), with its key unless `client_key` has it. None, the default, or `""`: none.'
        ),
    )
    client_key: File = Field(
        default=None,
        description='PEM file of the key of `client_certificate`. None, the default, or `""`: the certificate\'s file has it.',
    )
    timeout: Timeout = Field(
        default=timedelta(seconds=30),
        description=(
            "How long to wait for a connection, and for the next acknowledgement, `1s` to `10m`. Then what is not acknowledged is sent again. `30s` "
            "is the default, which covers the election of a leader."
        ),
    )
    storage: Literal["file", "memory"] = Field(
        default="file",
        description="Where a stream that DStream creates is stored. `file` is the default; `memory` does not outlive its servers.",
    )
    replicas: int = Field(
        default=1,
        ge=1,
        le=5,
        description="Servers that hold a stream that DStream creates, 1 to 5. 1 is the default, because one server has no more; use 3 in a cluster.",
    )
    max_age: Duration = Field(
        default=timedelta(days=7),
        description=(
            "How long a stream that DStream creates keeps messages; `0s`: for ever. `168h` is the default, so that the disk does not fill; consumers "
            "must be faster."
        ),
    )
    max_bytes: Size | None = Field(
        default=None,
        description="The most that a stream that DStream creates holds, such as `50GB`. None, the default: as much as the server allows.",
    )
    discard: Literal["new", "old"] = Field(
        default="new",
        description=(
            "What a full stream that DStream creates does: refuse new messages, which then wait in the ingest queue, or drop the oldest. `new` is "
            "the default, because nothing is lost."
        ),
    )
    duplicate_window: Duration = Field(
        default=timedelta(minutes=10),
        description=(
            "How long a stream that DStream creates remembers message ids: a change that is sent again within it is dropped. `10m` covers a restart "
            "of the router; a longer window costs the server memory. It must not be longer than `max_age`."
        ),
    )

    @property
    def place_setting(self) -> str:
        return "subject"

    def escape(self, text: str) -> str:
        return escaped(text, _REFUSED_IN_TOKENS)

    def place(self, origin: Origin, topic: str, table: TableName | None, *, instead: str | None = None) -> str:
        """A subject. The name of a stream keeps its dots, which separate tokens."""
        tokens = ".".join(self.escape(each) for each in topic.split("."))
        if table is None:
            return shortened(tokens, 512)
        names = {name: self.escape(value) for name, value in values_of(origin, topic, table).items()}
        return shortened(rendered(self.subject if instead is None else instead, {**names, "topic": tokens}), 512)

    def stream_of(self, subject: str) -> str:
        """The JetStream stream that has this subject."""
        return shortened(self.stream.replace(_OF_THE_SUBJECT, subject.replace(".", "=")), _LONGEST_STREAM)

    @classmethod
    def conflicts(cls, given: Mapping[str, Any]) -> Iterator[tuple[Location, str]]:
        ways = [name for name in ("user", "token", "nkey_seed", "credentials") if given.get(name) is not None]
        if len(ways) > 1:
            yield (ways[1],), f"cannot be used with {ways[0]}: choose one way to sign in"
        if (given.get("user") is None) != (given.get("password") is None):
            yield ("user" if given.get("password") is None else "password",), "user and password go together"
        if given.get("client_key") and not given.get("client_certificate"):
            yield ("client_key",), "needs client_certificate"
        age, window = given.get("max_age"), given.get("duplicate_window")
        if isinstance(age, timedelta) and isinstance(window, timedelta) and timedelta(0) < age < window:
            yield ("duplicate_window",), "must not be longer than max_age"

    @property
    def where(self) -> str:
        return ", ".join(urlsplit(each).netloc for each in self.servers)

    @property
    def by_key(self) -> bool:
        return True

    @property
    def tls(self) -> bool:
        """Whether a server without TLS is refused."""
        return self.servers[0].startswith("tls:")

    @property
    def seconds(self) -> float:
        """`timeout` as a number."""
        return self.timeout.total_seconds()

    def unusable_file(self) -> tuple[str, str] | None:
        return unusable(self.ca_file, lambda: trust(self), "name PEM files that belong together")


def trust(settings: NatsSettings) -> ssl.SSLContext:
    """Raises OSError for a file that cannot be used."""
    return tls.trust(settings.ca_file, settings.client_certificate, settings.client_key)
