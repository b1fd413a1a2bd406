"""What `dstream status` and `dstream offsets` ask of SQL Server."""
