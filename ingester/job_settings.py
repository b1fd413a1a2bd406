"""What the loop needs of the configuration, as values."""

from __future__ import annotations

from dataclasses import dataclass

from common.names import Ordering, TableName
from ingester.schedule import Rhythm


@dataclass(frozen=True, slots=True)
class JobSettings:
    """What the loop needs of the configuration. Times in seconds; `stop_seconds`: how long a stop waits for running slices.

    `ordering`: the queue's, or "table" where no table is to be spread over several tasks; `most_shares`: over how many at most.
    """

    tables: dict[TableName, Rhythm]
    lock_names: dict[TableName, str]
    page_rows: int
    slice_seconds: float
    coalesce_seconds: float
    skip_gaps: bool
    ordering: Ordering = "table"
    most_shares: int | None = None
    stop_seconds: float = 10.0
