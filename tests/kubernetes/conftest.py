"""The cluster and the images in it, once for all tests that need them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.kubernetes.cluster import __main__ as cluster
from tests.kubernetes.cluster import images, programs
from tests.kubernetes.cluster.places import ROOT

PROJECT = Path(__file__).parents[2]
_TARGETS = ("ingester", "router", "demo", "azurite")


@pytest.fixture(scope="session")
def running() -> Iterator[None]:
    """A cluster of two nodes with the images of this tree.

    DSTREAM_TEST_CLUSTER=keep leaves it running, and uses one that runs: for those who write such a test.
    """
    if reason := programs.missing():
        pytest.skip(f"no Kubernetes here: {reason}")
    keep = os.environ.get("DSTREAM_TEST_CLUSTER") == "keep"
    archives = built(PROJECT, "dev")
    if not (keep and cluster.nodes()):
        cluster.up()
    cluster.load(*map(str, archives))
    try:
        yield
    finally:
        if not keep:
            cluster.down()


def built(tree: Path, tag: str, targets: Sequence[str] = _TARGETS) -> list[Path]:
    """The images of a tree of DStream, in archives."""
    cluster.base()
    folder = ROOT / "images" / tag
    options = {
        "BASE": images.BASE,
        "BUILD_OPTIONS": "--pull-never",
        "BUILDER": "buildah",
        "SAVE": str(folder),
        "TAG": tag,
    }
    build = [str(tree / "deploy/image/build"), *targets]
    subprocess.run(build, check=True, cwd=tree, env={**images.environment(), **options})
    return [folder / f"{target}.tar" for target in targets]
