"""Prints a bill of materials (CycloneDX 1.5, JSON) of what an image adds to its base: `python sbom.py [--java FOLDER]`.

Runs in the environment that it describes: Python packages by their metadata, Spark's jars by theirs, the Java runtime by its release file.
What Debian installed is in the image's package database (`dpkg-query -W`), as on any Debian.
"""

from __future__ import annotations

import argparse
import json
import re
import zipfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

_SELF = "dstream-cdc"
_NAMED = re.compile(r"(?P<name>.+?)-(?P<version>\d[\w.+-]*)\.jar")
Component = dict[str, Any]


def document(components: list[Component]) -> dict[str, Any]:
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": _component("application", _SELF, metadata.version(_SELF), f"pkg:pypi/{_SELF}")},
        "components": sorted(components, key=lambda component: component["bom-ref"]),
    }


def packages() -> Iterator[Component]:
    for found in metadata.distributions():
        name = re.sub(r"[-_.]+", "-", found.metadata["Name"]).lower()
        if name != _SELF:
            expression = found.metadata.get("License-Expression")
            licence = {"licenses": [{"expression": expression}]} if expression else {}
            yield _component("library", name, found.version, f"pkg:pypi/{name}") | licence


def jars(folder: Path) -> Iterator[Component]:
    for jar in folder.glob("*.jar"):
        yield _of_maven(jar) or _of_name(jar)


def runtime(folder: Path) -> Component:
    release = (folder / "release").read_text()
    found = re.search(r'^JAVA_RUNTIME_VERSION="?([^"\n]+)', release, re.MULTILINE) or re.search(
        r'^JAVA_VERSION="?([^"\n]+)', release, re.MULTILINE
    )
    assert found is not None, release
    licence = {"licenses": [{"expression": "GPL-2.0-only WITH Classpath-exception-2.0"}]}
    return _component("platform", "openjdk", found.group(1), "pkg:generic/openjdk") | licence


def _of_maven(jar: Path) -> Component | None:
    """By its Maven coordinates, if it names exactly one artifact: a shaded jar names those that it contains."""
    with zipfile.ZipFile(jar) as archive:
        inside = [name for name in archive.namelist() if re.fullmatch(r"META-INF/maven/.+/pom\.properties", name)]
        if len(inside) != 1:
            return None
        lines = archive.read(inside[0]).decode("utf-8", "replace").splitlines()
    properties = dict(line.strip().split("=", 1) for line in lines if "=" in line and not line.startswith("#"))
    group, name, version = properties["groupId"], properties["artifactId"], properties["version"]
    return _component("library", name, version, f"pkg:maven/{group}/{name}") | {"group": group}


def _of_name(jar: Path) -> Component:
    found = _NAMED.fullmatch(jar.name)
    name, version = (found["name"], found["version"]) if found else (jar.stem, "unknown")
    return _component("library", name, version, f"pkg:generic/{name}")


def _component(kind: str, name: str, version: str, package: str) -> Component:
    address = f"{package}@{version}"
    return {"type": kind, "bom-ref": address, "name": name, "version": version, "purl": address}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--java", type=Path, metavar="FOLDER", help="a Java runtime that the image contains")
    options = parser.parse_args()
    components = [*packages()]
    if options.java is not None:
        components.append(runtime(options.java))
        components += jars(Path(str(metadata.distribution("pyspark").locate_file("pyspark")), "jars"))
    print(json.dumps(document(components), indent=1))


if __name__ == "__main__":
    main()
