"""Where Python workers come from on this machine."""

DAEMON = "ingester.spark.forking.daemon"
"""The module that Spark runs, and asks for workers."""
