"""The archive of classes that Spark's JVM loads (Java's class-data sharing): with it the JVM is up in about half the processor time.

It is an aid and nothing else. One that is missing, of another Java, of other jars, damaged, or written by somebody else is not used, and the JVM
starts without it. It is looked for in the installation, where an image has it, and then in the user's cache, where `ingester/spark/training.py`
makes it. Makes none itself.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

VARIABLE = "DSTREAM_JVM_ARCHIVE"
"""The environment variable: another folder for archives, or `off`."""
OFF = "off"
CLASSES, BASE = "classes.jsa", "base.jsa"
"""Spark's classes; and Java's own, for a Java that comes without an archive of them."""
QUIET = "-Xlog:cds*=off"
"""Says nothing of classes that an archive cannot hold, or of an archive that does not fit."""
_FREE = ("-Dlog4j2.", "-Xmx")
"""Options that may differ between the JVM that makes an archive and one that uses it."""
_FORMAT = "1"
"""Another one for each change of what an archive holds."""


def folders(environment: Mapping[str, str]) -> list[Path]:
    """Where archives are looked for, in this order; the last is where they are made. Empty: nowhere."""
    named = environment.get(VARIABLE)
    if named is not None:
        return [] if named in ("", OFF) else [Path(named)]
    cache = environment.get("XDG_CACHE_HOME") or (environment["HOME"] + "/.cache" if "HOME" in environment else None)
    own = [] if cache is None else [Path(cache, "dstream", "jvm")]
    return [Path(sys.prefix, "share", "dstream", "jvm"), *own]


def key(java: Path, options: Sequence[str]) -> str:
    """The name of the archive for this Java and these options: the folders of jars in them count with their dates. Raises OSError."""
    real = java.resolve()
    jars = [entry for option in options for entry in option.split(":") if entry.endswith(".jar")]
    seen = [f"{path} {(found := path.stat()).st_size} {int(found.st_mtime)}" for path in (real, *map(Path, jars))]
    kept = [option for option in options if not option.startswith(_FREE)]
    return hashlib.sha256(repr((_FORMAT, seen, kept)).encode()).hexdigest()[:16]


def found(name: str, environment: Mapping[str, str]) -> Path | None:
    """The folder of the archive with this name, if there is one that this user may trust."""
    for folder in folders(environment):
        if _trusted(folder / name) and _trusted(folder / name / CLASSES):
            return folder / name
    return None


def use(archive: Path) -> list[str]:
    """Java's options for it. Its checksums are compared, since a damaged class would end the JVM at any time."""
    parts = [str(path) for path in (archive / BASE, archive / CLASSES) if path.exists()]
    return ["-Xshare:auto", f"-XX:SharedArchiveFile={':'.join(parts)}", "-XX:+VerifySharedSpaces", QUIET]


def _trusted(path: Path) -> bool:
    """Whether nobody else could have written it: it is code that will run."""
    try:
        status = path.lstat()
    except OSError:
        return False
    return status.st_uid in (0, os.getuid()) and not status.st_mode & 0o022
