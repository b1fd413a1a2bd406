"""Images without a registry: the one that every pod needs, and a Debian with Python to build on."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

from tests.kubernetes.cluster.places import BIN

BASE = "localhost/debian:bookworm"
PAUSE = "localhost/pause:1"
_BUILDAH = {"STORAGE_DRIVER": "vfs", "BUILDAH_ISOLATION": "chroot"}
"""What works on any file system and without a container engine."""


def environment() -> dict[str, str]:
    """For buildah."""
    return {**_BUILDAH, **os.environ}


def write_pause(archive: Path) -> None:
    """A Docker archive with an image of one layer and one file."""
    with io.BytesIO() as layer:
        with tarfile.open(fileobj=layer, mode="w") as tar:
            tar.add(BIN / "pause", "pause")
        content = layer.getvalue()
    config = json.dumps(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": {"Entrypoint": ["/pause"], "User": "65535:65535"},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(content).hexdigest()}"]},
        }
    ).encode()
    name = f"{hashlib.sha256(config).hexdigest()}.json"
    manifest = json.dumps([{"Config": name, "RepoTags": [PAUSE], "Layers": ["layer.tar"]}]).encode()
    with tarfile.open(archive, "w") as tar:
        for file, data in ((name, config), ("layer.tar", content), ("manifest.json", manifest)):
            entry = tarfile.TarInfo(file)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))


def make_base() -> None:
    """The image BASE, unless it is there. Debian's mirror is that of this machine."""
    if subprocess.run(["buildah", "inspect", BASE], env=environment(), capture_output=True).returncode == 0:
        return
    with tempfile.TemporaryDirectory() as work:
        root = Path(work, "root")
        included = "--include=python3,python3-venv,ca-certificates"
        mirror = _mirror()
        subprocess.run(
            ["debootstrap", "--variant=minbase", included, "bookworm", str(root), *([mirror] if mirror else [])],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        for unread in ("var/lib/apt/lists", "var/cache/apt", "usr/share/doc", "usr/share/man", "usr/share/locale"):
            shutil.rmtree(root / unread)
            (root / unread).mkdir()
        subprocess.run(["tar", "-C", str(root), "-cf", f"{work}/base.tar", "."], check=True)
        Path(work, "Containerfile").write_text('FROM scratch\nADD base.tar /\nCMD ["/bin/bash"]\n')
        build = ["buildah", "bud", "-q", "-t", BASE, "-f", f"{work}/Containerfile", work]
        subprocess.run(build, check=True, env=environment(), stdout=subprocess.DEVNULL)


def _mirror() -> str | None:
    sources = [Path("/etc/apt/sources.list"), *sorted(Path("/etc/apt/sources.list.d").glob("*"))]
    for path in sources:
        for line in path.read_text().splitlines() if path.is_file() else []:
            if line.startswith("URIs:"):
                return line.split()[1]
            if line.startswith("deb "):
                return next((word for word in line.split() if word.startswith("http")), None)
    return None
