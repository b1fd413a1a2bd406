"""How Elasticsearch or OpenSearch is reached, and what is written there, as settings. Imports no client."""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Annotated, Any, ClassVar, Final, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr

from common.bus.place import PlaceTemplate
from common.bus.settings import OutputSettings
from common.config.durations import Duration, between
from common.config.settings import Location, MapBlock, Secret, UnsetSecret
from common.names import Origin, TableName, escaped
from router.outputs.rows.keys import TableKeys
from router.outputs.tls import trust, unusable

_REFUSED = re.compile(r"_(?=x)|[^a-z0-9._-]")
_FIRST: Final = "-_+."
_SECRETS: Final = ("password", "api_key", "bearer_token")


def _urls(urls: tuple[str, ...]) -> tuple[str, ...]:
    if not urls:
        raise ValueError('must be a list of addresses, such as ["https://search.example:9200"]')
    for url in urls:
        try:
            parts = urlsplit(url)
            parts.port  # noqa: B018 - raises ValueError when it is not a number
        except ValueError:
            raise ValueError("has one that is not an address") from None
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("must be addresses that begin with https:// or http://")
        if "@" in parts.netloc:
            raise ValueError("must not hold a user or password: use username and password")
        if parts.query or parts.fragment or not re.fullmatch(r"[!-~]+", url):
            raise ValueError("must be addresses of nodes, https://HOST:PORT, with a path at most")
    return tuple(url.rstrip("/") for url in urls)


def _one_line(secret: SecretStr) -> SecretStr:
    """A line feed in a header would begin another header."""
    if not isinstance(secret, UnsetSecret) and not re.fullmatch(r"[\x20-\x7e]+", secret.get_secret_value()):
        raise ValueError("must be printable ASCII text in one line")
    return secret


def _index(text: str) -> str:
    bare = re.sub(r"\{[^{}]*\}", "", text)
    if _REFUSED.search(bare) or text[0] in _FIRST:
        raise ValueError(
            "has characters that no index can have: lower case letters, digits, - and _ and dots are allowed, and it begins with a letter or digit"
        )
    return text


def _or_none(value: Any) -> Any:
    return None if value == "" else value


HeaderSecret = Annotated[Secret, AfterValidator(_one_line)]
File = Annotated[str | None, BeforeValidator(_or_none)]


