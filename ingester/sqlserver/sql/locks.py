"""The T-SQL of application locks and of the epoch that goes with them. Values are parameters.

https://learn.microsoft.com/en-us/sql/relational-databases/system-stored-procedures/sp-getapplock-transact-sql
"""

from __future__ import annotations

from collections.abc import Sequence

from ingester.sqlserver.sql.changes import P, Parameters

TAKE = f"""\
DECLARE @status int;
EXEC @status = sys.sp_getapplock @Resource = {P}, @LockMode = N'Exclusive', @LockOwner = N'Session', @LockTimeout = 0;
SELECT @status AS status"""

RELEASE = f"EXEC sys.sp_releaseapplock @Resource = {P}, @LockOwner = N'Session'"

MODE = f"SELECT APPLOCK_MODE(N'public', {P}, N'Session') AS mode"

RAISE_EPOCH = f"""\
IF APPLOCK_MODE(N'public', {P}, N'Session') = N'Exclusive'
BEGIN
    INSERT INTO dbo.cdc_offsets (table_name, last_lsn, epoch, updated_at)
    SELECT {P}, NULL, 0, GETDATE() WHERE NOT EXISTS (SELECT 1 FROM dbo.cdc_offsets WHERE table_name = {P});
    UPDATE dbo.cdc_offsets SET epoch = epoch + 1 WHERE table_name = {P};
    SELECT epoch FROM dbo.cdc_offsets WHERE table_name = {P};
END"""
"""One batch, in the session that holds the lock: no other session raises this epoch meanwhile."""


def free_for_us(resources: Sequence[str]) -> tuple[str, Parameters]:
    """(number, 1 or 0) for each of `resources`: whether this session could take it, or holds it."""
    sql = "\nUNION ALL ".join(
        f"SELECT {number} AS number, APPLOCK_TEST(N'public', {P}, N'Exclusive', N'Session') AS free"
        for number in range(len(resources))
    )
    return sql, tuple(resources)
