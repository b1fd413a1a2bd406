"""The block of an output of the type `postgres`. Imports no client."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field

from common.authorities import CA_HINT, fault_of
from common.bus.place import rendered, template_of_tables, values_of
from common.bus.settings import OutputSettings
from common.config.durations import Duration, between
from common.config.settings import Location, Secret
from common.names import Origin, TableName
from router.outputs.postgres.table import MOST_BYTES, identifier, quoted

DEFAULT_PORT: Final = 5432
_USUAL_SCHEMA: Final = "public"
_HOST: Final = re.compile(r"(?:\[[0-9A-Fa-f:.%]+\]|[A-Za-z0-9._-]+|/[^,\s]+)(?::[0-9]{1,5})?")


def _hosts(text: str) -> str:
    if not text.strip() or not all(_HOST.fullmatch(each.strip()) for each in text.split(",")):
        raise ValueError("must be HOST or HOST:PORT, or several of them with commas between")
    return text


def _table(text: str) -> str:
    template_of_tables(text)
    if not 1 <= len(text.split(".")) <= 2 or not all(text.split(".")):
        raise ValueError("must be a template of TABLE or SCHEMA.TABLE")
    return text


def _name(text: str) -> str:
    if not text or "\0" in text or len(text.encode("utf-8", "replace")) > MOST_BYTES:
        raise ValueError(f"must be a name of 1 to {MOST_BYTES} bytes")
    return text


Name = Annotated[str, AfterValidator(_name)]


class PostgresSettings(OutputSettings):
    """Changes as rows of tables. Text in it is never an SQL statement."""

    type: Literal["postgres"] = Field(
        default="postgres", description="`postgres`: each change is applied to a row of a table of PostgreSQL."
    )
    host: Annotated[str, AfterValidator(_hosts)] = Field(
        description=(
            "The server: `HOST` or `HOST:PORT`. Several, with commas between: the first that accepts writes is used, so that the output follows a "
            "failover."
        )
    )
    database: str = Field(min_length=1, description="The database, which must exist.")
    user: str = Field(min_length=1, description="The role that connects.")
    password: Secret | None = Field(
        default=None,
        description="Its password. None, the default: none is sent, as for a client certificate or a server that trusts the address.",
    )
    tls: Literal["verify-full", "verify-ca", "require", "disable"] = Field(
        default="verify-full",
        description=(
            "As `sslmode` of libpq. `verify-full`, the default: TLS, and the certificate must be that of the host. `verify-ca` does not compare "
            "the host, `require` checks nothing, `disable` is plain text."
        ),
    )
    ca_file: str | None = Field(
        default=None,
        description="PEM file of the authorities that the server's certificate is checked with. None, the default: the public ones.",
    )
    client_certificate: str | None = Field(
        default=None, description="PEM file of a client certificate. None, the default: none."
    )
    client_key: str | None = Field(default=None, description="PEM file of its key. None, the default: none.")
    table: Annotated[str, AfterValidator(_table)] = Field(
        default="{schema}.{table}",
        description=(
            "The table of a table's rows, `SCHEMA.TABLE` with names in braces: `{server}`, `{database}`, `{schema}`, `{table}`, `{topic}`. Without "
            "a dot it is in the schema `public`. A name of more than 63 bytes is shortened, with a hash at its end."
        ),
    )
    names: Literal["lower", "source"] = Field(
        default="lower",
        description=(
            "How schemas, tables and columns are spelled that come from the source: `lower` case, the default, so that statements need no quotes, "
            "or as at the `source`."
        ),
    )
    position_column: Name = Field(
        default="_dstream_position",
        description="The column (`bytea`) with the position of the change that wrote the row last. Every target table has it.",
    )
    own_schema: Name = Field(
        default="dstream", description="The schema of the three tables that DStream keeps for itself in the database."
    )
    schema_changes: Literal["apply", "wait", "ignore"] = Field(
        default="apply",
        description=(
            "What a schema event does (`ingester.shape.schema_events`). `apply`: it creates the table, adds columns, and widens types. `wait`: "
            "nothing; changes with a column that the table does not have wait until it has it. `ignore`: such columns are left out."
        ),
    )
    on_unfit: Literal["wait", "dead_letter"] = Field(
        default="wait",
        description=(
            "What happens to a change that the table does not take: a value that its column cannot hold, a constraint of your own. `wait`, the "
            "default: the table's changes wait, with an error in the log, until the table takes it. `dead_letter`: it is left out of the table."
        ),
    )
    unstorable_text: Literal["dead_letter", "replace"] = Field(
        default="dead_letter",
        description=(
            "What happens to text that PostgreSQL cannot hold: U+0000, and half a surrogate pair. `dead_letter`, the default: the change is left "
            "out. `replace`: U+FFFD stands in its place."
        ),
    )
    remember_deletes: Annotated[Duration, between(timedelta(minutes=10), timedelta(days=3650))] = Field(
        default=timedelta(days=7),
        description=(
            "How long the keys of deleted rows are remembered, so that a late copy of an older change does not bring a row back. `168h` is more "
            "than CDC keeps changes by default, so that a rewind is covered too."
        ),
    )
    connections: int = Field(
        default=4,
        ge=1,
        le=100,
        description="The most connections of each worker, which all tables share. `4` keep one server busy.",
    )
    timeout: Annotated[Duration, between(timedelta(seconds=1), timedelta(minutes=10))] = Field(
        default=timedelta(seconds=30),
        description="How long a transaction may take, with the waits for locks and for the network. After it the connection is closed.",
    )

    @classmethod
    def conflicts(cls, given: Mapping[str, Any]) -> Iterable[tuple[Location, str]]:
        if (given.get("client_certificate") is None) != (given.get("client_key") is None):
            yield ("client_certificate",), "and client_key belong together: give both"
        if given.get("tls") == "disable" and given.get("ca_file") is not None:
            yield ("ca_file",), 'has no effect with tls = "disable"'

    @property
    def place_setting(self) -> str:
        return "table"

    @property
    def where(self) -> str:
        return f"{self.host}/{self.database}"

    @property
    def by_key(self) -> bool:
        return self.password is not None

    def unusable_file(self) -> tuple[str, str] | None:
        if self.ca_file is None or (fault := fault_of(self.ca_file)) is None:
            return None
        return "ca_file", f"names {self.ca_file!r}, which cannot be used: {fault}; {CA_HINT}"

    def place(self, origin: Origin, topic: str, table: TableName | None, *, instead: str | None = None) -> str:
        """`"schema"."table"`."""
        lower = self.names == "lower"
        if table is None:
            return quoted(_USUAL_SCHEMA, identifier(topic, lower=lower))
        parts = (self.table if instead is None else instead).split(".", 1)
        values = values_of(origin, topic, table)
        names = [identifier(rendered(part, values), lower=lower) for part in parts]
        return quoted(*([_USUAL_SCHEMA, *names] if len(names) == 1 else names))


def parameters(settings: PostgresSettings) -> dict[str, Any]:
    """What libpq is told, the password among it. Raises ConfigurationError where a secret's variable is not set."""
    hosts, ports = zip(*(_host_and_port(each.strip()) for each in settings.host.split(",")), strict=True)
    found: dict[str, Any] = {
        "host": ",".join(hosts),
        "port": ",".join(str(port) for port in ports),
        "dbname": settings.database,
        "user": settings.user,
        "sslmode": settings.tls,
        "gssencmode": "disable",
        "client_encoding": "UTF8",
        "application_name": "dstream router",
        "keepalives_idle": 30,
        "keepalives_interval": 10,
        "keepalives_count": 3,
    }
    if len(hosts) > 1:
        found["target_session_attrs"] = "read-write"
    if settings.password is not None:
        found["password"] = settings.password.get_secret_value()
    if settings.tls.startswith("verify"):
        found["sslrootcert"] = settings.ca_file or _public_authorities()
    if settings.client_certificate is not None:
        found |= {"sslcert": settings.client_certificate, "sslkey": settings.client_key}
    return found


def _host_and_port(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdigit():
        return text.strip("[]"), DEFAULT_PORT
    return host.strip("[]"), int(port)


def _public_authorities() -> str:
    import certifi  # a file of its own, since the library's TLS knows no other

    return certifi.where()
