"""The archive of Spark's classes while something is measured: one that is there, or none. An ingester that finds none makes one after a while,
beside what is measured, and the second JVM would be in the figures.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from ingester.spark.kept.archive import OFF, VARIABLE


def settle(own: Path = Path(sys.prefix, "share", "dstream", "jvm")) -> None:
    """For all processes that this one starts. `own`: the folder of the installation's archive. The environment's word stands."""
    os.environ.setdefault(VARIABLE, str(own) if own.exists() else OFF)
