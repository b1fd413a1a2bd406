"""The T-SQL that finds the tables under Change Data Capture, for patterns in `tables`. Reads the catalog alone."""

from __future__ import annotations

from ingester.sqlserver.sql.changes import SHORT_WAIT

TABLES = f"""\
{SHORT_WAIT};
SELECT OBJECT_SCHEMA_NAME(ct.source_object_id) AS source_schema, t.name,
       CONVERT(nvarchar(12), ct.source_object_id) + N' ' + CONVERT(nvarchar(23), t.create_date, 126) AS source
FROM (SELECT DISTINCT source_object_id FROM cdc.change_tables) AS ct LEFT JOIN sys.tables AS t ON t.object_id = ct.source_object_id
ORDER BY t.create_date, t.object_id"""
"""The oldest first. Only a login with a right on a table gets its name. `source` is as dbo.cdc_offsets has it."""

OFFSETS_THERE = "SELECT CASE WHEN COL_LENGTH(N'dbo.cdc_offsets', N'source_object') IS NULL THEN 0 ELSE 1 END"
"""0 too before the first start, in an older installation, and for a login without a right on the table."""

OFFSETS = f"""\
{SHORT_WAIT};
SELECT o.table_name, o.source_object FROM dbo.cdc_offsets AS o ORDER BY o.updated_at"""
