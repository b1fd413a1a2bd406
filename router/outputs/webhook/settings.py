"""How requests reach an HTTP receiver, as settings. Imports no client."""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Annotated, Any, Literal
from urllib.parse import quote, urljoin, urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr

from common.bus.place import SharedPlaceTemplate, rendered
from common.bus.settings import EnvelopedOutputSettings
from common.config.durations import Duration, between
from common.config.settings import Location, MapBlock, Secret, UnsetSecret
from common.names import Origin, TableName
from router.outputs.tls import unusable
from router.outputs.webhook.signature import key_of

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_OURS = re.compile(
    r"(?i)webhook-.*|idempotency-key|content-(type|length|encoding)|host|connection|transfer-encoding|te|upgrade"
)


def _url(text: str) -> str:
    bare = re.sub(r"\{[^{}]*\}", "x", text)
    try:
        parts = urlsplit(bare)
        parts.port  # noqa: B018 - raises ValueError when it is not a number
    except ValueError:
        raise ValueError("is not an address") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("must be an address that begins with https:// or http://")
    if "@" in parts.netloc:
        raise ValueError("must not hold a user or password: use username and password, or bearer_token")
    if "?" in bare or "#" in bare:
        raise ValueError("must end before ? or #: what follows ? is the setting query, which is secret")
    if "{" in text.split("://", 1)[1].split("/", 1)[0]:
        raise ValueError("must name one host: names in braces belong behind the first /")
    if not bare.isascii() or re.search(r"[\x00-\x20\x7f]", bare):
        raise ValueError("must be written in ASCII without spaces: escape other characters with %")
    return text


def _headers(headers: Mapping[str, SecretStr]) -> Mapping[str, SecretStr]:
    for name, value in headers.items():
        if not _TOKEN.fullmatch(name):
            raise ValueError(f"{name!r} is not a name that a header can have")
        if _OURS.fullmatch(name):
            raise ValueError(f"{name} is written by DStream itself")
        _one_line(value)
    return headers


def _one_line(secret: SecretStr) -> SecretStr:
    """A line feed in a header would begin another header; a blank at an end is refused with each request."""
    if isinstance(secret, UnsetSecret):
        return secret
    text = secret.get_secret_value()
    if not re.fullmatch(r"[\x20-\x7e\t]+", text):
        raise ValueError("must be printable ASCII text in one line")
    if text != text.strip():
        raise ValueError("must not begin or end with a blank or a tab")
    return secret


def _signing(secret: SecretStr) -> SecretStr:
    if not isinstance(secret, UnsetSecret):
        key_of(secret.get_secret_value())
    return secret


def _query(secret: SecretStr) -> SecretStr:
    if not isinstance(secret, UnsetSecret) and not re.fullmatch(r"[!-~]+", secret.get_secret_value().lstrip("?")):
        raise ValueError("must be ASCII text without spaces: escape other characters with %")
    return secret


def _proxy(secret: SecretStr) -> SecretStr:
    if not isinstance(secret, UnsetSecret) and not _is_proxy(secret.get_secret_value()):
        raise ValueError(
            "must be http://HOST:PORT or http://USER:PASSWORD@HOST:PORT: escape other characters of the password with %"
        )
    return secret


def _is_proxy(text: str) -> bool:
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:  # its text may hold the password
        return False
    host = parts.hostname
    whole = re.fullmatch(r"[!-~]+", text) and not re.search(r"[#?\\]", text) and parts.path in ("", "/")
    return bool(whole and host and parts.scheme in ("http", "https") and port != 0)


def _statuses(statuses: Sequence[int]) -> tuple[int, ...]:
    if not all(400 <= each <= 499 for each in statuses):
        raise ValueError("must be statuses from 400 to 499: any other may have another cause than the message")
    return tuple(statuses)


def _or_none(value: Any) -> Any:
    return None if value == "" else value


Url = Annotated[SharedPlaceTemplate, AfterValidator(_url)]
Header = Annotated[Secret, AfterValidator(_one_line)]
SigningSecret = Annotated[Secret, AfterValidator(_signing)]
Query = Annotated[Secret, AfterValidator(_query)]
ProxyAddress = Annotated[Secret, AfterValidator(_proxy)]
File = Annotated[str | None, BeforeValidator(_or_none)]
Timeout = Annotated[Duration, between(timedelta(seconds=1), timedelta(minutes=10))]


