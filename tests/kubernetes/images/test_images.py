"""The images, run as a cluster runs them: restricted, on a read-only root, with /tmp alone to write to, and as a user that no image knows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from tests.kubernetes.campaign.world import World

pytestmark = pytest.mark.timeout(900)

_OWN, _FOREIGN = 10001, 1000730000
_LEFT_OUT = "import importlib.util as u, json; print(json.dumps([n for n in {names!r} if u.find_spec(n) is not None]))"
_BILL = "import json; print(len(json.load(open('/opt/dstream/sbom.cdx.json'))['components']))"


@pytest.fixture(scope="module")
def world(running: None) -> World:
    world = World("images")
    world.kubectl("delete", "namespace", "images", "--ignore-not-found", timeout=120)
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    world.apply(json.dumps({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "images", "labels": labels}}))
    account = ["get", "serviceaccount", "default"]
    world.until(60, "a service account", lambda: bool(world.kubectl(*account)))
    return world


def ran(
    world: World, name: str, image: str, words: Sequence[str], *, bare: bool = False, user: int = _OWN
) -> tuple[str, str]:
    """How a pod ended and what it printed. `bare`: in place of the image's entry point."""
    world.apply(json.dumps(_pod(name, image, words, bare=bare, user=user)))
    phase = ["get", "pod", name, "-o", "jsonpath={.status.phase}"]
    world.until(420, f"{name} has ended", lambda: world.kubectl(*phase) in ("Succeeded", "Failed"))
    return world.kubectl(*phase), world.kubectl("logs", name)


def _pod(name: str, image: str, words: Sequence[str], *, bare: bool, user: int) -> dict[str, Any]:
    container = {
        "name": "it",
        "image": f"localhost/dstream/{image}:dev",
        "imagePullPolicy": "Never",
        "command" if bare else "args": [*words],
        "resources": {"requests": {"cpu": "500m"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
    }
    context = {"runAsNonRoot": True, "runAsUser": user, "seccompProfile": {"type": "RuntimeDefault"}}
    spec = {"restartPolicy": "Never", "automountServiceAccountToken": False, "securityContext": context}
    volumes = {"containers": [container], "volumes": [{"name": "tmp", "emptyDir": {}}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {**spec, **volumes}}


@pytest.mark.parametrize("image", ["router", "ingester", "demo"])
def test_an_image_starts_dstream(world: World, image: str) -> None:
    phase, printed = ran(world, f"version-{image}", image, ["--version"])
    assert (phase, printed.startswith("dstream ")) == ("Succeeded", True), printed


@pytest.mark.parametrize(
    ("image", "names"),
    [
        ("router", ["pyspark", "py4j", "pymssql", "orjson", "emulators", "tests", "pytest"]),
        ("ingester", ["pyspark.ml", "emulators", "sqlglot", "tests", "pytest", "hatchling"]),
    ],
)
def test_an_image_lacks_what_it_does_not_need(world: World, image: str, names: list[str]) -> None:
    words = ["python", "-c", _LEFT_OUT.format(names=names)]
    phase, printed = ran(world, f"lacks-{image}", image, words, bare=True)
    assert (phase, json.loads(printed)) == ("Succeeded", [])


@pytest.mark.parametrize(("image", "least"), [("router", 30), ("ingester", 150)])
def test_an_image_has_its_bill_of_materials(world: World, image: str, least: int) -> None:
    phase, printed = ran(world, f"bill-{image}", image, ["python", "-c", _BILL], bare=True)
    assert phase == "Succeeded"
    assert int(printed) >= least


@pytest.mark.parametrize("user", [_OWN, _FOREIGN])
def test_the_demo_runs_in_its_image(world: World, user: int) -> None:
    """With the jars, the Java and the packages that the ingester's image has."""
    phase, printed = ran(world, f"demo-{user}", "demo", ["demo", "--seconds", "5"], user=user)
    assert phase == "Succeeded", printed
    assert "Every committed change arrived once, in order, with its values." in printed
