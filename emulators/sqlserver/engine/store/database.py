"""One database: its SQLite file, its catalog, its one writer, and who is in it. Speaks no T-SQL.

A write transaction belongs to an owner (a session, or one `writer()` block), whatever thread acts for it. A procedure that an
extension runs inside a session's open write transaction joins it: `writer()` is then a savepoint of that transaction.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Protocol

from emulators.sqlserver.collation import SERVER_DEFAULT, known
from emulators.sqlserver.engine.extension import ChangeObserver, Table, Transaction
from emulators.sqlserver.engine.locks import WriterLock
from emulators.sqlserver.engine.store import availability, storage, system_tables
from emulators.sqlserver.engine.store.availability import Availability
from emulators.sqlserver.engine.store.catalog import Catalog
from emulators.sqlserver.engine.store.kept_catalog import Kept, KeptCatalog, counters
from emulators.sqlserver.engine.store.links import Link, ThreadsLink
from emulators.sqlserver.engine.store.table_locks import HeldByTransaction, TableLocks
from emulators.sqlserver.engine.store.write_transaction import WriteTransaction
from emulators.sqlserver.results import Cancel, Column
from emulators.sqlserver.sqltypes import SqlType
from emulators.sqlserver.tsql.errors import object_exists, unknown_database
from emulators.sqlserver.tsql.values.temporal import moment_of, write
from emulators.sqlserver.tsql.values.text_order import name_folding
from emulators.sqlserver.tsql.values.types import DATETIME, collated, collation_named

_FIRST_ROW_VERSION = 2000

RUNNING = threading.local()
"""`session`: whose batch this thread runs at the moment."""


class Running(Protocol):
    """What a database asks of the session that this thread runs."""

    def patience(self) -> tuple[float | None, Cancel]:
        """Seconds that it waits for a lock, None without end, and what is asked meanwhile."""
        ...

    def enter(self, database: StoredDatabase) -> None:
        """`StoredDatabase.enter`, until what it runs has ended."""
        ...


def running_session() -> Running | None:
    return getattr(RUNNING, "session", None)


def _never() -> bool:
    return False


class StoredDatabase:
    """Implements extension.Database."""

    def __init__(
        self,
        name: str,
        database_id: int,
        path: Path,
        clock: Callable[[], datetime],
        shown: str = "",
        collation: str = "",
        *,
        kept: bool = False,
        first_transaction: int = 0,
    ) -> None:
        """`shown`: the name in error texts, where it is another. `collation`: "" for the server's.

        `kept`: the catalog is in the file too, and what the file holds is taken up. `first_transaction`: the number before the first.
        """
        self.name = name
        self.shown = shown or name
        self.database_id = database_id
        self.created = clock()
        self.path = path
        self.clock = clock
        self.lock = WriterLock()
        self.write_link = Link(path)
        self.collation = collation
        self.fold = name_folding(known(collation))
        self._kept = KeptCatalog(self.write_link.raw, self.fold) if kept else None
        self.catalog = self._kept.kept.catalog if self._kept is not None else Catalog(fold=self.fold)
        self.active: WriteTransaction | None = None
        self.observer: ChangeObserver | None = None
        self.cdc_enabled = False
        self.snapshot_allowed = False
        self.read_committed_snapshot = False
        self.recovery_model = "SIMPLE" if name.lower() in ("master", "tempdb", "msdb") else "FULL"
        self.availability = Availability()
        self.commits = 0
        self.identities: dict[int, int] = self._kept.identities() if self._kept is not None else {}
        """Object id -> last identity value given; never rolled back, as on the real server."""
        self.row_version = self._kept.row_version(_FIRST_ROW_VERSION) if self._kept is not None else _FIRST_ROW_VERSION
        self._transactions = first_transaction
        self._local = threading.local()
        self._readers: list[Link] = []
        self._guard = threading.Lock()
        self.locks = TableLocks(self.lock, self._held_by_transaction, self._stored)
        self._users: set[object] = set()
        self._retired = False

    # -- who is in it. SQLite's connections are not to be closed while another thread uses them.

    def enter(self, user: object) -> None:
        """The database stays until this user leaves: DROP DATABASE is refused. Raises 911 when it is gone already."""
        with self._guard:
            if self._retired:
                raise unknown_database(self.name)
            self._users.add(user)

    def leave(self, user: object) -> None:
        with self._guard:
            self._users.discard(user)

    def retire(self, user: object) -> bool:
        """Let nobody in any more; False, and nothing happens, while anybody but `user` is in it."""
        with self._guard:
            if self._users - {user}:
                return False
            self._retired = True
            return True

    def used_by(self, user: object) -> bool:
        with self._guard:
            return user in self._users

    def make_available(self, wanted: Availability, user: object) -> bool:
        """False, and nothing happens, where `wanted` takes it offline while anybody but `user` is in it. Raises 911 when it is gone already."""
        with self._guard:
            if self._retired:
                raise unknown_database(self.name)
            if wanted.offline and self._users - {user}:
                return False
            self.availability = wanted
            return True

    def require_online(self) -> None:
        """For who has entered: it stays online then. Raises 942."""
        if self.availability.offline:
            raise availability.offline(self.name)

    @property
    def for_jobs(self) -> bool:
        return self.availability.for_jobs

    # -- transactions

    def begin_write(self, owner: object, timeout: float | None, cancelled: Cancel, user: bool) -> None:
        """Take the writer lock for `owner`. Raises SqlError 942, 1222, Cancelled."""
        self.require_online()
        self.lock.acquire(owner, timeout, cancelled)
        try:
            self.write_link.execute("BEGIN IMMEDIATE")
        except BaseException:
            self.lock.release(owner)
            raise
        transaction = None
        if user:
            self._transactions += 1
            transaction = Transaction(self._transactions, self.now())
        self.active = WriteTransaction(owner, transaction, self.catalog, self.write_link, lambda: self.observer)

    def owned_by(self, owner: object) -> bool:
        active = self.active
        return active is not None and active.owner is owner

    def held(self, schema: str, name: str) -> AbstractContextManager[None]:
        return self.locks.table(schema, name)

    def held_end(self, schema: str, name: str) -> AbstractContextManager[None]:
        return self.locks.end(schema, name)

    def _held_by_transaction(self) -> HeldByTransaction | None:
        active = self.active
        return None if active is None else active.held

    def _stored(self, schema: str, name: str) -> str | None:
        table = self.table(schema, name)
        return None if table is None else self.storage(table)

    def commit_write(self, owner: object) -> None:
        """Raises what the observer raises, after rolling back."""
        active = self.active
        assert active is not None
        assert active.owner is owner
        try:
            if self.observer is not None and active.transaction is not None:
                self.observer.committing(active.transaction, self.write_link.raw)
            if self._kept is not None:
                self._kept.write(Kept(active.catalog, counters(self.identities, self.row_version)))
            self.write_link.execute("COMMIT")
        except BaseException:
            self.rollback_write(owner)
            raise
        self.catalog = active.catalog
        if self._kept is not None:
            self._kept.committed()
        self.commits += 1
        self.active = None
        self.write_link.session = None
        self.lock.release(owner)

    def rollback_write(self, owner: object) -> None:
        active = self.active
        if active is None or active.owner is not owner:
            return
        try:
            if self.write_link.raw.in_transaction:
                self.write_link.execute("ROLLBACK")
            if self.observer is not None and active.transaction is not None:
                self.observer.rolled_back(active.transaction)
        finally:
            self.active = None
            self.write_link.session = None
            self.lock.release(owner)

    def save(self, name: str) -> None:
        """A user's savepoint."""
        self._open().save(name)

    def rollback_to(self, name: str) -> None:
        self._open().rollback_to(name)
        self.lock.released(lambda: None)

    def statement(self) -> AbstractContextManager[Link]:
        """What a statement does inside the open write transaction, undone when it raises."""
        return self._open().statement()

    def _open(self) -> WriteTransaction:
        if self.active is None:
            raise RuntimeError(f"no write transaction is open in {self.name}")
        return self.active

    # -- catalog

    def catalog_for(self, owner: object | None) -> Catalog:
        """The catalog as `owner` sees it: its own changes, or what is committed."""
        active = self.active
        return active.catalog if active is not None and owner is not None and active.owner is owner else self.catalog

    def _seen(self) -> Catalog:
        return self.catalog_for(getattr(self._local, "owner", None) or running_session())

    def change(self, catalog: Catalog) -> None:
        """Give the open write transaction another catalog."""
        self._open().catalog = catalog

    # -- extension.Database

    @contextmanager
    def writer(self, gives_way: Cancel | None = None) -> Iterator[sqlite3.Connection]:
        session = running_session()
        if getattr(self._local, "owner", None) is not None:
            raise RuntimeError(f"this thread already writes to {self.name}")
        if session is not None and self.owned_by(session):
            with self.statement() as link:
                yield link.raw
            return
        owner = object()
        patience = session.patience() if session is not None else (None, gives_way or _never)
        self.enter(owner)
        try:
            self.begin_write(owner, *patience, user=False)
            self._local.owner = owner
            yield self.write_link.raw
            self.commit_write(owner)
        except BaseException:
            self.rollback_write(owner)
            raise
        finally:
            self._local.owner = None
            self.leave(owner)

    def reader(self) -> sqlite3.Connection:
        session = running_session()
        if session is not None:
            session.enter(self)
        own: ThreadsLink | None = getattr(self._local, "reader", None)
        if own is None:
            own = self._local.reader = ThreadsLink(self.open_link(), self.close_link)
        return own.link.raw

    def open_link(self) -> Link:
        """A further connection, closed with the database at the latest."""
        link = Link(self.path)
        with self._guard:
            self._readers.append(link)
        return link

    def close_link(self, link: Link) -> None:
        with self._guard:
            if link in self._readers:
                self._readers.remove(link)
        link.close()

    def table(self, schema: str, name: str) -> Table | None:
        entry = self._seen().find(schema, name)
        return None if entry is None else entry.table

    def table_by_id(self, object_id: int) -> Table | None:
        entry = self._seen().tables.get(object_id)
        return None if entry is None else entry.table

    def tables(self) -> Sequence[Table]:
        return [entry.table for entry in self._seen().tables.values()]

    def storage(self, table: Table) -> str:
        return storage.storage_name(table)

    def create_system_table(
        self,
        connection: sqlite3.Connection,
        schema: str,
        name: str,
        columns: Sequence[Column],
        order: Sequence[str] = (),
    ) -> Table:
        table, catalog = system_tables.create(
            self.write_link, self._open().catalog, (schema, name), columns, order, self.now(), self.stored_type
        )
        self.change(catalog)
        return table

    def stored_type(self, kind: SqlType, written: str = "") -> SqlType:
        """The type of a column with the collation that COLLATE names, or the database's. Raises 448.

        In a database with the server's collation that one has no name; in others every column's has.
        """
        if written:
            return collated(kind, collation_named(written, self.collation) or (self.collation and SERVER_DEFAULT))
        return kind if kind.collation else collated(kind, self.collation)

    def alter_system_table(self, connection: sqlite3.Connection, table: Table, column: str, kind: SqlType) -> None:
        """The caller's write transaction is not to go on when this fails."""
        catalog = self._open().catalog
        self.change(system_tables.alter(self.write_link, catalog, self.name, table, column, kind))

    def drop_system_table(self, connection: sqlite3.Connection, table: Table) -> None:
        storage.drop(self.write_link, table)
        self.change(self._open().catalog.without_table(table.object_id))

    def create_schema(self, name: str) -> None:
        """Raises SqlError 2714 for a schema that exists."""

        def edit(catalog: Catalog) -> Catalog:
            if catalog.schema(name) is not None:
                raise object_exists(name)
            return catalog.with_schema(name)

        self._edit(edit)

    def drop_schema(self, name: str) -> None:
        self._edit(lambda catalog: catalog.without_schema(name))

    def _edit(self, edit: Callable[[Catalog], Catalog]) -> None:
        """Change the catalog inside the caller's write transaction, or in one of its own."""
        owner = getattr(self._local, "owner", None) or running_session()
        if owner is not None and self.owned_by(owner):
            self.change(edit(self._open().catalog))
            return
        with self.writer():
            self.change(edit(self._open().catalog))

    def set_observer(self, observer: ChangeObserver | None) -> None:
        self.observer = observer

    def set_cdc_enabled(self, enabled: bool) -> None:
        self.cdc_enabled = enabled

    def set_tracked(self, object_id: int, tracked: bool) -> None:
        def edit(catalog: Catalog) -> Catalog:
            entry = catalog.tables.get(object_id)
            return catalog if entry is None else catalog.with_table(replace(entry, tracked=tracked))

        self._edit(edit)

    def now(self) -> str:
        return write(moment_of(self.clock()), DATETIME)

    # -- numbers that are given once

    def next_row_version(self) -> bytes:
        """rowversion: unique and growing in the database; the caller holds the writer lock."""
        self.row_version += 1
        return self.row_version.to_bytes(8, "big")

    def close(self) -> None:
        with self._guard:
            links, self._readers = self._readers, []
        for link in links:
            link.close()
        self.write_link.close()
