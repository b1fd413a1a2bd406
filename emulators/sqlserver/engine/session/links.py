"""A session's connections: one to each database that it has read, and which databases must stay while a request runs.

It decides neither what is read nor in which transaction.
"""

from __future__ import annotations

from collections.abc import Callable

from emulators.sqlserver.engine.store.database import StoredDatabase
from emulators.sqlserver.engine.store.links import Link
from emulators.sqlserver.tsql.planning.plans import SessionView


class SessionLinks:
    """The connections of one session. `session`: whose functions they call, and who is in the databases."""

    def __init__(self, session: SessionView) -> None:
        self._session = session
        self._links: dict[str, Link] = {}
        self._entered: set[StoredDatabase] = set()

    def of(self, database: StoredDatabase) -> Link:
        """The session's own connection, opened at its first use. Raises 911, 942."""
        self.enter(database)
        database.require_online()
        link = self._links.get(database.name)
        if link is None:
            link = self._links[database.name] = database.open_link()
            link.session = self._session
        return link

    def opened(self, name: str) -> Link | None:
        return self._links.get(name)

    def enter(self, database: StoredDatabase) -> None:
        """Keep a database from being dropped until the request that runs has ended. Raises 911 when it is gone already."""
        if database not in self._entered:
            database.enter(self._session)
            self._entered.add(database)

    def leave(self) -> None:
        """The request has ended."""
        entered, self._entered = self._entered, set()
        for database in entered:
            database.leave(self._session)

    def forget(self, database: StoredDatabase) -> None:
        """The database goes away."""
        link = self.put_aside(database)
        if link is not None:
            database.close_link(link)

    def put_aside(self, database: StoredDatabase) -> Link | None:
        """Take the connection out, still open: another database gets the name for a while."""
        return self._links.pop(database.name, None)

    def put_back(self, database: StoredDatabase, link: Link) -> None:
        self._links[database.name] = link

    def close(self, find: Callable[[str], StoredDatabase | None]) -> None:
        links, self._links = self._links, {}
        for name, link in list(links.items()):  # a DROP DATABASE of another session may be taking one away
            database = find(name)
            if database is not None:
                database.close_link(link)
