"""Puts the SQL Server emulator together: the engine, with Change Data Capture as its extension.

The only module that names both; it holds no behaviour of either.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from emulators.sqlserver.cdc.extension import CdcExtension
from emulators.sqlserver.engine.server_engine import SqlEngine
from emulators.sqlserver.results import Engine


def build_engine(
    *,
    users: Mapping[str, str],
    databases: Sequence[str] = (),
    capture_interval: float | None = None,
    data_dir: Path | None = None,
) -> Engine:
    """A server with these logins (name to password) and databases, ready for SqlServerEmulator.

    `capture_interval`: seconds between scans of new capture jobs, instead of the 5 s of sys.sp_cdc_add_job. `data_dir`: where the
    databases are kept; None keeps them only as long as the engine lives. Closing the engine stops the capture jobs.
    """
    extension = CdcExtension(capture_interval=capture_interval)
    return SqlEngine(users=users, databases=databases, extension=extension, data_dir=data_dir)
