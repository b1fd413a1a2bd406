"""The half that moves changes: in a worker, one slice of one table at a time."""
