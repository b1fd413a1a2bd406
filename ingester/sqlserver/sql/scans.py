"""The T-SQL of scans of the log that the ingester asks for.

https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/sys-sp-cdc-scan-transact-sql
https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/sp-replflush-transact-sql
"""

from __future__ import annotations

SCAN = """\
SET LOCK_TIMEOUT -1;
DECLARE @status int, @reached binary(10);
EXEC @status = sys.sp_cdc_scan @maxtrans = 500, @maxscans = 10;
IF @@ERROR = 0 AND ISNULL(@status, 0) = 0 SET @reached = sys.fn_cdc_get_max_lsn();
SELECT CAST(@status AS nvarchar(4000)) AS said, @reached AS reached, @@TRANCOUNT AS transactions;
BEGIN TRY
EXEC sys.sp_replflush;
SELECT 1 AS released;
END TRY
BEGIN CATCH
SELECT 0 AS released;
END CATCH"""
"""(the procedure's status, how far capture has come, open transactions), and (1 if this session is the log's reader no longer).

No TRY around the scan: an error would leave the procedure where it stands, past its own clean-up, with its transaction open. It waits for locks
as the server's own scans do. After a scan that was refused nobody asks how far capture has come: an error ends no batch, and whoever scans holds
the newest row until its transaction ends. A session stays the log's only reader until it ends or calls sp_replflush, which follows in the same
batch: so a client that is frozen meanwhile keeps nobody from capturing. The bounds are those of the capture job: the procedure's own are twenty
times as many transactions since SQL Server 2025, which may take longer than a scan may."""

REACHED = "SELECT sys.fn_cdc_get_max_lsn()"
"""How far capture has come; NULL before its first entry."""

WHO = "SELECT USER_NAME()"

JOB_RUNS = """\
SELECT TOP (1) CASE WHEN a.start_execution_date IS NOT NULL AND a.stop_execution_date IS NULL THEN 1 ELSE 0 END AS runs
FROM msdb.dbo.sysjobactivity AS a
WHERE a.job_id = (SELECT j.job_id FROM msdb.dbo.cdc_jobs AS j WHERE j.database_id = DB_ID() AND j.job_type = N'capture')
ORDER BY a.session_id DESC"""
"""Of the agent's latest session. An agent that was stopped while the job ran leaves the row as it was.
https://learn.microsoft.com/sql/relational-databases/system-tables/dbo-sysjobactivity-transact-sql"""

MAY_SCAN = "SELECT IS_ROLEMEMBER(N'db_owner')"
