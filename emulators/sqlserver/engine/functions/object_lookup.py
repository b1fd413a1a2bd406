"""Finds tables by what T-SQL's metadata functions are given, a name as text or an object id, as far as the login may see them."""

from __future__ import annotations

from emulators.sqlserver.engine.extension import Table
from emulators.sqlserver.engine.session_ports import StatementSession
from emulators.sqlserver.engine.store import storage
from emulators.sqlserver.engine.store.catalog import Catalog, TableEntry
from emulators.sqlserver.engine.store.database import StoredDatabase
from emulators.sqlserver.engine.store.links import StaleName
from emulators.sqlserver.results import Value
from emulators.sqlserver.tsql.reading.reader import Reader
from emulators.sqlserver.tsql.reading.tokens import tokenize


def split_name(text: str) -> tuple[str, ...] | None:
    """The parts of an object name in a string; None when it is no name."""
    reader = Reader(text, tokenize(text))
    try:
        parts = reader.qualified()
    except Exception:
        return None
    return parts if reader.position == len(reader.tokens) - 1 else None


class ObjectLookup:
    """What one session finds."""

    def __init__(self, session: StatementSession) -> None:
        self.session = session

    def database(self, number: Value) -> StoredDatabase | None:
        if number is None:
            return None
        return next((d for d in self.session.engine.databases() if d.database_id == number), None)

    def catalog(self, database: Value = -1) -> Catalog | None:
        found = self.session.current() if database == -1 else self.database(database)
        if found is None or found.availability.offline:
            return None
        return self.session.rights(found).visible(found.catalog_for(self.session))

    def entry_by_name(self, text: Value) -> TableEntry | None:
        parts = split_name(str(text)) if text is not None else None
        if parts is None or len(parts) > 3:
            return None
        database = self.session.engine.find(parts[0]) if len(parts) == 3 and parts[0] else self.session.current()
        schema = parts[-2] if len(parts) > 1 and parts[-2] else "dbo"
        if database is None or database.availability.offline:
            return None
        if database.name == "tempdb" and parts[-1].startswith("#"):
            database = self.session.private("#")
        return self.session.rights(database).visible(database.catalog_for(self.session)).find(schema, parts[-1])

    def entry_by_id(self, number: Value, database: Value = -1) -> TableEntry | None:
        catalog = self.catalog(database)
        return catalog.tables.get(int(str(number))) if catalog is not None and number is not None else None

    def row_count(self, database: StoredDatabase, table: Table) -> int:
        """Rows that this session sees; 0 for a table that is not there (any more)."""
        link = self.session.read_link(database, touched=False)
        try:
            return int(link.execute(f"SELECT count(*) FROM {storage.storage_name(table)}").fetchone()[0])
        except StaleName:
            return 0
