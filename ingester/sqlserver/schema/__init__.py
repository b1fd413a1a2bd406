"""The columns of SQL Server's tables, as messages have them: their versions in dbo.cdc_schemas, and their types as JSON."""