class ElasticsearchSettings(OutputSettings):
    """Indexes of Elasticsearch or OpenSearch."""

    place_setting: ClassVar[str] = "index"
    longest_place: ClassVar[int | None] = 240

    type: Literal["elasticsearch", "opensearch"] = Field(description="`elasticsearch`; `opensearch` means the same.")
    urls: Annotated[tuple[str, ...], AfterValidator(_urls)] = Field(
        description=(
            "Addresses of nodes, or of what stands before them: `https://HOST:PORT`. When one cannot be reached, the next one is tried. `http://` "
            "sends all in plain text, passwords too."
        ),
    )
    index: Annotated[PlaceTemplate, AfterValidator(_index)] = Field(
        default="{database}.{schema}.{table}",
        description=(
            "The name of the index of each table, which is an alias of it: a template with `{server}`, `{database}`, `{schema}`, `{table}` or "
            "`{topic}`. Names become lower case. The default is `{database}.{schema}.{table}`."
        ),
    )
    mode: Literal["rows", "append"] = Field(
        default="rows",
        description=(
            "`rows`: a document for each row, as the row is now. `append`: a document for each message, as docs/messages.md describes it, also for "
            "tables without a key. `rows` is the default, because it gives a copy of the table."
        ),
    )
    keys: Annotated[TableKeys, MapBlock()] = Field(
        default_factory=dict,
        description=(
            'The columns that identify a row, by table: `{ Persons = ["ID"], "sales.Orders" = ["Region", "Number"] }`. `mode = "rows"` needs them '
            "for each table that comes here; messages do not have them. `{}`, the default: none."
        ),
    )
    deletes: Literal["mark", "remove"] = Field(
        default="mark",
        description=(
            "What a deleted row becomes: `mark` leaves a document with the key, the position and `_dstream.deleted`, which the alias hides; `remove` "
            "removes its document. `mark` is the default, because what is removed guards against no older change that comes late. `remove` needs "
            '`queue.ordering = "table"`.'
        ),
    )
    deletes_kept: Annotated[Duration, between(timedelta(minutes=1), timedelta(days=7))] = Field(
        default=timedelta(hours=1),
        description=(
            "How long an index that DStream creates remembers which documents were removed (`index.gc_deletes`), `1m` to `168h`, with "
            '`deletes = "remove"`. '
            "`1h` is the default: longer than a copy can be late; each takes a little memory meanwhile."
        ),
    )
    username: str | None = Field(default=None, description="User, with `password`. None, the default: no user.")
    password: Secret | None = Field(default=None, description="Its password. Secret. None, the default: none.")
    api_key: HeaderSecret | None = Field(
        default=None,
        description="API key of Elasticsearch, as it prints it under `encoded`. Secret. None, the default: none.",
    )
    bearer_token: HeaderSecret | None = Field(
        default=None, description="Token, sent as `Authorization: Bearer ...`. Secret. None, the default: none."
    )
    timeout: Annotated[Duration, between(timedelta(seconds=1), timedelta(minutes=10))] = Field(
        default=timedelta(seconds=30),
        description=(
            "How long one send may take, from connecting to the last answer, `1s` to `10m`. Then its connection is closed, and the changes are sent "
            "again. `30s` is the default, which a busy cluster keeps."
        ),
    )
    compress: bool = Field(
        default=False,
        description="Compress requests with gzip: less traffic, more work for both ends. It is off by default, for nodes that are near.",
    )
    ca_file: File = Field(
        default=None,
        description=(
            "PEM file of the certificate authorities to trust instead of the public ones: Elasticsearch writes its own to `http_ca.crt`. None, the "
            'default, or `""`: the public ones.'
        ),
    )
    client_certificate: File = Field(
        default=None,
        description=(
            "PEM file of a certificate that the server asks for (mTLS), with its chain, and with its key unless `client_key` has it. None, the "
            'default, or `""`: none.'
        ),
    )
    client_key: File = Field(
        default=None,
        description='PEM file of the key of `client_certificate`, without a password. None, the default, or `""`: the certificate\'s file has it.',
    )

    def escape(self, text: str) -> str:
        return escaped(text.lower(), _REFUSED)

    def place(self, origin: Origin, topic: str, table: TableName | None, *, instead: str | None = None) -> str:
        """No name of an index begins with a sign."""
        found = super().place(origin, topic, table, instead=instead)
        return f"x{found}" if found[:1] in _FIRST else found

    @classmethod
    def conflicts(cls, given: Mapping[str, Any]) -> Iterator[tuple[Location, str]]:
        ways = [name for name in ("username", "api_key", "bearer_token") if given.get(name) is not None]
        if len(ways) > 1:
            yield (ways[1],), f"cannot be used with {ways[0]}: a request has one Authorization"
        if (given.get("username") is None) != (given.get("password") is None):
            yield ("username" if given.get("password") is None else "password",), "username and password go together"
        if given.get("client_key") and not given.get("client_certificate"):
            yield ("client_key",), "needs client_certificate"

    @property
    def without_effect(self) -> Sequence[tuple[str, str]]:
        given = self.model_fields_set
        if self.mode == "append":
            hint = 'it is a setting of mode = "rows", and the mode here is "append"; remove it'
            return [(name, hint) for name in ("keys", "deletes", "deletes_kept") if name in given]
        if self.deletes == "mark" and "deletes_kept" in given:
            return [
                ("deletes_kept", 'it is a setting of deletes = "remove", and here deleted rows are marked; remove it')
            ]
        return []

    @property
    def needs_order(self) -> tuple[str, str] | None:
        if self.mode == "append" or self.deletes == "mark":
            return None
        hint = 'needs queue.ordering = "table": a removed document lets an older change of another session bring its row back; use "mark"'
        return "deletes", hint

    @property
    def where(self) -> str:
        return ", ".join(urlsplit(url).netloc for url in self.urls)

    @property
    def by_key(self) -> bool:
        return True

    @property
    def seconds(self) -> float:
        """`timeout` as a number."""
        return self.timeout.total_seconds()

    def unusable_file(self) -> tuple[str, str] | None:
        return unusable(self.ca_file, lambda: trust_of(self), "name PEM files that belong together, without a password")


def trust_of(settings: ElasticsearchSettings) -> ssl.SSLContext:
    """Whom a connection trusts. Raises OSError for a file that cannot be used."""
    return trust(settings.ca_file, settings.client_certificate, settings.client_key)
