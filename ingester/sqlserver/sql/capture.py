"""The T-SQL about the server's own capture. Run at most every half a minute, on a connection of its own. Nothing here
reads a change table."""

from __future__ import annotations

NEWEST = """\
SELECT TOP (1) DATEDIFF(second, tm.tran_end_time, GETDATE()) AS newest
FROM cdc.lsn_time_mapping AS tm
ORDER BY tm.start_lsn DESC"""

OFFSETS = """\
DECLARE @now datetime = GETDATE(), @newest datetime;
SET @newest = (SELECT TOP (1) tm.tran_end_time FROM cdc.lsn_time_mapping AS tm ORDER BY tm.start_lsn DESC);
SELECT o.table_name,
       DATEDIFF(second, ISNULL(
           (SELECT TOP (1) tm.tran_end_time FROM cdc.lsn_time_mapping AS tm WHERE tm.start_lsn <= o.last_lsn ORDER BY tm.start_lsn DESC),
           (SELECT TOP (1) tm.tran_end_time FROM cdc.lsn_time_mapping AS tm WHERE tm.start_lsn > o.last_lsn ORDER BY tm.start_lsn)
       ), @newest) AS age,
       DATEDIFF(second,
           (SELECT TOP (1) tm.tran_end_time FROM cdc.lsn_time_mapping AS tm WHERE tm.start_lsn > o.last_lsn ORDER BY tm.start_lsn),
           @now) AS waiting
FROM dbo.cdc_offsets AS o
WHERE o.last_lsn IS NOT NULL"""
"""Two seeks in the clustered index of the log's times for each offset. An offset that cleanup has passed is as old as
the oldest entry."""

SERVICE_HAS_NO_AGENT = "SELECT CASE WHEN SERVERPROPERTY(N'EngineEdition') = 5 THEN 1 ELSE 0 END"
"""5: Azure SQL Database, where a scheduler of the service runs capture and cleanup.
https://learn.microsoft.com/sql/t-sql/functions/serverproperty-transact-sql"""

_JOBS = "SELECT j.job_type, j.pollinginterval, j.continuous, j.retention FROM {} AS j"

JOBS_OF_AGENT = f"{_JOBS.format('msdb.dbo.cdc_jobs')} WHERE j.database_id = DB_ID()"
"""https://learn.microsoft.com/sql/relational-databases/system-tables/dbo-cdc-jobs-transact-sql"""

JOBS_OF_SERVICE = _JOBS.format("cdc.cdc_jobs")
"""There the table is in schema cdc of the database, and interval and mode have no meaning.
https://learn.microsoft.com/azure/azure-sql/database/change-data-capture-overview"""

DATABASE = """\
SELECT d.is_cdc_enabled, d.log_reuse_wait_desc,
       CASE WHEN EXISTS (SELECT 1 FROM sys.tables AS t WHERE t.is_tracked_by_cdc = 1) THEN 1 ELSE 0 END
FROM sys.databases AS d
WHERE d.name = DB_NAME()"""

ANY_CAPTURE = "SELECT TOP (1) ct.capture_instance FROM cdc.change_tables AS ct"

SCANS = """\
SELECT TOP (50) DATEDIFF(second, s.start_time, GETDATE()) AS began, DATEDIFF(second, s.end_time, GETDATE()) AS ended,
       s.tran_count, s.latency, s.error_count
FROM sys.dm_cdc_log_scan_sessions AS s
WHERE s.session_id <> 0
ORDER BY s.session_id DESC"""
"""Session 0 is the sum of all. Needs VIEW DATABASE STATE.
https://learn.microsoft.com/sql/relational-databases/system-dynamic-management-views/change-data-capture-sys-dm-cdc-log-scan-sessions"""

ERRORS = "SELECT DISTINCT TOP (20) e.error_number, e.error_message FROM sys.dm_cdc_errors AS e ORDER BY e.error_number, e.error_message"
"""Of the last 32 sessions.
https://learn.microsoft.com/sql/relational-databases/system-dynamic-management-views/change-data-capture-sys-dm-cdc-errors"""
