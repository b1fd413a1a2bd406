"""Snapshots of SQL Server's tables: where they are kept, and the rows that they read."""
