"""The databases that are a session's own: of temporary tables ("#"), and of table variables ("@"), which a rollback does not touch.

They are made at their first use and go with the session, with its reset, or with the scope that filled them. Which statement makes a
scope is not decided here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

from emulators.sqlserver.engine.session.links import SessionLinks
from emulators.sqlserver.engine.store import storage
from emulators.sqlserver.engine.store.catalog import TableEntry
from emulators.sqlserver.engine.store.database import StoredDatabase
from emulators.sqlserver.engine.store.links import Link
from emulators.sqlserver.engine.store.private import remove_files


class Maker(Protocol):
    """The server."""

    def private_database(self, name: str, number: int) -> StoredDatabase: ...


class Holder(Protocol):
    """The session."""

    @property
    def session_id(self) -> int: ...

    @property
    def links(self) -> SessionLinks: ...

    def settle(self) -> None:
        """Take what a client has not read yet of the last result off its connection."""
        ...

    def writing(self, database: StoredDatabase) -> AbstractContextManager[Link]:
        """One writing statement."""
        ...


class PrivateDatabases:
    """A session's own databases by their mark, "#" or "@"."""

    def __init__(self, holder: Holder, maker: Maker) -> None:
        self._holder = holder
        self._maker = maker
        self._found: dict[str, StoredDatabase] = {}
        self._made = 0
        """How many so far: scopes that stand in one another have a file each."""

    def of(self, mark: str) -> StoredDatabase:
        """Made at its first use."""
        found = self._found.get(mark)
        if found is None:
            self._made += 1
            name = f"{mark}{self._holder.session_id}"
            found = self._found[mark] = self._maker.private_database(name, self._made)
        return found

    def get(self, mark: str) -> StoredDatabase | None:
        return self._found.get(mark)

    def all(self) -> tuple[StoredDatabase, ...]:
        return tuple(self._found.values())

    def forget(self, mark: str) -> None:
        """Drop all temporary tables, or all table variables."""
        found = self._found.pop(mark, None)
        if found is not None:
            self._holder.settle()
            self._holder.links.forget(found)
            found.close()
            remove_files(found)

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Its table variables are its own; the temporary tables that it makes go at its end."""
        links = self._holder.links
        outer = self._found.pop("@", None)
        outer_link = links.put_aside(outer) if outer is not None else None
        temporary = self._found.get("#")
        before = temporary.catalog_for(self._holder).tables if temporary is not None else {}
        try:
            yield
        finally:
            self.forget("@")
            if outer is not None:
                self._found["@"] = outer
                if outer_link is not None:
                    links.put_back(outer, outer_link)
            self._drop_newer(before)

    def _drop_newer(self, before: Mapping[int, TableEntry]) -> None:
        database = self._found.get("#")
        if database is None:
            return
        newer = [e for number, e in database.catalog_for(self._holder).tables.items() if number not in before]
        if newer:
            self._holder.settle()
            with self._holder.writing(database) as link:
                for entry in newer:
                    storage.drop(link, entry.table)
                    database.change(database.catalog_for(self._holder).without_table(entry.table.object_id))
