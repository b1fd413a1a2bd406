"""An emulator of SQL Server with Change Data Capture: TDS 7.4 over SQLite. What it cannot do it refuses by name."""
