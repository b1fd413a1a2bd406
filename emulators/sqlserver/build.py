"""Puts the SQL Server emulator together: the engine, with Change Data Capture as its extension.

The only module that names both; it holds no behaviour of either.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from emulators.sqlserver.cdc.database import DatabaseCdc
from emulators.sqlserver.cdc.extension import CdcExtension
from emulators.sqlserver.cdc.options import DEFAULTS, CdcOptions
from emulators.sqlserver.engine.configuration import MAX_TEXT_REPL_SIZE
from emulators.sqlserver.engine.server_engine import SqlEngine


def build_engine(
    *,
    users: Mapping[str, str],
    databases: Sequence[str] = (),
    capture_interval: float | None = None,
    data_dir: Path | None = None,
    capture: CdcOptions = DEFAULTS,
    tokens: Mapping[str, str] | None = None,
) -> SqlEngine:
    """A server with these logins (name to password) and databases, ready for SqlServerEmulator.

    `capture_interval`: seconds between scans of new capture jobs, instead of the 5 s of sys.sp_cdc_add_job. `data_dir`: where the
    databases are kept, and found again when it is not the first start there; None keeps them only as long as the engine lives.
    `capture`: what else may be set about Change Data Capture. `tokens`: see SqlEngine. Closing the engine stops the jobs.
    Faults of capture: cdc/faults.py, on `capture_of(engine, database)`. Raises DataDirectoryError when `data_dir` cannot be used.
    """
    extension = CdcExtension(capture_interval=capture_interval, options=capture)
    engine = SqlEngine(users=users, databases=databases, extension=extension, data_dir=data_dir, tokens=tokens)
    engine.configuration.start_with(MAX_TEXT_REPL_SIZE, capture.max_text_repl_size)

    def changed(name: str, value: int) -> None:
        if name == MAX_TEXT_REPL_SIZE:
            extension.limit_large_objects(value)

    engine.configuration.changed = changed
    extension.limit_large_objects(engine.configuration.running(MAX_TEXT_REPL_SIZE))
    return engine


def capture_of(engine: SqlEngine, database: str) -> DatabaseCdc:
    """The capture state of a database of an engine made here: for tests, faults and the log injector.

    Raises LookupError when there is no such database, or Change Data Capture is not enabled in it.
    """
    found = engine.find(database)
    extension = engine.extension
    if found is None or not isinstance(extension, CdcExtension):
        raise LookupError(f"no database {database} with Change Data Capture")
    state = extension.find(found)
    if state is None:
        raise LookupError(f"Change Data Capture is not enabled in database {database}")
    return state
