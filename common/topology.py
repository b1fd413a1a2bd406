"""What both stages must agree on, declared once: the source's name, its tables, the queue, and how to reach a bus.

Each setting's `description` is its manual: type and unit follow from the annotation, the reason for the default and the meaning
of zero or none stand in the text. docs/configuration.md is written from it.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any, Literal, cast

from pydantic import AfterValidator, Field, PlainValidator

from common.config.bind import Location, Problem, Settings, Unset, complain
from common.names import Ordering, Origin, TableName, check_server_name, colliding, server_label
from common.packing import MOST
from common.servicebus.settings import BusSettings, DuplicateWindow, EntityName, Provision
from common.sqladdress import SqlAddress


def _address(value: Any) -> SqlAddress | Unset:
    if isinstance(value, SqlAddress | Unset):
        return value
    if not isinstance(value, str):
        raise ValueError("must be text in double quotes")
    return SqlAddress.parse(value)


def _table(value: Any) -> TableName:
    if isinstance(value, TableName):
        return value
    if not isinstance(value, str):
        raise ValueError("must be text in double quotes")
    return TableName.parse(value)


def _some(tables: tuple[TableName, ...]) -> tuple[TableName, ...]:
    if not tables:
        raise ValueError("must name at least one table")
    return tables


def _database_name(text: str) -> str:
    if not text or len(text) > 128:
        raise ValueError("must be 1 to 128 characters, SQL Server's limit")
    return text


def _pack(value: Any) -> int | Literal["max"]:
    if value == "max" or (type(value) is int and 1 <= value <= MOST):
        return cast('int | Literal["max"]', value)
    raise ValueError(f'must be a whole number from 1 to {MOST}, or "max"')


Address = Annotated[SqlAddress | Unset, PlainValidator(_address)]
Pack = Annotated[int | Literal["max"], PlainValidator(_pack)]
Table = Annotated[TableName, PlainValidator(_table)]


class QueueSettings(BusSettings):
    """The ingest queue: where the ingester sends and the router receives."""

    name: EntityName = Field(description="The queue's name, 1 to 260 characters.")
    ordering: Ordering = Field(
        default="table",
        description=(
            "What keeps its order: `table` (one session a table), `key` (a session a table and bucket of its primary key) or `none` "
            "(no sessions). `table` is the default because it promises most. The queue must have been created to match. With `key` and "
            "`none` several Spark tasks read a table that has a backlog; with `table` one does."
        ),
    )
    key_buckets: int = Field(
        default=64,
        ge=1,
        le=4096,
        description=(
            "Sessions a table when `ordering` is `key`; otherwise it has no effect. 64 is more than the sessions worked on at "
            "once, and few enough to be cheap. Change it only while the queue is empty: rows move to other sessions."
        ),
    )
    pack: Pack = Field(
        default=1,
        description=(
            'Changes of one session in one message of the queue: 1 to 500, or `"max"`: as many as fit (at most 500). The router unpacks them; '
            "topics always get single messages. More than 1 saves queue operations, see cost.md, and only the router can read it. "
            "Update routers before the ingester: a router that does not know packs dead-letters them. 1 is the default because every reader of the "
            "queue understands it."
        ),
    )
    duplicate_window: DuplicateWindow = Field(
        default=timedelta(minutes=10),
        description=(
            "How long a queue that DStream creates remembers message ids, `20s` to `168h`: a change that is sent again within it is "
            "dropped. `10m` covers a failover; a longer window covers a longer outage between two sends, and costs throughput. An existing queue "
            "keeps its own."
        ),
    )
    provision: Provision = Field(
        default="create",
        description=(
            "What to do with the queue at start: `create` it when missing, `verify` that it exists and fits, or `none` "
            "(no management call, no Manage right). The default is `create`, so that a first start works."
        ),
    )

    @property
    def most_packed(self) -> int:
        """`pack` as a number of changes."""
        return MOST if self.pack == "max" else self.pack


class Topology(Settings):
    """The part of the `ingester` block that both stages read."""

    db_connection_string: Address = Field(
        description=(
            "The source database, as `sqlserver://user:password@host:1433?database=DB` or in ADO form. Secret. "
            "The router reads it only for names, and not at all when `server_name` and `database` are set."
        ),
    )
    server_name: Annotated[str, AfterValidator(check_server_name)] | None = Field(
        default=None,
        description=(
            "The server's part of topic and lock names. None, the default: the first label of the host in "
            "`db_connection_string`. Set it when that label is not unique (instances, `sql.prod` and `sql.dev`)."
        ),
    )
    database: Annotated[str, AfterValidator(_database_name)] | None = Field(
        default=None,
        description="The database's part of topic and lock names. None, the default: the database of `db_connection_string`.",
    )
    queue: QueueSettings = Field(description="The ingest queue.")
    tables: Annotated[tuple[Table, ...], AfterValidator(_some)] = Field(
        description="The tables, at least one: `Persons` (schema dbo), `sales.Orders`, `[sales].[Order Details]`.",
    )

    @property
    def db(self) -> SqlAddress:
        """The source's address. Raises ConfigurationError when its environment variable is not set."""
        address = self.db_connection_string
        if isinstance(address, Unset):
            raise complain(
                address.path, [Problem(address.line, f"ingester.db_connection_string: {address.complaint()}")]
            )
        return address

    @property
    def nameless(self) -> Unset | None:
        """The setting that names still need; None when `origin` is known."""
        named = self.server_name is not None and self.database is not None
        return None if named or isinstance(self.db_connection_string, SqlAddress) else self.db_connection_string

    @property
    def origin(self) -> Origin:
        """The parts of every name. Raises ConfigurationError as `db` does, when a part has to come from the address."""
        server = self.server_name if self.server_name is not None else server_label(self.db.host)
        return Origin(server.lower(), self.database if self.database is not None else self.db.database)


def twice_listed(data: Any) -> list[tuple[Location, str]]:
    """A check for `bind`: tables that would share a topic, because they are the same or differ in case alone."""
    numbers: dict[int, TableName] = {}
    for number, text in enumerate(listed(data)):
        try:
            numbers[number] = _table(text)
        except ValueError:
            continue  # the model reports it better
    places = {id(table): number for number, table in numbers.items()}
    return [
        (("tables", places[id(later)]), _shared(first, later))
        for first, later in colliding(Origin("server", "database"), list(numbers.values()))
    ]


def _shared(first: TableName, later: TableName) -> str:
    """The error for two entries of one topic, with the way out."""
    shares = "they would share a topic and a session"
    if first == later:
        return f"names {later}, and {first} before it: {shares}; remove one of the two"
    return f"names {later}, and {first} before it: {shares}, since Service Bus ignores case; remove one, or rename one of the tables"


def listed(data: Any) -> tuple[Any, ...]:
    """The raw `tables` of a block, or nothing when it is not a list."""
    tables = data.get("tables")
    return tables if isinstance(tables, tuple) else ()
