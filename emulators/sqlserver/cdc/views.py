"""The system views of Change Data Capture: sys.dm_cdc_log_scan_sessions, sys.dm_cdc_errors and msdb.dbo.cdc_jobs.

Sources: the pages of these names under https://learn.microsoft.com/sql/relational-databases/
They show what the other modules keep, and change nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from emulators.sqlserver.cdc import jobs
from emulators.sqlserver.cdc.database import DatabaseCdc
from emulators.sqlserver.cdc.scan_sessions import ERROR_COLUMNS, SESSION_COLUMNS
from emulators.sqlserver.engine.extension import CallContext, Database, Row, TableFunction
from emulators.sqlserver.results import Column, Value
from emulators.sqlserver.sqltypes import SqlType

_INT, _BIGINT = SqlType("int"), SqlType("bigint")

_JOB_COLUMNS = (
    Column("database_id", _INT, nullable=False),
    Column("job_type", SqlType("nvarchar", 20), nullable=False),
    Column("job_id", SqlType("uniqueidentifier")),
    Column("maxtrans", _INT),
    Column("maxscans", _INT),
    Column("continuous", SqlType("bit")),
    Column("pollinginterval", _BIGINT),
    Column("retention", _BIGINT),
    Column("threshold", _BIGINT),
)


class Registry(Protocol):
    """Where the views find the capture states."""

    def find(self, database: Database) -> DatabaseCdc | None: ...

    def states(self) -> Iterable[DatabaseCdc]: ...


def views(registry: Registry) -> Mapping[str, TableFunction]:
    """By lower-case name; a view of one database only with that database's name in front."""

    def sessions(context: CallContext, arguments: Sequence[Value]) -> Iterator[Row]:
        cdc = registry.find(context.database)
        return iter(cdc.sessions.rows() if cdc is not None else ())

    def errors(context: CallContext, arguments: Sequence[Value]) -> Iterator[Row]:
        cdc = registry.find(context.database)
        return iter(cdc.sessions.error_rows() if cdc is not None else ())

    def all_jobs(context: CallContext, arguments: Sequence[Value]) -> Iterator[Row]:
        for cdc in registry.states():
            for job in jobs.rows(cdc.stored_jobs()):
                yield (cdc.database.database_id, job.job_type, job.job_id, *job.settings)

    return {
        "sys.dm_cdc_log_scan_sessions": TableFunction(0, SESSION_COLUMNS, sessions),
        "sys.dm_cdc_errors": TableFunction(0, ERROR_COLUMNS, errors),
        "msdb.dbo.cdc_jobs": TableFunction(0, _JOB_COLUMNS, all_jobs),
    }
