"""Low latency: the source is asked to capture, by one ingester of a database at a time."""
