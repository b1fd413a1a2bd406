"""What every DDL statement starts from: its database's catalog in the open write transaction, and the observer that may refuse."""

from __future__ import annotations

from collections.abc import Callable

from emulators.sqlserver.engine.extension import Table, TableColumn
from emulators.sqlserver.engine.session_ports import StatementSession
from emulators.sqlserver.engine.store.catalog import Catalog, Default, TableEntry
from emulators.sqlserver.engine.store.database import StoredDatabase
from emulators.sqlserver.results import SqlError, Value
from emulators.sqlserver.tsql import errors
from emulators.sqlserver.tsql.reading.statements import Name

DefaultValue = Callable[[Default, TableColumn], Value]
NO_SCHEMA = 'The specified schema name "{}" either does not exist or you do not have permission to use it.'


def schema_of(name: Name) -> str:
    return name[-2] if len(name) > 1 and name[-2] else "dbo"


class Defining:
    """DDL of one statement in one database. `value_of` computes a default's value."""

    def __init__(self, session: StatementSession, database: StoredDatabase, value_of: DefaultValue) -> None:
        self.session = session
        self.database = database
        self.link = database.write_link
        self.value_of = value_of

    @property
    def catalog(self) -> Catalog:
        active = self.database.active
        assert active is not None
        return active.catalog

    def entry(self, name: Name, missing: Callable[[str], SqlError] = errors.invalid_object) -> TableEntry:
        entry = self.catalog.find(schema_of(name), name[-1])
        if entry is None or entry.table.system:
            raise missing(".".join(name))
        return entry

    def publish(self, before: Table, after: TableEntry | None, text: str) -> None:
        """Tell the observer first: it may refuse."""
        active = self.database.active
        observer = self.database.observer
        if observer is not None and observer.tracks(before.object_id) and active is not None:
            observer.table_changed(before, after.table if after else None, text, active.transaction)

    def check_free(self, entry: TableEntry, name: str) -> None:
        """Raises 2714 for a name that a constraint of a table cannot have; `entry`: the table, perhaps not yet in the catalog."""
        own = {entry.fold(known) for known in (entry.table.name, *entry.constraints)}
        if name and (entry.fold(name) in own or self.catalog.has_object(entry.table.schema, name)):
            raise errors.object_exists(name)

    def new_id(self) -> int:
        number, catalog = self.catalog.new_id()
        self.database.change(catalog)
        return number
