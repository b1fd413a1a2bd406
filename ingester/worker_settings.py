"""What a Python worker needs of the configuration, and no more: no lock, no storage account, no list of tables, nothing of Spark.

Where all tasks run on this machine it comes to the workers in their environment, so that a task carries no secret at all; on a cluster it
travels with each task, which Spark encrypts (spark_conf.py).
"""

from __future__ import annotations

import base64
import os
import pickle
from dataclasses import dataclass, field
from functools import cache
from typing import Literal, Self

from common.bus_settings import QueueSettings
from common.errors import PermanentError
from common.names import Origin
from common.sqladdress import SqlAddress
from ingester.settings import IngesterSettings
from ingester.transform import Transform

VARIABLE = "DSTREAM_WORKER"
"""Of the environment: as readable as those that the configuration's secrets come from, to this user and root (proc(5), /proc/PID/environ)."""


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """`db` and `queue` hold secrets, and show none. `stand_ins`: `on_oversize = "dead_letter"`."""

    db: SqlAddress = field(repr=False)
    queue: QueueSettings
    origin: Origin
    before_images: bool
    decimals_as_numbers: bool
    query_mode: Literal["direct", "function"]
    stand_ins: bool
    transforms: tuple[Transform, ...] = ()

    @classmethod
    def of(cls, settings: IngesterSettings) -> Self:
        """Raises ConfigurationError for a variable that is not set."""
        return cls(
            db=settings.db,
            queue=settings.queue,
            origin=settings.origin,
            before_images=settings.before_images,
            decimals_as_numbers=settings.decimals == "number",
            query_mode=settings.query_mode,
            stand_ins=settings.on_oversize == "dead_letter",
        )

    def environment(self) -> dict[str, str]:
        """For `from_environment` in a process that inherits it."""
        return {VARIABLE: base64.b64encode(pickle.dumps(self)).decode()}


@cache
def from_environment() -> WorkerSettings:
    """Raises PermanentError where nobody has put it there."""
    text = os.environ.get(VARIABLE)
    if text is None:
        raise PermanentError(
            f"starting a worker: {VARIABLE} is not in its environment",
            hint="a task of a local Spark ran in a process that this ingester has not started; see spark.master",
        )
    found = pickle.loads(base64.b64decode(text))
    assert isinstance(found, WorkerSettings)
    return found
