"""The schemas of the custom resources that the manifests use, from the Go modules of KEDA and the Prometheus operator; the hashes are checked."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Module:
    """`sum`: as go.sum writes it. `files`: under the module's folder."""

    path: str
    version: str
    sum: str
    files: tuple[str, ...]


MODULES = (
    Module(
        "github.com/kedacore/keda/v2",
        "v2.16.1",
        "h1:LfYsxfSX8DjetLW8q9qnriImH936POrQJvE+caRoScI=",
        ("config/crd/bases/keda.sh_scaledobjects.yaml", "config/crd/bases/keda.sh_triggerauthentications.yaml"),
    ),
    Module(
        "github.com/prometheus-operator/prometheus-operator",
        "v0.85.0",
        "h1:M5xLCLEoaW2IJfnuCwFzzpL+jSVQu3KGT84Pye+fW8s=",
        (
            "example/prometheus-operator-crd/monitoring.coreos.com_podmonitors.yaml",
            "example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml",
        ),
    ),
)


def definitions() -> Iterator[Path]:
    """The files. Raises RuntimeError when a module cannot be had or is not the one that was looked at."""
    for module in MODULES:
        folder = _downloaded(module)
        yield from (folder / name for name in module.files)


def _downloaded(module: Module) -> Path:
    command = ["go", "mod", "download", "-json", f"{module.path}@{module.version}"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd="/")
    if result.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {result.stdout.strip()} {result.stderr.strip()}")
    downloaded = json.loads(result.stdout)
    if downloaded["Sum"] != module.sum:
        raise RuntimeError(f"{module.path}@{module.version} has the hash {downloaded['Sum']}, not {module.sum}")
    return Path(downloaded["Dir"])
