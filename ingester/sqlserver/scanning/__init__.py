"""Scans of SQL Server's log that the ingester asks for (`low_latency`)."""
