"""The T-SQL that finds the tables under Change Data Capture, for patterns in `tables`. Reads the catalog alone."""

from __future__ import annotations

from ingester.sqlserver.sql.changes import SHORT_WAIT

TABLES = f"""\
{SHORT_WAIT};
SELECT OBJECT_SCHEMA_NAME(ct.source_object_id) AS source_schema, t.name
FROM (SELECT DISTINCT source_object_id FROM cdc.change_tables) AS ct LEFT JOIN sys.tables AS t ON t.object_id = ct.source_object_id
ORDER BY t.create_date, t.object_id"""
"""The oldest first. Only a login with a right on a table gets its name."""
