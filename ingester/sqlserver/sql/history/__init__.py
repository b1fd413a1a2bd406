"""The T-SQL of snapshots."""
