"""The databases that a session has for itself: temporary tables and table variables, each in a file that goes with the session.

To the rest of the engine they are databases like others; a query that also reads another database gets their rows copied.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from emulators.sqlserver.engine.store.database import StoredDatabase

_TEMPDB = 2


def private_database(name: str, number: int, directory: Path, clock: Callable[[], datetime]) -> StoredDatabase:
    """`name`: the mark of its tables, "#" or "@", and the number of the session. `number`: which one of the session's it is."""
    kind = "temporary" if name[0] == "#" else "variables"
    path = directory / f"session-{name[1:]}-{kind}-{number}.sqlite"
    remove(path)
    return StoredDatabase(name, _TEMPDB, path, clock, shown="tempdb")


def remove_files(database: StoredDatabase) -> None:
    remove(database.path)


def remove(path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)
