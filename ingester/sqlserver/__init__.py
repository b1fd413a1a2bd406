"""SQL Server behind the ingester's ports."""
