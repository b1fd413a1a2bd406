"""The archive of classes that Spark's JVM loads (Java's class-data sharing): with it the JVM is up in about half the processor time.

It is an aid and nothing else. One that is missing, of another Java, of other jars, damaged, or written by somebody else is not used, and the JVM
starts without it. It is looked for in the installation, and then in the user's cache, where `ingester/spark/training.py` makes it. Makes none
itself.
"""

from __future__ import annotations

import hashlib
import os
import stat
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

VARIABLE = "DSTREAM_JVM_ARCHIVE"
"""The environment variable: another folder for archives, or `off`."""
OFF = "off"
_TURNED_OFF = ("", OFF, "false", "0", "no")
CLASSES, BASE = "classes.jsa", "base.jsa"
"""Spark's classes; and Java's own, for a Java that comes without an archive of them."""
QUIET = "-Xlog:cds*=off"
"""Says nothing of classes that an archive cannot hold, or of an archive that does not fit."""
_FREE = ("-Dlog4j2.", "-Djava.io.tmpdir=", "-Xms", "-Xmn", "-Xmx")
"""Options that may differ between the JVM that makes an archive and one that uses it."""
_FORMAT = "1"
"""Another one for each change of what an archive holds."""


def folders(environment: Mapping[str, str]) -> list[Path]:
    """Where archives are looked for, in this order; the last is where they are made. Empty: nowhere."""
    named = environment.get(VARIABLE)
    if named is not None:
        return [] if named.lower() in _TURNED_OFF or refused(environment) else [Path(named)]
    cache = environment.get("XDG_CACHE_HOME") or (environment["HOME"] + "/.cache" if "HOME" in environment else None)
    own = [] if cache is None else [Path(cache, "dstream", "jvm")]
    return [Path(sys.prefix, "share", "dstream", "jvm"), *own]


def refused(environment: Mapping[str, str]) -> str | None:
    """Why the variable's value cannot be used: a relative path would be another folder for each place where a process is started."""
    named = environment.get(VARIABLE, "")
    if named.lower() in _TURNED_OFF or Path(named).is_absolute():
        return None
    return f"{VARIABLE} must be an absolute path or {OFF}, not {named!r}"


def key(java: Path, options: Sequence[str]) -> str:
    """The name of the archive for this Java and these options: the folders of jars in them count with their dates. Raises OSError."""
    real = java.resolve()
    release = real.parent.parent / "release"  # an upgrade in place may leave the binary as it was
    files = [real, *([release] if release.is_file() else [])]
    jars = [entry for option in options for entry in option.split(":") if entry.endswith(".jar")]
    seen = [f"{path} {(found := path.stat()).st_size} {int(found.st_mtime)}" for path in (*files, *map(Path, jars))]
    kept = [option for option in options if not option.startswith(_FREE)]
    return hashlib.sha256(repr((_FORMAT, seen, kept)).encode()).hexdigest()[:16]


def found(name: str, environment: Mapping[str, str]) -> Path | None:
    """The folder of the archive with this name, if there is one that this user may trust."""
    for folder in folders(environment):
        if safe(folder) and _trusted(folder / name) and _trusted(folder / name / CLASSES):
            return folder / name
    return None


def use(archive: Path) -> list[str]:
    """Java's options for it. Its checksums are compared, since a damaged class would end the JVM at any time."""
    parts = [str(path) for path in (archive / BASE, archive / CLASSES) if path.exists()]
    return ["-Xshare:auto", f"-XX:SharedArchiveFile={':'.join(parts)}", "-XX:+VerifySharedSpaces", QUIET]


def safe(folder: Path) -> bool:
    """Whether nobody else could exchange what lies in it: only this user and root write it, and own the folders above it."""
    try:
        real = folder.resolve()
        return _trusted(real) and all(map(_keeps, real.parents))
    except OSError:
        return False


def mapped(archive: Path, process: int, proc: Path = Path("/proc")) -> bool | None:
    """Whether Java, in this process, uses it. None where nobody can say: elsewhere than on Linux, or for a process that has ended."""
    try:
        maps = (proc / str(process) / "maps").read_text()
    except OSError:
        return None
    return str((archive / CLASSES).resolve()) in maps if maps else None


def _keeps(folder: Path) -> bool:
    """Whether others cannot rename what it holds. A group may: where a user has a group of his own, that is usual."""
    status = folder.stat()
    return status.st_uid in (0, os.getuid()) and (
        not status.st_mode & stat.S_IWOTH or bool(status.st_mode & stat.S_ISVTX)
    )


def _trusted(path: Path) -> bool:
    """Whether nobody else could have written it: it is code that will run."""
    try:
        status = path.lstat()
    except OSError:
        return False
    return status.st_uid in (0, os.getuid()) and not status.st_mode & 0o022
