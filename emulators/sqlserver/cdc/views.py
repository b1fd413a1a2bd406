"""The system views of Change Data Capture: sys.dm_cdc_log_scan_sessions, sys.dm_cdc_errors, msdb.dbo.cdc_jobs and, with the jobs of
Change Data Capture alone, msdb.dbo.sysjobs and msdb.dbo.sysjobactivity.

Sources: the pages of these names under https://learn.microsoft.com/sql/relational-databases/
They show what the other modules keep, and change nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from emulators.sqlserver.cdc import jobs
from emulators.sqlserver.cdc.capture.scan_sessions import ERROR_COLUMNS, SESSION_COLUMNS
from emulators.sqlserver.cdc.database import DatabaseCdc
from emulators.sqlserver.engine.extension import CallContext, Database, Row, TableFunction
from emulators.sqlserver.results import Column, Value
from emulators.sqlserver.sqltypes import SqlType

_INT, _BIGINT, _TINYINT = SqlType("int"), SqlType("bigint"), SqlType("tinyint")

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


_SYSJOBS_COLUMNS = (
    Column("job_id", SqlType("uniqueidentifier"), nullable=False),
    Column("originating_server_id", _INT, nullable=False),
    Column("name", SqlType("sysname"), nullable=False),
    Column("enabled", _TINYINT, nullable=False),
    Column("description", SqlType("nvarchar", 512)),
    Column("start_step_id", _INT, nullable=False),
    Column("category_id", _INT, nullable=False),
    Column("owner_sid", SqlType("varbinary", 85), nullable=False),
    Column("notify_level_eventlog", _INT, nullable=False),
    Column("notify_level_email", _INT, nullable=False),
    Column("notify_level_netsend", _INT, nullable=False),
    Column("notify_level_page", _INT, nullable=False),
    Column("notify_email_operator_id", _INT, nullable=False),
    Column("notify_netsend_operator_id", _INT, nullable=False),
    Column("notify_page_operator_id", _INT, nullable=False),
    Column("delete_level", _INT, nullable=False),
    Column("date_created", SqlType("datetime"), nullable=False),
    Column("date_modified", SqlType("datetime"), nullable=False),
    Column("version_number", _INT, nullable=False),
)
_ACTIVITY_COLUMNS = (
    Column("session_id", _INT, nullable=False),
    Column("job_id", SqlType("uniqueidentifier"), nullable=False),
    Column("run_requested_date", SqlType("datetime")),
    Column("run_requested_source", SqlType("sysname")),
    Column("queued_date", SqlType("datetime")),
    Column("start_execution_date", SqlType("datetime")),
    Column("last_executed_step_id", _INT),
    Column("last_executed_step_date", SqlType("datetime")),
    Column("stop_execution_date", SqlType("datetime")),
    Column("job_history_id", _INT),
    Column("next_scheduled_run_date", SqlType("datetime")),
)
_DESCRIPTIONS = {"capture": "CDC Log Scan Job", "cleanup": "CDC Cleanup Job"}
_CATEGORIES = {"capture": 13, "cleanup": 16}
_OWNER = b"\1"
_MADE = "2024-01-01 00:00:00.000"
"""As everything that tells when the server came to be."""


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

    def agent_jobs(context: CallContext, arguments: Sequence[Value]) -> Iterator[Row]:
        for cdc in registry.states():
            for job in jobs.rows(cdc.stored_jobs()):
                kind = job.job_type
                name = f"cdc.{cdc.database.name}_{kind}"
                levels = (2, 0, 0, 0, 0, 0, 0, 0)
                yield (
                    *(job.job_id, 0, name, 1, _DESCRIPTIONS[kind], 1, _CATEGORIES[kind], _OWNER),
                    *(*levels, _MADE, _MADE, 1),
                )

    def activity(context: CallContext, arguments: Sequence[Value]) -> Iterator[Row]:
        for cdc in registry.states():
            for job in jobs.rows(cdc.stored_jobs()):
                runs = job.job_type == "capture" and cdc.job_running
                ended = None if runs else _MADE
                yield (1, job.job_id, _MADE, None, None, _MADE, None, None, ended, None, None)

    return {
        "sys.dm_cdc_log_scan_sessions": TableFunction(0, SESSION_COLUMNS, sessions),
        "sys.dm_cdc_errors": TableFunction(0, ERROR_COLUMNS, errors),
        "msdb.dbo.cdc_jobs": TableFunction(0, _JOB_COLUMNS, all_jobs),
        "msdb.dbo.sysjobs": TableFunction(0, _SYSJOBS_COLUMNS, agent_jobs),
        "msdb.dbo.sysjobactivity": TableFunction(0, _ACTIVITY_COLUMNS, activity),
    }
