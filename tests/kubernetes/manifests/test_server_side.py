"""A real API server takes every manifest of deploy/kubernetes, custom resources included, and admits its pods under the restricted profile."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.kubernetes.manifests import server
from tests.kubernetes.manifests.crds import definitions
from tests.kubernetes.manifests.rendering import (
    COMPONENTS,
    FOLDER,
    OVERLAYS,
    Manifest,
    only,
    parsed,
    rendered,
    templates,
    with_component,
)

pytestmark = [
    pytest.mark.skipif(server.missing() is not None, reason=str(server.missing())),
    pytest.mark.timeout(600),
]

NAMESPACE = "dstream"


@pytest.fixture(scope="module")
def api() -> Iterator[server.ApiServer]:
    """With the namespace and the accounts of the pods, and with the schemas of custom resources."""
    with server.api_server() as found:
        found.must("apply", "--server-side", *(f"--filename={path}" for path in definitions()))
        found.must("wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
        objects = parsed(rendered(FOLDER / "base"))
        begin = [each for each in objects if each["kind"] in ("Namespace", "ServiceAccount")]
        begin.append(account("default"))  # what a controller makes in a whole cluster
        found.must("apply", "--server-side", "--filename=-", stdin=stream(begin))
        yield found


def account(name: str) -> Manifest:
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": NAMESPACE}}


def stream(objects: list[Manifest]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_every_object_of_an_overlay_is_taken(api: server.ApiServer, overlay: str) -> None:
    assert api.refuses(rendered(FOLDER / overlay)) is None


@pytest.mark.parametrize("component", COMPONENTS)
def test_every_object_of_a_component_is_taken(api: server.ApiServer, component: str, tmp_path: Path) -> None:
    assert api.refuses(rendered(with_component(component, tmp_path))) is None


def test_every_object_of_the_other_folders_is_taken(api: server.ApiServer) -> None:
    """Alert rules and the dashboard."""
    for path in FOLDER.parent.glob("*/kustomization.yaml"):
        assert api.refuses(rendered(path.parent)) is None


@pytest.mark.parametrize("kind", ["Deployment", "NetworkPolicy", "PodDisruptionBudget", "ScaledObject", "PodMonitor"])
def test_a_misspelt_field_of_any_kind_would_be_refused(api: server.ApiServer, kind: str) -> None:
    damaged = next(each for each in parsed(rendered(FOLDER / "overlays/production")) if each["kind"] == kind)
    damaged["spec"]["misspelt"] = 1
    assert "misspelt" in (api.refuses(json.dumps(damaged)) or "")


def pod_of(name: str, template: Manifest) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": template["metadata"]["labels"]},
        "spec": template["spec"],
    }


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_restricted_profile_admits_every_pod(api: server.ApiServer, overlay: str) -> None:
    for name, template in templates(parsed(rendered(FOLDER / overlay))).items():
        assert api.refuses(json.dumps(pod_of(name, template))) is None


def _as_root(spec: Manifest) -> None:
    spec["securityContext"] = {"seccompProfile": {"type": "RuntimeDefault"}}


def _without_seccomp(spec: Manifest) -> None:
    del spec["securityContext"]["seccompProfile"]


def _with_capabilities(spec: Manifest) -> None:
    del spec["containers"][0]["securityContext"]["capabilities"]


def _gaining_privileges(spec: Manifest) -> None:
    spec["containers"][0]["securityContext"]["allowPrivilegeEscalation"] = True


def _on_the_host(spec: Manifest) -> None:
    spec["volumes"].append({"name": "host", "hostPath": {"path": "/"}})


@pytest.mark.parametrize(
    "violation", [_as_root, _without_seccomp, _with_capabilities, _gaining_privileges, _on_the_host]
)
def test_a_pod_that_may_do_more_would_not_be_admitted(
    api: server.ApiServer, violation: Callable[[Manifest], None]
) -> None:
    objects = parsed(rendered(FOLDER / "base"))
    pod = copy.deepcopy(pod_of("damaged", templates(objects)["dstream-ingester"]))
    violation(pod["spec"])
    assert 'violates PodSecurity "restricted' in (api.refuses(json.dumps(pod)) or "")


def test_the_namespace_is_the_one_that_enforces() -> None:
    for overlay in OVERLAYS:
        labels = only(parsed(rendered(FOLDER / overlay)), "Namespace", NAMESPACE)["metadata"]["labels"]
        assert labels["pod-security.kubernetes.io/enforce"] == "restricted"
