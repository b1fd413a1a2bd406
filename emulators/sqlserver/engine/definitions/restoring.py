"""Filtered indexes of a database of an earlier run: SQLite holds their conditions with numbers of functions, which each process gives anew."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from emulators.sqlserver.engine.definitions.indexes import filter_sql
from emulators.sqlserver.engine.extension import KeyIndex
from emulators.sqlserver.engine.session_ports import StatementSession
from emulators.sqlserver.engine.store import storage
from emulators.sqlserver.engine.store.catalog import TableEntry
from emulators.sqlserver.engine.store.database import StoredDatabase


def restore_filters(session: StatementSession, database: StoredDatabase) -> None:
    """Make the indexes with the numbers of this process, before anything reads or writes their tables."""
    entries = [e for e in database.catalog.tables.values() if any(index.filter for index in e.table.indexes)]
    if not entries:
        return
    try:
        _restore(session, database, entries)
    finally:
        database.leave(session)


def _restore(session: StatementSession, database: StoredDatabase, entries: Sequence[TableEntry]) -> None:
    with session.writing(database) as link:
        for entry in entries:
            table = replace(entry.table, indexes=tuple(_restored(session, entry, i) for i in entry.table.indexes))
            after = replace(entry, table=table)
            for index in table.indexes:
                if index.unique:
                    link.execute(f"DROP INDEX {storage.index_name(table, index)}")
                    storage.create_index(link, after, index)
            database.change(database.catalog_for(session).with_table(after))


def _restored(session: StatementSession, entry: TableEntry, index: KeyIndex) -> KeyIndex:
    if index.filter is None:
        return index
    return replace(index, filter=replace(index.filter, sql=filter_sql(session, entry, index.filter.condition)))
