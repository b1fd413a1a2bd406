"""sys.dm_tran_locks: the locks that this server has, which are fewer than SQL Server's.

There are the databases that sessions are in, the tables that a statement reads until its last row is taken, what open write
transactions hold (intent locks and the rows that they changed, or whole tables), the tables of readers that keep their locks, readers
that wait, and application locks. There are none on pages, schemas or metadata, none on rows that were only read, none of those who wait
to write, and none of the faults that hold tables.
Source: https://learn.microsoft.com/sql/relational-databases/system-dynamic-management-views/sys-dm-tran-locks-transact-sql
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from zlib import crc32

from emulators.sqlserver.engine.session_ports import StatementSession
from emulators.sqlserver.engine.store import storage
from emulators.sqlserver.engine.store.database import StoredDatabase
from emulators.sqlserver.engine.views.indexes import partition_id, partitioned
from emulators.sqlserver.engine.views.viewing import Row, Viewpoint, Views, shape
from emulators.sqlserver.tsql.planning.plans import KeptLock

_NOT_HELD = ("master", "tempdb")
"""Databases that cannot be dropped: nobody locks them by being there."""
_ROWS_SHOWN = 5000
_NO_LOCKS = ("READ UNCOMMITTED", "SNAPSHOT")


@dataclass(frozen=True, slots=True)
class _Lock:
    """`entity`: an object's or a heap's number, 0 for what has none."""

    kind: str
    database_id: int
    mode: str
    session_id: int
    owner: str = "TRANSACTION"
    entity: int = 0
    description: str = ""
    status: str = "GRANTED"
    times: int = 1


def _locks(view: Viewpoint) -> Iterator[Row]:
    engine = view.session.engine
    for session in engine.sessions():
        for lock in _of_session(session):
            yield _row(lock)
    for resource, owner, mode, times in engine.application_locks.all_held():
        principals = engine.security.of(resource.database_id, "").principals
        number = principals[resource.principal.lower()].principal_id if resource.principal.lower() in principals else 0
        text = f"{number}:[{resource.name[:32]}]:({crc32(resource.name.encode()):08x})"
        kind = "TRANSACTION" if owner.transaction else "SESSION"
        yield _row(
            _Lock("APPLICATION", resource.database_id, mode, owner.session_id, kind, description=text, times=times)
        )


def _of_session(session: StatementSession) -> Iterator[_Lock]:
    here, number = session.current(), session.session_id
    if here.name.lower() not in _NOT_HELD:
        yield _Lock("DATABASE", here.database_id, "S", number, "SHARED_TRANSACTION_WORKSPACE")
    for database in session.engine.databases():
        yield from _of_transaction(session, database)
    stream, waiting = session.stream, session.waiting
    if stream is None or not stream.finished:
        for name, table in session.reading:
            yield from _of_reader(session, name, table, "GRANTED")
    if waiting is not None:
        yield from _of_reader(session, *waiting, "WAIT")


def _of_reader(session: StatementSession, name: str, table: str, status: str) -> Iterator[_Lock]:
    """Who asks for no locks on rows still wants the table to stay as it is."""
    database = session.engine.find(name)
    if database is not None:
        isolation = session.settings.isolation
        versions = isolation == "READ COMMITTED" and database.read_committed_snapshot
        mode = "Sch-S" if isolation in _NO_LOCKS or versions else "IS"
        number = storage.object_id_of(table)
        yield _Lock("OBJECT", database.database_id, mode, session.session_id, entity=number, status=status)


def _of_transaction(session: StatementSession, database: StoredDatabase) -> Iterator[_Lock]:
    held, kept = database.locks.of(session), database.locks.all_kept(session)
    excluded, changed = (set(held.excluded), held.rows()) if held is not None else (set(), {})
    catalog, number = database.catalog_for(session), session.session_id
    for stored in sorted(excluded | set(kept) | set(changed)):
        object_id = storage.object_id_of(stored)
        mode = "X" if stored in excluded else _joined(stored in changed, kept.get(stored, frozenset()))
        yield _Lock("OBJECT", database.database_id, mode, number, entity=object_id)
        entry = catalog.tables.get(object_id)
        if entry is None or mode != "IX":
            continue
        index = partitioned(entry.table)[0]
        entity = partition_id(entry.table, index)
        for row in sorted(changed.get(stored, ()))[:_ROWS_SHOWN]:
            text = f"({crc32(str(row).encode()):012x})" if index else f"1:{row // 100 + 8}:{row % 100}"
            yield _Lock("KEY" if index else "RID", database.database_id, "X", number, entity=entity, description=text)


def _joined(changed: bool, kept: frozenset[KeptLock]) -> str:
    """The mode of a table of which rows are held so."""
    if "EXCLUSIVE" in kept:
        return "X"
    intent = changed or "UPDATE" in kept
    if "TABLE" in kept:
        return "SIX" if intent else "S"
    return "IX" if intent else "IS"


def _row(lock: _Lock) -> Row:
    transaction = 1000 + lock.session_id if lock.owner == "TRANSACTION" else 0
    address = crc32(repr(lock).encode()).to_bytes(8, "big")
    return (
        *(lock.kind, "", lock.database_id, lock.description, lock.entity, 0, lock.mode, "LOCK", lock.status),
        *(lock.times, 0, lock.session_id, 0, 0, lock.owner, transaction),
        *("00000000-0000-0000-0000-000000000000", f"0x{address.hex()}:0:0", address),
    )


VIEWS: Views = {
    "sys.dm_tran_locks": (
        shape(
            "resource_type:text resource_subtype:text resource_database_id:int resource_description:wide "
            "resource_associated_entity_id:big resource_lock_partition:int request_mode:text request_type:text "
            "request_status:text request_reference_count:small request_lifetime:int request_session_id:int "
            "request_exec_context_id:int request_request_id:int request_owner_type:text request_owner_id:big "
            "request_owner_guid:guid request_owner_lockspace_id:lockspace lock_owner_address:address"
        ),
        _locks,
    ),
}
