"""The part of the configuration that a Python worker needs: no locks, no storage account, no list of tables, no Spark settings.

Where all tasks run on this machine, workers get it in their environment, so that a task carries no secret. On a cluster it travels with
each task, which Spark encrypts (`ingester/spark/conf.py`).
"""

from __future__ import annotations

import base64
import os
import pickle
from dataclasses import dataclass, field
from functools import cache
from typing import Literal, Self

from common.bus.settings import QueueSettings
from common.buses import module_of
from common.errors import PermanentError
from common.names import Origin
from common.sqladdress import SqlAddress
from ingester.settings import IngesterSettings
from ingester.transform import Transform

VARIABLE = "DSTREAM_WORKER"
"""The environment variable. Only this user and root can read it (proc(5), /proc/PID/environ), as with the configuration's own variables."""
PRELOAD = "DSTREAM_PRELOAD"
"""The environment variable that names the modules that tasks need, which are imported before workers are forked (ingester/spark/forking)."""


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """`db`, `queue` and `tracing` hold secrets and do not show them. `stand_ins`: whether `on_oversize` is "dead_letter".

    `tracing`: OpenTelemetry's variables for a process that has none of its own; empty where workers inherit the environment.
    """

    db: SqlAddress = field(repr=False)
    queue: QueueSettings
    origin: Origin
    before_images: bool
    decimals_as_numbers: bool
    query_mode: Literal["direct", "function"]
    stand_ins: bool
    transactions: bool = False
    transforms: tuple[Transform, ...] = ()
    tracing: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    @classmethod
    def of(cls, settings: IngesterSettings) -> Self:
        """Raises ConfigurationError for an environment variable that is not set."""
        return cls(
            db=settings.db,
            queue=settings.queue,
            origin=settings.origin,
            before_images=settings.before_images,
            decimals_as_numbers=settings.decimals == "number",
            query_mode=settings.query_mode,
            stand_ins=settings.on_oversize == "dead_letter",
            transactions=settings.transactions,
        )

    def environment(self) -> dict[str, str]:
        """The environment from which `from_environment` reads these settings in a child process."""
        modules = f"pyspark.worker ingester.worker {module_of(self.queue)}"
        return {VARIABLE: base64.b64encode(pickle.dumps(self)).decode(), PRELOAD: modules}


@cache
def from_environment() -> WorkerSettings:
    """Raises PermanentError in a process that this ingester did not start."""
    text = os.environ.get(VARIABLE)
    if text is None:
        raise PermanentError(
            f"starting a worker: {VARIABLE} is not in its environment",
            hint="check spark.master: this ingester expects to start its workers itself, on this machine",
        )
    found = pickle.loads(base64.b64decode(text))
    assert isinstance(found, WorkerSettings)
    return found
