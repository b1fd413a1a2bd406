"""The development overlay with Spark's executors in pods of their own: the component and its settings, as an operator adds them."""

from __future__ import annotations

import os
from pathlib import Path

KUBERNETES = Path(__file__).parents[3] / "deploy/kubernetes"
COMPONENT = KUBERNETES / "components/spark-on-kubernetes"
_DEVELOPMENT = KUBERNETES / "overlays/development"
_LOCAL = '    spark {\n        master = "local[4]"\n    }\n'
_IMAGE, _OURS = "registry.example.com/dstream/ingester:0.1.0", "localhost/dstream/ingester:dev"


def configuration() -> str:
    """dstream.hcl of the development overlay, with the component's settings in place of a local Spark."""
    text, settings = (_DEVELOPMENT / "dstream.hcl").read_text(), (COMPONENT / "spark.hcl").read_text()
    assert _LOCAL in text
    assert _IMAGE in settings
    return text.replace(_LOCAL, settings.replace(_IMAGE, _OURS))


def written(folder: Path, namespace: str) -> Path:
    """An overlay in `folder`. One ingester: its executors are counted."""
    (folder / "dstream.hcl").write_text(configuration())
    (folder / "kustomization.yaml").write_text(f"""\
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
namespace: {namespace}
resources: [{_from(folder, _DEVELOPMENT)}]
components: [{_from(folder, COMPONENT)}]
configMapGenerator:
  - name: dstream-config
    behavior: replace
    files: [dstream.hcl]
replicas:
  - name: dstream-ingester
    count: 1
""")
    return folder


def _from(folder: Path, place: Path) -> str:
    """kustomize takes no absolute path."""
    return os.path.relpath(place, folder.resolve())
