"""How many slots the registered executors are worth, with and without dynamic allocation."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from ingester.driver.dispatch import backlog_room
from ingester.spark.capacity import FEWEST_SLOTS, Allocation, Registered, registered


def summary(name: str, tasks: int, *, excluded: bool = False) -> Any:
    """An executor in Spark's record."""
    return SimpleNamespace(id=lambda: name, maxTasks=lambda: tasks, isExcluded=lambda: excluded)


def spark(*known: Any) -> Any:
    """A JVM's SparkContext with these executors; it has no other number for them."""
    found = SimpleNamespace(size=lambda: len(known), apply=lambda index: known[index])
    return SimpleNamespace(statusStore=lambda: SimpleNamespace(executorList=lambda active: found if active else None))


def test_the_driver_runs_no_tasks_and_an_excluded_executor_takes_none() -> None:
    known = summary("driver", 0), summary("1", 4), summary("2", 4, excluded=True), summary("3", 2)
    assert registered(spark(*known)) == [Registered("1", 4), Registered("3", 2)]


def test_the_only_executor_of_local_spark_is_its_driver() -> None:
    assert registered(spark(summary("driver", 8))) == [Registered("driver", 8)]


def executors(*tasks: int) -> list[Registered]:
    return [Registered(str(number), each) for number, each in enumerate(tasks)]


@pytest.mark.parametrize(("tasks", "slots"), [((), FEWEST_SLOTS), ((1,), FEWEST_SLOTS), ((4,), 4), ((4, 4, 8), 16)])
def test_slots_follow_the_executors_up_and_down(tasks: tuple[int, ...], slots: int) -> None:
    assert Allocation.of({}, local=False).slots(executors(*tasks)) == slots


def dynamic(**more: str) -> dict[str, str]:
    return {"spark.dynamicAllocation.enabled": "true", **{key.replace("_", "."): value for key, value in more.items()}}


@pytest.mark.parametrize(("cores", "most", "grown", "slots"), [(4, 6, [1, 2, 4, 6, 6], 24), (1, 4, [1, 2, 3, 3, 3], 4)])
def test_backlogs_wait_until_the_most_executors_are_there_because_spark_adds_one_only_for_a_task_that_waits(
    cores: int, most: int, grown: list[int], slots: int
) -> None:
    """With one core each, the last executor comes for a quick table: backlogs leave it one slot."""
    conf = dynamic(spark_executor_cores=str(cores), spark_dynamicAllocation_maxExecutors=str(most))
    allocation = Allocation.of(conf, local=False)
    present, found = 0, []
    for _ in grown:
        waiting = backlog_room(allocation.slots(executors(*[cores] * present)), 0, 0)
        present = max(present, -(-waiting // cores))  # what Spark asks for
        found.append(present)
    assert (found, allocation.slots(executors(*[cores] * most))) == (grown, slots)


@pytest.mark.parametrize(
    ("conf", "present", "slots"),
    [
        ({}, (), FEWEST_SLOTS),
        ({}, (8,), 17),
        ({"spark_executor_cores": "4", "spark_task_cpus": "2"}, (), 3),
        ({"spark_executor_cores": "4", "spark_task_cpus": "2"}, (2, 2, 2), 13),
        ({"spark_executor_cores": "4", "spark_dynamicAllocation_maxExecutors": "2"}, (4, 4, 4), 12),
    ],
)
def test_without_an_upper_limit_tasks_for_twice_as_many_wait(
    conf: Mapping[str, str], present: tuple[int, ...], slots: int
) -> None:
    assert Allocation.of(dynamic(**conf), local=False).slots(executors(*present)) == slots


def test_local_spark_has_no_dynamic_allocation() -> None:
    assert Allocation.of(dynamic(), local=True) == Allocation()
