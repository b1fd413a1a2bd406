"""A database's catalog and counters in its own SQLite file, written in the transactions that change them: both commit or neither.

Three tables that no query can see. Only what a transaction changed is written. For databases in a data directory; others have none.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, field

from emulators.sqlserver.engine.store import archive
from emulators.sqlserver.engine.store.catalog import Catalog, restored
from emulators.sqlserver.tsql.values.text_order import Fold

_TABLES = (
    'CREATE TABLE IF NOT EXISTS "engine$tables" (object_id INTEGER PRIMARY KEY, entry TEXT)',
    'CREATE TABLE IF NOT EXISTS "engine$catalog" (name TEXT PRIMARY KEY, value TEXT)',
    'CREATE TABLE IF NOT EXISTS "engine$counters" (object_id INTEGER PRIMARY KEY, value TEXT)',
)
_ROW_VERSION = 0
"""Its place among the counters; the others are identities, by the table's object id."""


@dataclass(frozen=True, slots=True)
class Kept:
    """What is kept of a database. `counters`: last identity value by object id, and the last rowversion as 0."""

    catalog: Catalog
    counters: Mapping[int, int] = field(default_factory=dict)


def counters(identities: Mapping[int, int], row_version: int) -> dict[int, int]:
    return {**identities, _ROW_VERSION: row_version}


class KeptCatalog:
    """What the file holds. Used only inside the database's write transaction."""

    def __init__(self, connection: sqlite3.Connection, fold: Fold) -> None:
        """Makes the tables where there are none, and reads them."""
        self._connection = connection
        for table in _TABLES:
            connection.execute(table)
        self.kept = self._pending = self._load(fold)

    def identities(self) -> dict[int, int]:
        return {number: value for number, value in self.kept.counters.items() if number != _ROW_VERSION}

    def row_version(self, first: int) -> int:
        return self.kept.counters.get(_ROW_VERSION, first)

    def write(self, now: Kept) -> None:
        """Write what differs from what is kept; it counts when `committed` is called."""
        before, self._pending = self.kept, now
        if now.catalog is not before.catalog:
            self._write_catalog(before.catalog, now.catalog)
        for number in before.counters.keys() - now.counters.keys():
            self._connection.execute('DELETE FROM "engine$counters" WHERE object_id = ?', (number,))
        changed = [(n, str(value)) for n, value in now.counters.items() if before.counters.get(n) != value]
        self._connection.executemany('INSERT OR REPLACE INTO "engine$counters" VALUES (?, ?)', changed)

    def committed(self) -> None:
        self.kept = self._pending

    def _write_catalog(self, before: Catalog, now: Catalog) -> None:
        gone = [(number,) for number in before.tables if number not in now.tables]
        self._connection.executemany('DELETE FROM "engine$tables" WHERE object_id = ?', gone)
        new = [(n, archive.written(e)) for n, e in now.tables.items() if before.tables.get(n) is not e]
        self._connection.executemany('INSERT OR REPLACE INTO "engine$tables" VALUES (?, ?)', new)
        for name in ("schemas", "views", "next_object", "untrusted"):
            value = getattr(now, name)
            if value is not getattr(before, name):
                row = (name, archive.written(list(value.values()) if name == "views" else value))
                self._connection.execute('INSERT OR REPLACE INTO "engine$catalog" VALUES (?, ?)', row)

    def _load(self, fold: Fold) -> Kept:
        entries = [
            archive.read(text, fold)
            for (text,) in self._connection.execute('SELECT entry FROM "engine$tables" ORDER BY object_id')
        ]
        rest = {name: archive.read(text) for name, text in self._connection.execute('SELECT * FROM "engine$catalog"')}
        numbers = self._connection.execute('SELECT object_id, value FROM "engine$counters"').fetchall()
        empty = Catalog(fold=fold)
        schemas, following = rest.get("schemas", empty.schemas), rest.get("next_object", empty.next_object)
        untrusted = rest.get("untrusted", empty.untrusted)
        catalog = restored(fold, entries, schemas, rest.get("views", ()), following, untrusted)
        return Kept(catalog, {number: int(value) for number, value in numbers})
