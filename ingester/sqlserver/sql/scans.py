"""The T-SQL of scans of the log that the ingester asks for.

https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/sys-sp-cdc-scan-transact-sql
"""

from __future__ import annotations

SCAN = """\
BEGIN TRY
DECLARE @status int;
EXEC @status = sys.sp_cdc_scan;
SELECT 0 AS number, CAST(@status AS nvarchar(4000)) AS said, sys.fn_cdc_get_max_lsn() AS reached;
END TRY
BEGIN CATCH
SELECT ERROR_NUMBER() AS number, ERROR_MESSAGE() AS said, CAST(NULL AS binary(10)) AS reached;
END CATCH"""
"""(error number or 0, the procedure's status or the error's text, how far capture has come). With the procedure's own bounds: ten times 500
transactions. Caught at the server, because a refusal is usual here and must not cost the connection."""

MAY_SCAN = "SELECT IS_ROLEMEMBER(N'db_owner')"
