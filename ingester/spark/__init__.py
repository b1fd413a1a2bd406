"""Spark: the adapter of the port `executor`."""
