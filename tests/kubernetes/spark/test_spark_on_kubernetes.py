"""The driver in the ingester's pod, executors as pods: what is promised when one is lost, and when the ingester goes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.kubernetes.campaign.world import Pod, World
from tests.kubernetes.spark.overlay import written

pytestmark = pytest.mark.timeout(1800)

_EXECUTOR = "spark-executor"
_EXECUTORS = 2


@pytest.fixture(scope="module")
def world(running: None, tmp_path_factory: pytest.TempPathFactory) -> World:
    world = World("spark", written(tmp_path_factory.mktemp("overlay"), "spark"))
    world.set_up()
    world.settled("ingester", 1, 420)
    world.settled(_EXECUTOR, _EXECUTORS, 240)
    return world


def test_an_executor_is_deleted_under_load(world: World) -> None:
    before = {pod.name for pod in world.pods(_EXECUTOR)}

    def delete() -> None:
        [lost, _] = world.settled(_EXECUTOR, _EXECUTORS)
        world.delete(lost, grace=0)
        world.until(240, "another executor", lambda: len(_working(world) - {lost.name}) == _EXECUTORS)

    verdict = world.verdict(delete, seconds=60, changes=3000, name="executor")
    print(verdict.output)
    assert verdict.good, verdict.output
    assert _working(world) != before
    [ingester] = world.pods("ingester")
    assert ingester.restarts == 0, world.logs(ingester, previous=True)


def test_executors_are_restricted_and_know_no_api_server(world: World) -> None:
    """The namespace admits no other pods."""
    [enforced] = [each for each in world.overlay if each["kind"] == "Namespace"]
    assert enforced["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    for pod in _described(world):
        assert pod["spec"]["automountServiceAccountToken"] is False
        assert all(each["securityContext"]["readOnlyRootFilesystem"] for each in pod["spec"]["containers"])


def test_no_executor_outlives_its_ingester(world: World) -> None:
    [ingester] = world.settled("ingester", 1)
    assert {_owner(pod) for pod in _described(world)} == {ingester.name}
    world.delete(ingester, grace=0)  # it cannot end its executors itself
    world.until(240, "an ingester of its own", lambda: _another(world.pods("ingester"), ingester))
    world.until(
        240, "no executor of the first", lambda: ingester.name not in {_owner(pod) for pod in _described(world)}
    )
    world.settled(_EXECUTOR, _EXECUTORS, 240)
    world.scale("ingester", 0)
    world.until(120, "no executor", lambda: not world.pods(_EXECUTOR))


def _working(world: World) -> set[str]:
    return {pod.name for pod in world.pods(_EXECUTOR) if pod.ready and not pod.leaving}


def _described(world: World) -> list[dict[str, Any]]:
    printed = world.kubectl("get", "pods", "-l", f"app.kubernetes.io/component={_EXECUTOR}", "-o", "json")
    return list(json.loads(printed)["items"])


def _owner(pod: dict[str, Any]) -> str:
    [owner] = pod["metadata"]["ownerReferences"]
    return str(owner["name"])


def _another(pods: list[Pod], first: Pod) -> bool:
    return [pod.ready for pod in pods if pod.name != first.name] == [True]
