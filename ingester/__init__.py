"""Stage 1: from SQL Server's change tables to the ingest queue."""