class WebhookSettings(EnvelopedOutputSettings):
    """Each change is a request to an HTTP receiver."""

    type: Literal["webhook"] = Field(description="`webhook`: HTTP requests.")
    url: Url = Field(
        description=(
            "Where requests go: `https://HOST/PATH`, a template with names in braces for those of the table: {names}. Without one, all tables share "
            "the address. Escaped as URLs are. It must hold no credentials. Redirects are not followed."
        ).replace("{names}", "`{server}`, `{database}`, `{schema}`, `{table}`, `{topic}`"),
    )
    query: Query | None = Field(
        default=None,
        description="What follows `?` in each request, such as `code=...`. Secret, because it is often a key. None, the default: nothing.",
    )
    method: Literal["POST", "PUT", "PATCH"] = Field(
        default="POST",
        description="The method of each request. `POST` is the default because nearly all receivers take it.",
    )
    batch: int = Field(
        default=1,
        ge=1,
        le=1000,
        description=(
            "The most changes of one session in one request. With 1 the body is the change as `envelope` writes it; with more it is a JSON array "
            "of changes, even of one. 1 is the default because every receiver understands it; more saves round trips."
        ),
    )
    concurrency: int = Field(
        default=8,
        ge=1,
        le=256,
        description=(
            "Requests that one table may have under way at once. Those of one session follow one another, so more than 1 has an effect only where "
            'changes of several sessions are at hand (`ordering = "key"`). 8 is the default, which a small receiver can bear.'
        ),
    )
    headers: Annotated[Mapping[str, Header], AfterValidator(_headers), MapBlock()] = Field(
        default_factory=dict,
        description="More headers of each request. All values are secret. `{}`, the default: none.",
    )
    signing_secret: SigningSecret | None = Field(
        default=None,
        description=(
            "Signs each request as Standard Webhooks describes (HMAC-SHA256): `whsec_` and 24 to 64 bytes in base64. Secret. None, the default: "
            "requests are not signed."
        ),
    )
    other_signing_secret: SigningSecret | None = Field(
        default=None,
        description=(
            "Each request is signed with this one as well, while receivers change from one secret to another. Secret. None, the default: one "
            "signature."
        ),
    )
    bearer_token: Header | None = Field(
        default=None, description="Sent as `Authorization: Bearer ...`. Secret. None, the default: it is not sent."
    )
    username: str | None = Field(
        default=None,
        description="User of basic authentication, with `password`. None, the default: no basic authentication.",
    )
    password: Secret | None = Field(
        default=None, description="Password of basic authentication. Secret. None, the default: none."
    )
    timeout: Timeout = Field(
        default=timedelta(seconds=30),
        description=(
            "How long one request may take, from connecting to its answer, `1s` to `10m`. Then its connection is closed, and the change is sent "
            "again. `30s` is the default, because slow work belongs behind the answer."
        ),
    )
    refused_statuses: Annotated[tuple[int, ...], AfterValidator(_statuses)] = Field(
        default=(400, 413, 422),
        description=(
            "Statuses that say that this change will never be taken: it is dead-lettered, and the next one is sent. `[]`: none, every change waits "
            "until it is accepted. 400, 413 and 422 are the default, because other 4xx concern the address or a right."
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
            "PEM file of a certificate that the receiver asks for (mTLS), with its chain, and with its key unless `client_key` has it. None, the "
            'default, or `""`: none.'
        ),
    )
    client_key: File = Field(
        default=None,
        description='PEM file of the key of `client_certificate`. None, the default, or `""`: the certificate\'s file has it.',
    )
    client_key_password: Secret | None = Field(
        default=None, description="Password of that key. Secret. None, the default: the key has none."
    )
    proxy: Annotated[ProxyAddress | None, BeforeValidator(_or_none)] = Field(
        default=None,
        description=(
            "HTTP proxy on the way, `http://HOST:PORT` or `http://USER:PASSWORD@HOST:PORT`. Secret. Environment variables such as HTTPS_PROXY have "
            'no effect. None, the default, or `""`: none.'
        ),
    )
    check_method: Literal["none", "HEAD", "OPTIONS", "GET"] = Field(
        default="none",
        description=(
            'What `provision = "verify"` and `dstream check` send to each address: a request with this method, or `none`: they only connect. '
            "`none` is the default, because many receivers know no other method than their own."
        ),
    )

    @property
    def place_setting(self) -> str:
        return "url"

    def place(self, origin: Origin, topic: str, table: TableName | None, *, instead: str | None = None) -> str:
        """An address. `instead` may be relative to `url`. A stream without a table has its own name where a table's would be."""
        template = self.url if instead is None else urljoin(self.url, instead)
        if table is not None:
            return super().place(origin, topic, table, instead=template)
        names = {"server": origin.server, "database": origin.database, "schema": "-", "table": topic, "topic": topic}
        return rendered(template, {name: self.escape(value) for name, value in names.items()})

    def escape(self, text: str) -> str:
        """Everything but what RFC 3986 leaves unreserved; a lone surrogate as UTF-8 would have it."""
        return quote(text, safe="", errors="surrogatepass")

    @classmethod
    def conflicts(cls, given: Mapping[str, Any]) -> Iterator[tuple[Location, str]]:
        if given.get("bearer_token") is not None and given.get("username") is not None:
            yield ("bearer_token",), "cannot be used with username: a request has one Authorization"
        if (given.get("username") is None) != (given.get("password") is None):
            yield ("username" if given.get("password") is None else "password",), "username and password go together"
        for name in ("client_key", "client_key_password"):
            if given.get(name) and not given.get("client_certificate"):
                yield (name,), "needs client_certificate"
        if given.get("other_signing_secret") is not None and given.get("signing_secret") is None:
            yield ("other_signing_secret",), "needs signing_secret"

    @property
    def where(self) -> str:
        return urlsplit(re.sub(r"\{[^{}]*\}", "x", self.url)).netloc

    @property
    def by_key(self) -> bool:
        return True

    @property
    def seconds(self) -> float:
        """`timeout` as a number."""
        return self.timeout.total_seconds()

    def unusable_file(self) -> tuple[str, str] | None:
        def load() -> None:
            if not isinstance(self.client_key_password, UnsetSecret):
                load_certificate(ssl.create_default_context(), self)

        return unusable(self.ca_file, load, "name PEM files that belong together, and the key's password")


def load_certificate(context: ssl.SSLContext, settings: WebhookSettings) -> None:
    """Raises OSError, of which ssl.SSLError is one."""
    if settings.client_certificate is None:
        return
    secret = settings.client_key_password
    # a function, because without one OpenSSL would ask at the terminal
    context.load_cert_chain(
        settings.client_certificate,
        settings.client_key,
        password=lambda: "" if secret is None else secret.get_secret_value(),
    )
