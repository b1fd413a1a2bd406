"""What both stages must agree on, declared once: the source's name, its tables, and the queue.

Each setting's `description` is its manual: type and unit follow from the annotation, the reason for the default and the meaning
of zero or none stand in the text. docs/configuration.md is written from it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from pydantic import AfterValidator, Field, PlainValidator, WrapValidator

from common.buses import Queue
from common.config.settings import Location, Settings
from common.config.values import Problem, Unset, WrongText, complain
from common.names import TRANSACTIONS, Origin, TableName, check_server_name, colliding, server_label
from common.sqladdress import SqlAddress
from common.table_selection import Entry, TableSelection, entry, is_pattern


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
    if is_pattern(value):
        raise ValueError(
            "must name one table: a pattern stands in tables (a name that has * or ? is written in brackets)"
        )
    return TableName.parse(value)


class Tables(tuple[TableName, ...]):
    """The exact names of `tables`, with everything else that stands there beside them."""

    selection: TableSelection

    @classmethod
    def of(cls, selection: TableSelection) -> Tables:
        tables = cls(selection.names)
        tables.selection = selection
        return tables


def _entry(value: Any) -> Entry:
    if isinstance(value, Entry):
        return value
    if not isinstance(value, str):
        raise ValueError("must be text in double quotes")
    try:
        return entry(value)
    except ValueError as error:
        raise WrongText(f'has "{value}", which {error}', unquoted=f"has an entry that {error}") from None


def _some(entries: tuple[Entry, ...]) -> Tables:
    selection = TableSelection.of(entries)
    if not selection.names and not selection.patterns:
        if not entries:
            raise ValueError("must name at least one table")
        raise ValueError("has nothing left to send: each table is taken away by an entry with !, or none is named")
    return Tables.of(selection)


def _as_they_are(value: Any, validated: Callable[[Any], Any]) -> Any:
    """Settings that are made of others keep the patterns."""
    return value if isinstance(value, Tables) else validated(value)


def _database_name(text: str) -> str:
    if not text or len(text) > 128:
        raise ValueError("must be 1 to 128 characters, SQL Server's limit")
    return text


Address = Annotated[SqlAddress | Unset, PlainValidator(_address)]
Table = Annotated[TableName, PlainValidator(_table)]


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
    queue: Queue = Field(description="The ingest queue.")
    tables: Annotated[
        tuple[Annotated[TableName, PlainValidator(_entry)], ...], AfterValidator(_some), WrapValidator(_as_they_are)
    ] = Field(
        description=(
            "The tables, at least one: `Persons` (schema dbo), `sales.Orders`, `[sales].[Order Details]`, or a pattern for those under CDC, "
            "`sales.*`; `!sales.Audit*` takes away. See [Patterns](#patterns)."
        ),
    )

    transactions: bool = Field(
        default=False,
        description=(
            "Whether each change has its place in its transaction, and each transaction two events with its counts, on a topic of their own. Off "
            "by default, because the changes are counted for it. A change needs a restart of both stages. See transactions.md."
        ),
    )

    @property
    def streams(self) -> tuple[TableName, ...]:
        """All that has a topic, a lock and an offset: the tables, and the transactions where they are configured."""
        return (*self.tables, TRANSACTIONS) if self.transactions else tuple(self.tables)

    @property
    def selection(self) -> TableSelection:
        """The exact names and the patterns. In settings whose patterns were resolved only the names are left."""
        return self.tables.selection if isinstance(self.tables, Tables) else TableSelection(self.tables)

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
        """The setting without which names cannot be made; None when `origin` is known."""
        named = self.server_name is not None and self.database is not None
        return None if named or isinstance(self.db_connection_string, SqlAddress) else self.db_connection_string

    @property
    def origin(self) -> Origin:
        """The parts of every name. Raises ConfigurationError as `db` does, if a part has to come from the address."""
        server = self.server_name if self.server_name is not None else server_label(self.db.host)
        return Origin(server.lower(), self.database if self.database is not None else self.db.database)


def twice_listed(data: Any) -> list[tuple[Location, str]]:
    """A check for `bind`: tables that would share a topic, because they are the same or differ only in case."""
    numbers: dict[int, TableName] = {}
    for number, text in enumerate(listed(data)):
        try:
            found = _entry(text)
        except ValueError:
            continue  # the model reports it better
        if isinstance(found, TableName):
            numbers[number] = found
    places = {id(table): number for number, table in numbers.items()}
    return [
        (("tables", places[id(later)]), _shared(first, later))
        for first, later in colliding(Origin("server", "database"), list(numbers.values()))
    ]


def _shared(first: TableName, later: TableName) -> str:
    """The error for two entries that share a topic, and how to fix it."""
    shares = "they would share a topic and a session"
    if first == later:
        return f"lists {later} twice: {shares}; remove one of the two"
    return f"lists {later} after {first}: {shares}, because Service Bus ignores case; remove one, or rename one of the tables"


def selection_of(data: Any) -> TableSelection:
    """For checks: what the raw `tables` of a block mean, without entries that the model refuses."""
    found = list[Entry]()
    for text in listed(data):
        try:
            found.append(_entry(text))
        except ValueError:
            continue
    return TableSelection.of(found)


def listed(data: Any) -> tuple[Any, ...]:
    """The raw `tables` of a block, or nothing when it is not a list."""
    tables = data.get("tables")
    return tables if isinstance(tables, tuple) else ()
