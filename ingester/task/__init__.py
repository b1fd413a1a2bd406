"""The half that moves changes: one slice of one table in a worker."""
