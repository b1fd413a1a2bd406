"""How many slots Spark's executors are worth. Decides on values; only `registered` asks, and it asks Spark's own record of its executors.

`SparkContext.defaultParallelism` is not that number: it is at least 2, and `spark.default.parallelism` replaces it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

FEWEST_SLOTS = 2
"""With one slot, a backlog and the quick tables would take turns."""
_DYNAMIC = "spark.dynamicAllocation."


@dataclass(frozen=True, slots=True)
class Registered:
    """An executor that takes tasks. `tasks`: how many at a time, its cores divided by `spark.task.cpus`."""

    name: str
    tasks: int


def registered(spark: Any) -> list[Registered]:
    """The executors of `spark`, a SparkContext of the JVM, without those that Spark excluded after failures."""
    known = spark.statusStore().executorList(True)
    found = [known.apply(i) for i in range(known.size())]
    return [Registered(each.id(), each.maxTasks()) for each in found if each.maxTasks() > 0 and not each.isExcluded()]


@dataclass(frozen=True, slots=True)
class Allocation:
    """Who decides how many executors there are. `each`: tasks of one, None if the cluster decides; `most`: executors, with dynamic allocation."""

    dynamic: bool = False
    each: int | None = None
    most: float = inf

    @classmethod
    def of(cls, conf: Mapping[str, str], *, local: bool) -> Allocation:
        """As Spark reads `conf`. Local Spark ignores dynamic allocation."""
        if local or conf.get(f"{_DYNAMIC}enabled", "").lower() != "true":
            return cls()
        cores, cpus = _whole(conf, "spark.executor.cores"), _whole(conf, "spark.task.cpus") or 1
        most = _whole(conf, f"{_DYNAMIC}maxExecutors")
        return cls(True, None if cores is None else max(1, cores // cpus), inf if most is None else most)

    def slots(self, executors: Sequence[Registered]) -> int:
        """How many bundles to hand over.

        Dynamic allocation adds executors for tasks that wait, and never if every task has a core. So it gets tasks for twice the executors
        that are there, one more at least, up to what the most of them can run; and backlogs leave one slot to the other tables.
        """
        now = sum(executor.tasks for executor in executors)
        if not self.dynamic:
            return max(FEWEST_SLOTS, now)
        each = self.each or max((executor.tasks for executor in executors), default=1)
        wanted = min(now + max(now, each) + 1, self.most * each)
        return max(FEWEST_SLOTS, now, int(wanted))


def _whole(conf: Mapping[str, str], key: str) -> int | None:
    text = conf.get(key, "").strip()
    return int(text) if text.isdecimal() else None
