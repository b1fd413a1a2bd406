"""The manifests under deploy/kubernetes as Python values: rendered by `kubectl kustomize`, parsed by kubectl, because Python has no YAML."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

Manifest = dict[str, Any]

FOLDER = Path(__file__).parents[3] / "deploy/kubernetes"
OVERLAYS = ("base", *sorted(f"overlays/{path.name}" for path in (FOLDER / "overlays").iterdir()))
COMPONENTS = tuple(sorted(f"components/{path.name}" for path in (FOLDER / "components").iterdir()))

_TEMPLATES = ("Deployment", "Job")


def kubectl() -> str | None:
    return shutil.which("kubectl")


def rendered(folder: Path) -> str:
    """As YAML. Raises RuntimeError with what kubectl said."""
    return _run(["kustomize", str(folder)])


def with_component(component: str, folder: Path) -> Path:
    """A kustomization in `folder` that adds a component to the base, in its namespace as the overlays are."""
    names = {"resources": "base", "components": component}
    lines = [f"{kind}: [{os.path.relpath(FOLDER / name, folder)}]" for kind, name in names.items()]
    text = "\n".join(
        ["apiVersion: kustomize.config.k8s.io/v1beta1", "kind: Kustomization", "namespace: dstream", *lines, ""]
    )
    (folder / "kustomization.yaml").write_text(text)
    return folder


def console_with_changes(folder: Path) -> Path:
    """As `with_component`, for a console that may change something: with the lines that its component shows in a comment."""
    shown = (FOLDER / "components/console/kustomization.yaml").read_text().partition("# patches:\n")[2]
    lines = [line.removeprefix("# ") for line in shown.splitlines() if line.startswith("# ")]
    with_component("components/console", folder)
    with (folder / "kustomization.yaml").open("a") as file:
        file.write("\n".join(["patches:", *lines, ""]))
    return folder


def parsed(text: str) -> list[Manifest]:
    """The objects of a stream of YAML documents."""
    printed = _run(["label", "--local", "--filename=-", "--output=json", "tests/parsed=yes"], stdin=text)
    return list(_documents(printed))


def _documents(text: str) -> Iterator[Manifest]:
    decoder, at = json.JSONDecoder(), 0
    while text[at:].strip():
        at += len(text[at:]) - len(text[at:].lstrip())
        document, at = decoder.raw_decode(text, at)
        del document["metadata"]["labels"]["tests/parsed"]
        yield document


def only(objects: Sequence[Manifest], kind: str, name: str) -> Manifest:
    [found] = [each for each in objects if (each["kind"], each["metadata"]["name"]) == (kind, name)]
    return found


def templates(objects: Sequence[Manifest]) -> dict[str, Manifest]:
    """By name of the Deployment or Job, the template of its pods."""
    return {each["metadata"]["name"]: each["spec"]["template"] for each in objects if each["kind"] in _TEMPLATES}


def containers(template: Mapping[str, Any]) -> list[Manifest]:
    return list(template["spec"]["containers"])


def _run(arguments: Sequence[str], stdin: str | None = None) -> str:
    result = subprocess.run(["kubectl", *arguments], input=stdin, capture_output=True, text=True, timeout=60)
    if result.returncode != 0:
        raise RuntimeError(f"kubectl {arguments[0]}: {result.stderr.strip()}")
    return result.stdout
