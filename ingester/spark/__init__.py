"""Spark behind the port `executor`."""
